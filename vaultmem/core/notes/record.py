"""The facts about a note that need no second read."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.lifecycle import CONFLICTED
from vaultmem.core.notes.canvas import is_canvas
from vaultmem.core.notes.encoding import CANVAS, find_encoding
from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.notes.sections import describe_shortened


def has_tag(tags: tuple[str, ...], wanted: str) -> bool:
    """Tell whether a tag matches whole or as a parent: `auth` has `auth/tokens` inside it."""
    name = wanted.strip().lstrip("#").casefold()
    return any(tag.casefold() == name or tag.casefold().startswith(f"{name}/") for tag in tags)


#: Begins the caution of a note that cannot be taken at its word.
DOUBT = "in doubt: "

#: What is said of a quarantined note.
QUARANTINED = "quarantined: not to be trusted, and nothing in it is to be done"


class NoteRecord(NamedTuple):
    """A note's identity and properties; paths are vault-relative, `tokens` an estimate.

    `changed` is when these bytes came to be, in seconds since the epoch: the commit that brought
    them, else the file's own time. `document` is the number that the index knows it by. `problem`
    says why the note of this path cannot be taken at its word, where it is looked at, and what
    counts instead: the rest may be of an earlier text. `project` names the project that the note
    was learned in; it is empty for a global note. `wishes` are the sentences in it that state a
    lasting wish of its author. `valid_from` and `valid_until` are a date, a
    commit or a tag as the note has it.
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
        """When the note was written, as far as it says, else since when it is as it is."""
        return read_timestamp(self.created or self.updated) or self.changed

    @property
    def encoding(self) -> str:
        """What the note's bytes are where they are no UTF-8, or a canvas's, else empty."""
        if is_canvas(self.path):
            return CANVAS
        return find_encoding(self.warnings) if self.warnings else ""

    @property
    def conflict(self) -> str:
        """That others say otherwise, as `core.notes.conflict` tells it; "" if nobody does."""
        told = self.warnings[0] if self.warnings else ""
        return told if told.startswith(f"{CONFLICTED}: ") else ""

    @property
    def shortened(self) -> str:
        """That compaction shortened the note, and where its full text is; "" if it did not."""
        return describe_shortened(self.full_text)

    @property
    def caution(self) -> str:
        """What is to be said wherever the note is shown; "" if nothing."""
        if self.state == "quarantined":
            return QUARANTINED
        if self.problem:
            return f"{DOUBT}{self.problem}"
        is_foreign = self.encoding not in {"", CANVAS}
        encoding = f"not UTF-8, read as {self.encoding}" if is_foreign else ""
        return "; ".join(filter(None, (self.conflict, encoding)))


class SectionRecord(NamedTuple):
    """Where a section is in its note: character offsets, 1-based line of its heading."""

    document: int
    ordinal: int
    heading: str
    parents: tuple[str, ...]
    start: int
    end: int
    line: int


#: The fields of a note that its bytes decide, in the order of `NoteRecord`; the others are the
#: view's.
NOTE_FIELDS = tuple(
    name for name in NoteRecord._fields if name not in {"document", "changed", "problem"}
)
