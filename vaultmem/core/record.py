"""What is known of a note without reading it again."""

from __future__ import annotations

from dataclasses import dataclass

from vaultmem.core.note import Note
from vaultmem.core.paths import note_context


@dataclass(frozen=True, slots=True)
class NoteRecord:
    """A note's identity and properties; paths are vault-relative, `tokens` an estimate.

    `changed` is when these bytes came to be, in seconds since the epoch: the commit that brought
    them, else the file's own time. `document` is the number that the index knows it by.
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


@dataclass(frozen=True, slots=True)
class SectionRecord:
    """Where a section stands in its note: character offsets, 1-based line of its heading."""

    document: int
    ordinal: int
    heading: str
    parents: tuple[str, ...]
    start: int
    end: int
    line: int


def index_texts(note: Note, ordinal: int) -> dict[str, str]:
    """Return what the index reads of a section, by field.

    The title holds the note's title and the headings down to the section; the first section
    also answers for aliases, and for properties that are the person's own.
    """
    section = note.sections[ordinal]
    title = [note.title, *section.parents, section.heading]
    body = [note.text[section.start : section.end]]
    if ordinal == 0:
        title.extend(note.aliases)
        body.extend(part for part in (note.extra, *note.refs) if part)
    names = dict.fromkeys(part for part in title if part)
    tags = [*note.tags, note_context(note.path)]
    return {"title": "\n".join(names), "tags": " ".join(tags), "body": "\n".join(body)}
