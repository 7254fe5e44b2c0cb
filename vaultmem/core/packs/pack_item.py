"""One item of a pack: a section, its source and its quoted text.

Note text is shown as a block quote, each line after `> `. So a note's text cannot begin a line of
the pack: it can neither end its quote nor start a group.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from vaultmem.core.lifecycle import INSTRUCTION_KINDS, NoteKind, NoteState
from vaultmem.core.notes.conflict import ConflictingText
from vaultmem.core.packs.passages import Span, Unit, render_passages, split_text
from vaultmem.core.search.query import Hit
from vaultmem.core.text.display import clean_text, one_line, truncate_line
from vaultmem.errors import RefusedError


class PackSource(NamedTuple):
    """The source of a pack: branch, commit ("" before the first) and its time in seconds.

    Without a commit, the time is that of the newest considered note, 0 if there is none. `others`
    are the other refs in the view, each a name and a commit.
    """

    branch: str
    commit: str
    at: int
    others: tuple[tuple[str, str], ...] = ()


class PackStyle(StrEnum):
    """The format of a pack: markdown, or the plain text that hooks inject."""

    MARKDOWN = "markdown"
    TEXT = "text"


class PackPart(StrEnum):
    """The parts of a pack, in their order: instructions, preferences, and evidence."""

    INSTRUCTIONS = "instructions"
    PREFERENCES = "preferences"
    EVIDENCE = "evidence"


class PackLabels(StrEnum):
    """The labels of sections: what an agent needs, or everything that is known."""

    SHORT = "short"
    FULL = "full"


def parse_labels(text: str) -> PackLabels:
    """Return the labels with a name.

    Raises:
        RefusedError: there are none.
    """
    try:
        return PackLabels(text)
    except ValueError:
        raise RefusedError(f'"{text}" are not labels; use {" or ".join(PackLabels)}') from None


class PackForm(NamedTuple):
    """The format of a pack. `year` is the year in its head, which short labels omit."""

    style: PackStyle = PackStyle.MARKDOWN
    labels: PackLabels = PackLabels.SHORT
    year: str = ""


class PackItem(NamedTuple):
    """A section in a pack. `text` is the shown text; `shortened` means that it is not all.

    `caution` is why it must be checked before use. `conflict` is the sentence before it about a
    contradicting section. `handle` is the prefix of the note's blob id, "" for the default length.
    `parts` are the passages shown of a shortened section. `duplicate_count` includes this section.
    `conflicting_texts` is the shown text of another side of a merge.
    """

    hit: Hit
    text: str
    pinned: bool
    trusted: bool
    shortened: bool
    caution: str = ""
    conflict: str = ""
    handle: str = ""
    parts: tuple[Span, ...] = ()
    duplicate_count: int = 1
    conflicting_texts: tuple[ConflictingText, ...] = ()

    @property
    def part(self) -> PackPart:
        """The item's part. Untrusted and inactive notes are evidence."""
        record = self.hit.record
        if not self.trusted or record.state != NoteState.ACTIVE:
            return PackPart.EVIDENCE
        if record.kind in INSTRUCTION_KINDS:
            return PackPart.INSTRUCTIONS
        return PackPart.PREFERENCES if record.kind == NoteKind.PREFERENCE else PackPart.EVIDENCE


class OmissionReason(StrEnum):
    """Why a considered section is not shown.

    ROOM: it does not fit in the rest of the budget. SHARE: it is pinned or a preference, and does
    not fit in their share. ALIKE: another section states the same.
    """

    ROOM = "room"
    SHARE = "share"
    ALIKE = "alike"


class OmittedItem(NamedTuple):
    """A considered section that is not shown, and the reason.

    `instead` is the section that states the same. A pinned section can still be listed as a link.
    """

    hit: Hit
    why: OmissionReason
    pinned: bool = False
    instead: Hit | None = None


def quote(text: str) -> str:
    """Return text as a block quote, without control characters and outer blank lines."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    if not "".join(lines).isprintable():
        lines = [clean_text(line).rstrip() for line in lines]
    return "\n".join([f"> {line}" if line else ">" for line in lines])


@lru_cache(maxsize=4096)  # A section is rendered several times until it fits.
def plain_label(text: str) -> str:
    """Return text on one line, without the characters that mark labels."""
    return re.sub(r"\s+", " ", one_line(text).translate(_LABEL_MARKS)).strip().lstrip("#> ")


def format_related(hit: Hit) -> str:
    """Return heading and line of the related sections of a hit's note, or ""."""
    return ", ".join(
        f"#{truncate_line(plain_label(each.heading), _HEADING)} (line {each.line})"
        if each.heading
        else f"line {each.line}"
        for each in hit.related_sections
    )


#: Maximum characters of a heading in a reference.
_HEADING = 60


_LABEL_MARKS = str.maketrans({"[": "(", "]": ")", "|": "/"})


def changed_day(hit: Hit) -> str:
    """Return the day (UTC) of the note's own date, else of git or the file."""
    date = hit.record.updated or hit.record.created
    if date:
        return date[:10]
    return datetime.fromtimestamp(hit.record.changed, UTC).date().isoformat()


# The text units that a session was already shown, as digests of sentences, list items and lines.

#: Bytes of a digest: enough for the few thousand units of a session.
_BYTES = 8


def digest_shown(item: PackItem) -> list[str]:
    """Return the digests of the shown units of a section.

    The digests depend on the whole section, so after any change all its units are new.
    """
    return [name for name, _ in _list_units(item)]


def leave_out_had(item: PackItem, digests: Collection[str]) -> PackItem | None:
    """Return an item without the units that a session was shown, or None if nothing is left."""
    units = list(_list_units(item))
    new = [unit for name, unit in units if name not in digests]
    if len(new) == len(units):
        return item
    if not new:
        return None
    parts = tuple(sorted({span for unit in new for span in (unit.span, *unit.needs)}))
    text = render_passages(item.hit.text, parts)
    return item._replace(text=text, shortened=True, parts=parts)


def _list_units(item: PackItem) -> Iterator[tuple[str, Unit]]:
    text, record = item.hit.text, item.hit.record
    spans = item.parts if item.shortened else ((0, len(text)),)
    version = hashlib.blake2b(f"{item.hit.vault}:{record.path}\n{text}".encode("utf-8", "replace"))
    for unit in split_text(text):
        start, end = unit.span
        if any(first <= start and end <= last for first, last in spans):
            digest = version.copy()
            digest.update(f"\n{start}-{end}".encode())
            yield digest.hexdigest()[: 2 * _BYTES], unit
