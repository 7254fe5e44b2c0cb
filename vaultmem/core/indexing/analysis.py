"""Everything that manifest and index keep of a note, computed from its bytes."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.core.indexing.place import encode_place, list_note
from vaultmem.core.indexing.section_terms import SectionTerms, describe_note
from vaultmem.core.links.link import Link, find_links
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.paths import note_context
from vaultmem.core.token_count import count_tokens

if TYPE_CHECKING:
    from vaultmem.core.notes.sections import Section


class AnalysedNote(NamedTuple):
    """A note without its text: its record, of no document yet, and the terms of each section."""

    record: NoteRecord
    sections: tuple[Section, ...]
    terms: tuple[SectionTerms, ...]
    aliases: tuple[str, ...]
    links: tuple[Link, ...]


def analyse_note(path: PurePosixPath, data: bytes) -> AnalysedNote:
    """Parse a note and count its terms.

    Raises:
        UnreadableNoteError: the bytes are not UTF-8 text.
    """
    note = parse_note(path, data)
    record = NoteRecord(
        document=0,
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
        changed=0.0,
    )
    return AnalysedNote(
        record=record,
        sections=note.sections,
        terms=_list_terms(note, list_note(record)),
        aliases=note.aliases,
        links=find_links(note.text, note.matter, note.fences),
    )


def digest_body(note: Note) -> str:
    """Return the sha256 of a note's text without its properties: what a promotion vouches for."""
    return hashlib.sha256(note.body.encode("utf-8", "surrogatepass")).hexdigest()


def _list_terms(note: Note, record: tuple[Any, ...]) -> tuple[SectionTerms, ...]:
    """List the terms of each section, by field; `record` is the note's part of its place.

    The title holds the note's title and the headings down to the section; the first section
    also answers for aliases, references, and properties that are the person's own.
    """
    tags = " ".join([*note.tags, note_context(note.path)])
    facts = describe_note(note.state, note.created, note.updated, note.session, note.tags)
    found: list[SectionTerms] = []
    for section in note.sections:
        title = [note.title, *section.parents, section.heading]
        body = note.text[section.start : section.end]
        if section.ordinal == 0:
            title.extend(note.aliases)
            body = "\n".join([body, note.extra, *note.refs])
        names = "\n".join(dict.fromkeys(title))
        place = encode_place(record, section)
        text = note.section_text(section)
        found.append(SectionTerms.of((names, tags, body), facts, text, place))
    return tuple(found)
