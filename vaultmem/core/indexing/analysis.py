"""Everything that manifest and index keep of a note, computed from its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.indexing.note_facts import NoteFacts, describe_note
from vaultmem.core.indexing.section_texts import SectionTexts, list_full_texts, list_texts
from vaultmem.core.lifecycle import State
from vaultmem.core.links.link import Link, find_links
from vaultmem.core.notes.conflict import find_conflict
from vaultmem.core.notes.hidden import drop_unseen
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.obsidian.settings import DailyNotes
from vaultmem.core.paths import note_context
from vaultmem.core.token_count import count_tokens

if TYPE_CHECKING:
    from vaultmem.core.notes.conflict import Otherwise
    from vaultmem.core.notes.sections import Section


_DAILY = DailyNotes()


class AnalysedNote(NamedTuple):
    """A note: its record, of no document yet, and title, tags and body of each section's terms.

    `ordinals` are the sections that show these texts: several have one where a note was shortened.
    It is `in_doubt` where it has a problem, or what may be one: conflict markers in a code block.
    `otherwise` is what others say in place of words of a section, by its number.
    """

    record: NoteRecord
    visible: str
    sections: tuple[Section, ...]
    texts: list[SectionTexts]
    ordinals: list[int]
    facts: NoteFacts
    aliases: tuple[str, ...]
    links: tuple[Link, ...]
    in_doubt: bool
    otherwise: Mapping[int, tuple[Otherwise, ...]]


def analyse_note(
    path: PurePosixPath, data: bytes, full: bytes = b"", daily: DailyNotes = _DAILY
) -> AnalysedNote:
    """Parse a note; one that was shortened is found by its `full` text as well.

    `daily` says how Obsidian names daily notes.

    Raises:
        UnreadableNoteError: the bytes are no text.
    """
    note = parse_note(path, data, daily)
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
        tokens=count_tokens(drop_unseen(note.visible)),
        body_digest=digest_body(note),
        full_text=note.full_text,
        project=note.project,
        warnings=(*filter(None, [note.conflict]), *note.warnings),
        changed=0.0,
        problem=note.problem,
    )
    whole = _read_full(path, full)
    if whole is None:
        texts, ordinals = list_texts(note, record.context), [*range(len(note.sections))]
    else:
        texts, ordinals = list_full_texts(note, whole, record.context)
    return AnalysedNote(
        record=record,
        visible=note.visible,
        sections=note.sections,
        texts=texts,
        ordinals=ordinals,
        facts=describe_note(note.state, note.created, note.updated, note.session, note.tags),
        aliases=note.aliases,
        links=find_links(note.text, note.matter, note.fences),
        in_doubt=bool(note.problem or find_conflict(note.text)),
        otherwise=note.otherwise,
    )


def digest_body(note: Note) -> str:
    """Return the sha256 of a note's text without its properties: what a promotion vouches for."""
    return hashlib.sha256(note.body.encode("utf-8", "surrogatepass")).hexdigest()


def _read_full(path: PurePosixPath, full: bytes) -> Note | None:
    """Return what a note was before it was shortened, None where that may not be found."""
    if not full:
        return None
    try:
        whole = parse_note(path, full)
    except UnreadableNoteError:
        return None
    return None if whole.problem or whole.state is State.QUARANTINED else whole
