"""Find the notes that state the same as a text, or nearly the same, through the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.notes.sections import Section
from vaultmem.core.search.terms import term_sequence
from vaultmem.core.similarity.canonical import TitledText, state_same
from vaultmem.core.similarity.compare import (
    MAX_TEXT,
    KnownText,
    TextSimilarity,
    Weigh,
    compare_texts,
    compare_titled,
)
from vaultmem.core.text.paths import note_context
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.views.read_notes import find_note, read_note, resolve_address
from vaultmem.services.views.update_index import retries_after_rebuild
from vaultmem.storage.index.search_index import find_sharing
from vaultmem.vault import Vault

#: Sections that are searched, and notes of them that are read; sections if only some notes count.
SECTIONS, NOTES, ALL_SECTIONS = 48, 8, 10_000

#: Notes cached for callers that ask repeatedly.
_KEPT_NOTES = 512

#: The share of the rarest terms that a section must have, as a part of the least similarity. Less
#: than 1, because terms know no synonyms.
SHARE = 0.6

#: Notes of sessions repeat memories.
_SESSIONS_PREFIX = "sessions/"


class SimilarNote(NamedTuple):
    """A note and its section most similar to a text, with similarity and differences.

    `is_same`: the note and the text state exactly the same.
    """

    record: NoteRecord
    note: Note
    section: Section
    likeness: TextSimilarity
    is_same: bool = False

    @property
    def address(self) -> str:
        """The section's address, `path#Heading`."""
        return f"{self.note.path}#{self.section.heading}" if self.section.heading else self.path

    @property
    def path(self) -> str:
        """The note's path."""
        return str(self.note.path)


class SimilarityQuery(NamedTuple):
    """A text to search for; its title, context and note path if known."""

    text: str
    title: str = ""
    context: str = ""
    path: str = ""


class SimilarityCache(NamedTuple):
    """The cache of a repeated caller: a function that reads notes, and counts of terms."""

    find_note: Callable[[str], Note | None]
    counts: dict[str, int]


def cache_readings(vault: Vault) -> SimilarityCache:
    """Return a cache for a caller that asks for similar notes repeatedly."""
    return SimilarityCache(lru_cache(_KEPT_NOTES)(partial(find_note, vault)), {})


@retries_after_rebuild
def find_similar(
    vault: Vault,
    query: SimilarityQuery,
    least: float | None = None,
    *,
    quarantined: Mapping[int, NoteRecord] | None = None,
    readings: SimilarityCache | None = None,
) -> list[SimilarNote]:
    """Return the notes similar to the text, those that state the same first.

    Quarantined notes are left out, unless `quarantined` has such notes, by document: then only
    these are searched. `least` is the smallest similarity, by default `related_threshold`.
    Notes saved since the last sync are compared with their new text. `readings` is a cache for
    repeated calls.
    """
    if len(query.text) > MAX_TEXT:
        return []
    least = vault.config.related_threshold if least is None else least
    readings = readings or SimilarityCache(partial(find_note, vault), {})
    terms = term_sequence(f"{query.title}\n{query.text}")
    limit = SECTIONS if quarantined is None else ALL_SECTIONS
    sharing = find_sharing(vault.index.snapshot(), terms, limit, readings.counts)
    pairs = zip(sharing.sections, sharing.shares, strict=True)
    sections = [section for section, share in pairs if share >= least * SHARE]
    weigh = weight_words(sharing.weigh)
    notes = [
        similar
        for record, ordinals in _choose_notes(vault, sections, query.path, quarantined)
        if (note := readings.find_note(record.path))
        and (similar := _compare_note(note, record, ordinals, query, weigh))
        and (similar.note.state is NoteState.QUARANTINED or not _is_left_out(record, quarantined))
        and (similar.is_same or similar.likeness.similarity >= least)
    ]
    return sorted(notes, key=_rank)


def read_asked(vault: Vault, text: str) -> SimilarityQuery:
    """Return a text as a query, or the text of the note whose path it is."""
    try:
        path, heading = resolve_address(vault, text, by_title=False)
        note = read_note(vault, path)
    except (NoteNotFoundError, RefusedError):
        return SimilarityQuery(text)
    section = note.find_section(heading) if heading else None
    body = note.section_text(section) if section else note.visible_body
    return SimilarityQuery(body, note.title, note_context(path), str(path))


def says_same(note: Note, query: SimilarityQuery) -> bool:
    """Return whether a note and a text state exactly the same."""
    note_text = TitledText(note.visible_body, note.title, note.path.stem)
    return state_same(
        TitledText(query.text, query.title, PurePosixPath(query.path).stem), note_text
    )


def _rank(similar: SimilarNote) -> tuple[bool, bool, float, bool, int, str]:
    note = similar.note
    tie = (note.state is not NoteState.ACTIVE, len(note.body), similar.path)
    return (not similar.is_same, *_better(similar.likeness), *tie)


def _better(likeness: TextSimilarity) -> tuple[bool, float]:
    return bool(likeness.differences), -round(likeness.similarity, 6)


def _choose_notes(
    vault: Vault,
    sections: Sequence[tuple[int, int]],
    own_path: str,
    quarantined: Mapping[int, NoteRecord] | None,
) -> Iterator[tuple[NoteRecord, list[int]]]:
    """Yield the sections' notes in the view, best first, with those sections.

    Session notes come last: one might have been quarantined since it was indexed.
    """
    ordinals: dict[int, list[int]] = {}
    for document, ordinal in sections:
        ordinals.setdefault(document, []).append(ordinal)
    records = vault.view.records_of(ordinals) if quarantined is None else quarantined
    groups: dict[bool, list[NoteRecord]] = {False: [], True: []}
    for document in ordinals:
        record = records.get(document)
        if (
            record
            and record.path != own_path
            and (quarantined or record.state != NoteState.QUARANTINED)
        ):
            groups[_is_left_out(record, quarantined)].append(record)
    for record in (*groups[False][:NOTES], *groups[True][:NOTES]):
        yield record, ordinals[record.document]


def _is_left_out(record: NoteRecord, quarantined: Mapping[int, NoteRecord] | None) -> bool:
    """Return whether a note counts only if it is quarantined."""
    return quarantined is not None or record.path.startswith(_SESSIONS_PREFIX)


def _compare_note(
    note: Note,
    record: NoteRecord,
    ordinals: list[int],
    query: SimilarityQuery,
    weigh: Weigh,
) -> SimilarNote | None:
    sections = [
        each for each in note.sections if each.ordinal in ordinals or note.blob != record.blob
    ]
    context = f"{query.title}. {query.context}"
    is_same, candidates = says_same(note, query), list[SimilarNote]()
    for each in sections:
        section_text = describe_section(note, each)
        likeness = compare_texts(query.text, section_text, weigh, context)
        likeness = compare_titled(query.text, query.title, section_text, likeness)
        candidates.append(SimilarNote(record, note, each, likeness, is_same))
    return min(candidates, key=lambda each: _better(each.likeness), default=None)


def describe_section(note: Note, section: Section) -> KnownText:
    """Return a section as a known text; its title has its headings and the note's title."""
    title = ". ".join(dict.fromkeys([note.title, *section.parents, section.heading]))
    return KnownText(note.section_text(section), title.strip(". "))


def weight_words(weigh_term: Weigh) -> Weigh:
    """Return a function that weighs a word by its first index term."""

    @cache
    def weigh(raw: str) -> float:
        terms = term_sequence(raw)
        return weigh_term(terms[0]) if terms else 1.0

    return weigh
