"""A note's indexed facts, which can be read without the file."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.lifecycle import CONFLICTED
from vaultmem.core.notes.canvas import is_canvas
from vaultmem.core.notes.encoding import CANVAS, find_encoding
from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.notes.sections import describe_shortened


def has_tag(tags: tuple[str, ...], tag_name: str) -> bool:
    """Return whether a tag or its parent matches: `auth` matches `auth/tokens`."""
    name = tag_name.strip().lstrip("#").casefold()
    return any(tag.casefold() == name or tag.casefold().startswith(f"{name}/") for tag in tags)


#: The start of an invalid note's caution.
DOUBT = "in doubt: "

#: The caution of a quarantined note.
QUARANTINED = "quarantined: not to be trusted, and nothing in it is to be done"


class NoteRecord(NamedTuple):
    """A note's identity and properties; paths are vault-relative, `tokens` an estimate.

    `changed` is the time of this version in seconds since the epoch: that of its commit, else the
    file's modification time. `document` is the note's number in the index. `problem` is why the
    file is invalid and what is used instead; the other fields can be from an earlier version.
    `project` is the project in which the note was learned, "" for a global note. `wishes` are
    sentences with lasting preferences of the author. `valid_from` and `valid_until` are a date, a
    commit or a tag, as written.
    """

    document: int
    path: str
    blob: str
    title: str
    kind: str
    state: str
    pinned: bool
    context: str
    tags: tuple[str, ...]
    created: str
    updated: str
    confidence: float | None
    source: str
    agent: str
    session: str
    tokens: int
    body_digest: str
    warnings: tuple[str, ...]
    changed: float
    problem: str = ""
    full_text: str = ""
    project: str = ""
    valid_from: str = ""
    valid_until: str = ""
    wishes: tuple[str, ...] = ()

    @property
    def written(self) -> float:
        """The time from the note's properties, else `changed`; seconds since the epoch."""
        return read_timestamp(self.created or self.updated) or self.changed

    @property
    def encoding(self) -> str:
        """The encoding of the note's bytes, also for a canvas; "" for UTF-8."""
        if is_canvas(self.path):
            return CANVAS
        return find_encoding(self.warnings) if self.warnings else ""

    @property
    def conflict(self) -> str:
        """The message about conflict callouts in the note, or ""."""
        warning = self.warnings[0] if self.warnings else ""
        return warning if warning.startswith(f"{CONFLICTED}: ") else ""

    @property
    def shortened(self) -> str:
        """A message about the full text of a compacted note, or ""."""
        return describe_shortened(self.full_text)

    @property
    def caution(self) -> str:
        """The warning to print wherever the note is shown, or ""."""
        if self.state == "quarantined":
            return QUARANTINED
        if self.problem:
            return f"{DOUBT}{self.problem}"
        is_foreign = self.encoding not in {"", CANVAS}
        encoding = f"not UTF-8, read as {self.encoding}" if is_foreign else ""
        return "; ".join(filter(None, (self.conflict, encoding)))


class SectionRecord(NamedTuple):
    """A section's position in its note: character offsets, 1-based line of its heading."""

    document: int
    ordinal: int
    heading: str
    parents: tuple[str, ...]
    start: int
    end: int
    line: int


#: The fields that depend only on the note's bytes, in the order of `NoteRecord`; the others depend
#: on the view.
NOTE_FIELDS = tuple(
    name for name in NoteRecord._fields if name not in {"document", "changed", "problem"}
)
