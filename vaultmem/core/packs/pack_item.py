"""One item of a pack: a section, its source and its quoted text.

Note text is shown as a block quote, each line of it behind `> `. Whatever a note contains, it
cannot begin a line of the pack, so it can neither close its quote nor open a group.
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
from vaultmem.core.text.display import clean_text, one_line
from vaultmem.errors import RefusedError


class PackSource(NamedTuple):
    """Where a pack comes from: branch, commit ("" before the first) and its time in seconds.

    Without a commit, the time is that of the newest note that was considered, 0 if there is none.
    `others` are refs that were looked at together with it, each a name and a commit.
    """

    branch: str
    commit: str
    at: int
    others: tuple[tuple[str, str], ...] = ()


class PackStyle(StrEnum):
    """How a pack is written: as markdown, or as the plain text that hooks inject."""

    MARKDOWN = "markdown"
    TEXT = "text"


class PackPart(StrEnum):
    """A part of a pack, in their order: what instructs, what its owner prefers, and the rest."""

    INSTRUCTIONS = "instructions"
    PREFERENCES = "preferences"
    EVIDENCE = "evidence"


class PackLabels(StrEnum):
    """What stands above a section: what an agent acts on, or all that is known of it."""

    SHORT = "short"
    FULL = "full"


def parse_labels(text: str) -> PackLabels:
    """Return the labels of that name.

    Raises:
        RefusedError: there are none.
    """
    try:
        return PackLabels(text)
    except ValueError:
        raise RefusedError(f'"{text}" are not labels; use {" or ".join(PackLabels)}') from None


class PackForm(NamedTuple):
    """The form of a pack; `year` is that of its head, which short labels leave out."""

    style: PackStyle = PackStyle.MARKDOWN
    labels: PackLabels = PackLabels.SHORT
    year: str = ""


class PackItem(NamedTuple):
    """A section in a pack; `text` is what is shown of it, `shortened` that it is not all.

    `caution` says why it must be checked before use, `conflict` is the sentence before it about a
    section that contradicts it; both may be empty. `handle` is the beginning of the note's blob id
    that names it, "" for its first digits; `parts` are the passages of the section that a shortened
    one shows. `alike` are the sections that say the same, of which this one is shown; `otherwise`
    is what is shown of what another side of a merge says in place of it.
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
    alike: int = 1
    otherwise: tuple[ConflictingText, ...] = ()

    @property
    def part(self) -> PackPart:
        """Where it stands: what its owner did not put on record, or is not active, is evidence."""
        record = self.hit.record
        if not self.trusted or record.state != NoteState.ACTIVE:
            return PackPart.EVIDENCE
        if record.kind in INSTRUCTION_KINDS:
            return PackPart.INSTRUCTIONS
        return PackPart.PREFERENCES if record.kind == NoteKind.PREFERENCE else PackPart.EVIDENCE


class OmissionReason(StrEnum):
    """Why a section that was considered is not shown.

    It does not fit into what is left of the budget; or it is pinned, or a preference, and these
    take no more than a share of it; or another section says the same.
    """

    ROOM = "room"
    SHARE = "share"
    ALIKE = "alike"


class OmittedItem(NamedTuple):
    """A section that was considered and is not shown, and why.

    `instead` is the section that says the same. A pinned one may still be named by link.
    """

    hit: Hit
    why: OmissionReason
    pinned: bool = False
    instead: Hit | None = None


def quote(text: str) -> str:
    """Return text as a block quote, control characters and blank outer lines left out."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    if not "".join(lines).isprintable():
        lines = [clean_text(line).rstrip() for line in lines]
    return "\n".join([f"> {line}" if line else ">" for line in lines])


@lru_cache(maxsize=4096)  # A section is rendered several times until it fits.
def plain_label(text: str) -> str:
    """Return text in one line that cannot be taken for the marks of a label."""
    return re.sub(r"\s+", " ", one_line(text).translate(_LABEL_MARKS)).strip().lstrip("#> ")


def format_related(hit: Hit) -> str:
    """Name the further sections of a hit's note by heading and line; "" if there are none."""
    return ", ".join(
        f"#{_truncate_heading(each.heading)} (line {each.line})"
        if each.heading
        else f"line {each.line}"
        for each in hit.also
    )


def _truncate_heading(heading: str) -> str:
    plain = plain_label(heading)
    return plain if len(plain) <= _HEADING else f"{plain[: _HEADING - 3].rstrip()}..."


#: Characters of a heading that are shown where it is only named.
_HEADING = 60


_LABEL_MARKS = str.maketrans({"[": "(", "]": ")", "|": "/"})


def changed_day(hit: Hit) -> str:
    """Return the day (UTC) that the note's own date names, else git's or the file's."""
    written = hit.record.updated or hit.record.created
    if written:
        return written[:10]
    return datetime.fromtimestamp(hit.record.changed, UTC).date().isoformat()


# What of a section a session has had: its sentences, list items and lines, by a digest each.

#: Bytes of a digest: one of a session's few thousand units is not taken for another.
_BYTES = 8


def digest_shown(item: PackItem) -> list[str]:
    """Return the digests of what is shown of a section.

    They are of this version of it: a section that was changed anywhere is new throughout.
    """
    return [name for name, _ in _list_units(item)]


def leave_out_had(item: PackItem, had: Collection[str]) -> PackItem | None:
    """Return what is shown of a section without what a session has had, None if that is all."""
    units = list(_list_units(item))
    new = [unit for name, unit in units if name not in had]
    if len(new) == len(units):
        return item
    if not new:
        return None
    parts = tuple(sorted({span for unit in new for span in (unit.span, *unit.needs)}))
    text = render_passages(item.hit.text, parts)
    return item._replace(text=text, shortened=True, parts=parts)


def _list_units(item: PackItem) -> Iterator[tuple[str, Unit]]:
    text, record = item.hit.text, item.hit.record
    shown = item.parts if item.shortened else ((0, len(text)),)
    version = hashlib.blake2b(f"{item.hit.vault}:{record.path}\n{text}".encode("utf-8", "replace"))
    for unit in split_text(text):
        start, end = unit.span
        if any(first <= start and end <= last for first, last in shown):
            named = version.copy()
            named.update(f"\n{start}-{end}".encode())
            yield named.hexdigest()[: 2 * _BYTES], unit
