"""Everything that manifest and index keep of a note, computed from its bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath

from vaultmem.core.finding.terms import count_terms
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.notes.sections import Section
from vaultmem.core.packs.tokens import count_tokens
from vaultmem.core.paths import note_context

#: How often each term stands in each field ("title", "tags", "body") of a section.
Counts = dict[str, dict[str, int]]


@dataclass(slots=True)
class AnalysedNote:
    """A note without its text: properties, sections, and the terms of each section."""

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
    sections: tuple[Section, ...]
    counts: tuple[Counts, ...]


def analyse_note(path: PurePosixPath, data: bytes) -> AnalysedNote:
    """Parse a note and count its terms.

    Raises:
        UnreadableNoteError: the bytes are not UTF-8 text.
    """
    note = parse_note(path, data)
    return AnalysedNote(
        path=str(path),
        blob=note.blob,
        title=note.title,
        kind=note.kind.value,
        state=note.state.value,
        pinned=note.pinned,
        context=note_context(path),
        tags=note.tags,
        created=note.created,
        updated=note.updated,
        confidence=note.confidence,
        source=note.source,
        agent=note.agent,
        session=note.session,
        tokens=count_tokens(note.text),
        body_digest=digest_body(note),
        warnings=note.warnings,
        sections=note.sections,
        counts=_count_sections(note),
    )


def digest_body(note: Note) -> str:
    """Return the sha256 of a note's text without its properties: what a promotion vouches for."""
    return hashlib.sha256(note.body.encode("utf-8", "surrogatepass")).hexdigest()


def _count_sections(note: Note) -> tuple[Counts, ...]:
    """Count the terms of each section, by field.

    The title holds the note's title and the headings down to the section; the first section
    also answers for aliases, references, and properties that are the person's own.
    """
    tags = count_terms(" ".join([*note.tags, note_context(note.path)]))
    counts: list[Counts] = []
    for section in note.sections:
        title = [note.title, *section.parents, section.heading]
        body = note.text[section.start : section.end]
        if section.ordinal == 0:
            title.extend(note.aliases)
            body = "\n".join([body, note.extra, *note.refs])
        names = "\n".join(dict.fromkeys(title))
        counts.append({"title": count_terms(names), "tags": tags, "body": count_terms(body)})
    return tuple(counts)
