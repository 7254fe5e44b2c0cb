"""Receipts, from which a pack can be replayed, and expectations about packs."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from vaultmem.core.indexing.section_texts import make_record
from vaultmem.core.notes.comments import strip_hidden
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.core.packs.pack_item import PackItem, PackLabels, PackSource, PackStyle
from vaultmem.core.packs.pack_text import Pack, PackUsage, render_pack
from vaultmem.core.packs.passages import Span, render_passages
from vaultmem.core.search.query import Hit
from vaultmem.core.text.json_values import as_json_object
from vaultmem.core.text.paths import parse_note_path
from vaultmem.errors import RefusedError, VaultError

#: Receipts of format 1 have packs with full labels.
FORMAT = 2

#: The stored key of each field that has another name there.
_KEYS = {
    "omitted_pins": "unshown",
    "unlisted_pin_count": "unnamed",
    "notices": "told",
    "answered_note": "beside",
    "duplicate_count": "alike",
    "has_conflicting_text": "otherwise",
}
_FIELDS = {key: name for name, key in _KEYS.items()}


class ShownSection(NamedTuple):
    """A section of a pack: the note's path and blob, the section's number and heading.

    `changed` is the date in its label if the note has none (seconds since the epoch). `parts` are
    the shown spans of its text, None for all. `has_conflicting_text` means that conflicting text of
    a merge was shown too.
    """

    path: str
    blob: str
    section: int
    heading: str
    changed: float
    refs: tuple[str, ...] = ()
    pinned: bool = False
    trusted: bool = False
    parts: tuple[Span, ...] | None = None
    caution: str = ""
    conflict: str = ""
    handle: str = ""
    answered_note: str = ""
    duplicate_count: int = 1
    has_conflicting_text: bool = False


class Receipt(NamedTuple):
    """The record of a pack: query, author, source, shown sections with their blobs, and usage.

    `vault` is the vault's folder. `digest` is the sha256 of the pack's UTF-8 text. `texts` contains
    the notes that were uncommitted, by blob id; bytes that are not UTF-8 are lone surrogates.
    """

    id: str
    time: str
    version: str
    vault: str
    agent: str
    session: str
    tool_call: str
    query: str
    source: PackSource
    shown: tuple[ShownSection, ...]
    omitted_pins: tuple[ShownSection, ...]
    unlisted_pin_count: int
    account: PackUsage
    digest: str
    texts: dict[str, str]
    style: PackStyle = PackStyle.MARKDOWN
    labels: PackLabels = PackLabels.SHORT
    notices: tuple[str, ...] = ()


def digest_text(text: str) -> str:
    """Return the sha256 of a pack's text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def list_shown(pack: Pack) -> tuple[ShownSection, ...]:
    """Return the sections that a pack shows, in its order."""
    return tuple(
        _describe(item.hit, item.pinned, item.trusted)._replace(
            parts=item.parts if item.shortened else None,
            caution=item.caution,
            conflict=item.conflict,
            handle=item.handle,
            duplicate_count=item.duplicate_count,
            has_conflicting_text=bool(item.conflicting_texts),
        )
        for item in pack.items
    )


def list_unshown(pack: Pack) -> tuple[ShownSection, ...]:
    """Return the pinned sections that a pack lists as links."""
    return tuple(_describe(hit) for hit in pack.omitted_pins)


def leave_out(receipt: Receipt, blobs: Set[str]) -> Receipt:
    """Return a receipt without the sections of these blobs."""
    shown_sections = tuple(each for each in receipt.shown if each.blob not in blobs)
    omitted_pins = tuple(each for each in receipt.omitted_pins if each.blob not in blobs)
    return receipt._replace(shown=shown_sections, omitted_pins=omitted_pins)


def rebuild_items(
    receipt: Receipt, read_blob: Callable[[str], bytes]
) -> tuple[list[PackItem], list[Hit]]:
    """Return a pack's shown items and its links, read by blob id.

    Raises:
        VaultError: a section is not in the note, as this version parses notes.
    """
    notes: dict[tuple[str, str], tuple[Note, NoteRecord]] = {}

    def find(entry: ShownSection) -> Hit:
        key = (entry.path, entry.blob)
        if key not in notes:
            note = parse_note(PurePosixPath(entry.path), read_blob(entry.blob))
            notes[key] = note, make_record(note)
        return _find_hit(*notes[key], entry)

    items = [_show(find(entry), entry) for entry in receipt.shown]
    return items, [find(entry) for entry in receipt.omitted_pins]


def render_receipt(receipt: Receipt, items: Sequence[PackItem], omitted_pins: Sequence[Hit]) -> str:
    """Return the pack's text, rendered again from its sections."""
    return render_pack(
        items,
        omitted_pins,
        receipt.unlisted_pin_count,
        receipt.source,
        receipt.account,
        receipt.style,
        receipt.labels,
        receipt.notices,
    )


def write_receipt(receipt: Receipt) -> str:
    """Return a receipt as JSON."""
    content = {"format": FORMAT, **list_values(receipt)}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()  # Lone surrogates as in JSON.


def list_values(receipt: Receipt) -> dict[str, Any]:
    """Return the values of a receipt as JSON values by stored key."""
    content = _rename_keys(as_json_object(receipt), _KEYS)
    for key in ("shown", "unshown"):
        content[key] = [_rename_keys(each, _KEYS) for each in content[key]]
    return content


def _rename_keys(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}


def parse_receipt(text: str) -> Receipt:
    """Return the receipt in a JSON text.

    Raises:
        VaultError: it is not a receipt, or has a newer format.
    """
    try:
        content = _rename_keys(json.loads(text), _FIELDS)
        format_number = content.pop("format")
        if format_number not in {1, FORMAT}:
            raise VaultError("this receipt is of another format; use the vaultmem that made it")
        for name in ("shown", "omitted_pins"):
            content[name] = tuple(_parse_shown(entry) for entry in content[name])
        others = tuple(map(tuple, content["source"].pop("others", ())))
        content["source"] = PackSource(**content["source"], others=others)
        content["account"] = PackUsage(**content["account"])
        content["notices"] = tuple(content.get("notices", ()))
        content["style"] = PackStyle(content.get("style", PackStyle.MARKDOWN))
        labels = PackLabels.FULL if format_number == 1 else content.get("labels", PackLabels.SHORT)
        return Receipt(**{**content, "labels": PackLabels(labels)})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise VaultError(f"this is not a receipt ({type(error).__name__}: {error})") from None


def _describe(hit: Hit, pinned: bool = False, trusted: bool = False) -> ShownSection:
    record, section = hit.record, hit.section
    return ShownSection(
        path=record.path,
        blob=record.blob,
        section=section.ordinal,
        heading=section.heading,
        changed=record.changed,
        refs=hit.refs,
        pinned=pinned,
        trusted=trusted,
        answered_note=hit.answered_note,
    )


def _parse_shown(entry: dict[str, Any]) -> ShownSection:
    entry = _rename_keys(entry, _FIELDS)
    parts = entry.pop("parts", None)
    head = entry.pop("characters", -1)  # Older receipts shortened sections only at the end.
    spans = ((0, head),) if head >= 0 else parts and tuple(map(tuple, parts))
    return ShownSection(**{**entry, "refs": tuple(entry["refs"]), "parts": spans})


def _find_hit(note: Note, record: NoteRecord, entry: ShownSection) -> Hit:
    section = next((s for s in note.sections if s.ordinal == entry.section), None)
    if section is None or section.heading != entry.heading:
        raise VaultError(
            f"{entry.path}: this vaultmem divides the note otherwise than the one that made the "
            "receipt; use that version"
        )
    section_record = SectionRecord(
        document=0,
        ordinal=section.ordinal,
        heading=section.heading,
        parents=section.parents,
        start=section.start,
        end=section.end,
        line=section.line,
    )
    body = strip_hidden(note.visible[section.start : section.end]).strip()
    return Hit(
        record=record._replace(changed=entry.changed),
        section=section_record,
        text=body,
        score=0.0,
        matches=(),
        closeness=0.0,
        state_weight=1.0,
        refs=entry.refs,
        answered_note=entry.answered_note,
        conflicting_texts=note.conflicting_texts.get(section.ordinal, ()),
    )


def _show(hit: Hit, entry: ShownSection) -> PackItem:
    text = hit.text if entry.parts is None else render_passages(hit.text, entry.parts)
    return PackItem(
        hit=hit,
        text=text,
        pinned=entry.pinned,
        trusted=entry.trusted,
        shortened=entry.parts is not None,
        parts=entry.parts or (),
        caution=entry.caution,
        conflict=entry.conflict,
        handle=entry.handle,
        duplicate_count=entry.duplicate_count,
        conflicting_texts=hit.conflicting_texts if entry.has_conflicting_text else (),
    )


# Expectations about a pack, and their check.


@dataclass(frozen=True, slots=True)
class Expectation:
    """The pack for `query` shows these notes and texts; with `negated`, none of them.

    `addresses` are paths or addresses (`path#Heading`). `texts` are compared without case and line
    breaks. `budget` is in tokens, 0 for the vault's own.
    """

    query: str
    addresses: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    negated: bool = False
    budget: int = 0

    def __post_init__(self) -> None:
        """Reject an expectation that every pack fulfils."""
        if not any(map(str.strip, (*self.addresses, *self.texts))):
            raise RefusedError("nothing is expected; add --contains-note PATH or --contains TEXT")


def expect(
    query: str, addresses: Sequence[str], texts: Sequence[str], negated: bool, budget: int
) -> Expectation:
    """Return an expectation, after checking its paths.

    Raises:
        RefusedError: nothing is expected, or a path is not valid in a vault.
    """
    for address in addresses:
        parse_note_path(address.partition("#")[0])
    return Expectation(query, tuple(addresses), tuple(texts), negated, budget)


def judge_pack(pack: Pack, expectation: Expectation) -> list[str]:
    """Return the reasons why a pack is not as expected, as sentences; [] if it is."""
    addresses = {item.hit.record.path for item in pack.items}
    addresses |= {item.hit.address for item in pack.items}
    text = read_plain("\n".join(f"{item.hit.name}\n{item.text}" for item in pack.items))
    checks = [(f"shows {path}", path in addresses) for path in expectation.addresses]
    checks += [(f'contains "{words}"', read_plain(words) in text) for words in expectation.texts]
    if expectation.negated:
        return [f"the pack {claim}" for claim, is_so in checks if is_so]
    return [f"no section of the pack {claim}" for claim, is_so in checks if not is_so]


def find_expected(pack: Pack, expectation: Expectation) -> set[str]:
    """Return the paths of the notes in a pack that show or contain something expected."""
    texts = [read_plain(words) for words in expectation.texts]
    return {
        item.hit.record.path
        for item in pack.items
        if {item.hit.record.path, item.hit.address} & {*expectation.addresses}
        or any(map(read_plain(f"{item.hit.name}\n{item.text}").__contains__, texts))
    }


def read_plain(text: str) -> str:
    """Return a text for comparison, without case and line breaks."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
