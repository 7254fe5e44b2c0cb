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
from vaultmem.core.similarity.canonical import Titled, state_same
from vaultmem.core.similarity.compare import (
    MAX_TEXT,
    KnownText,
    Likeness,
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
_LEFT_OUT = "sessions/"


class SimilarNote(NamedTuple):
    """A note and its section most similar to a text, with similarity and differences.

    `is_same`: the note and the text state exactly the same.
    """

    record: NoteRecord
    note: Note
    section: Section
    likeness: Likeness
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


class Kept(NamedTuple):
    """The cache of a repeated caller: a function that reads notes, and counts of terms."""

    find_note: Callable[[str], Note | None]
    counts: dict[str, int]


def cache_readings(vault: Vault) -> Kept:
    """Return a cache for a caller that asks for similar notes repeatedly."""
    return Kept(lru_cache(_KEPT_NOTES)(partial(find_note, vault)), {})


@retries_after_rebuild
def find_similar(
    vault: Vault,
    asked: SimilarityQuery,
    least: float | None = None,
    *,
    held: Mapping[int, NoteRecord] | None = None,
    kept: Kept | None = None,
) -> list[SimilarNote]:
    """Return the notes similar to the text, those that state the same first.

    Quarantined notes are left out, unless `held` has such notes, by document: then only these are
    searched. `least` is the smallest similarity, by default `related_threshold`. Notes saved since
    the last sync are compared with their new text. `kept` is a cache for repeated calls.
    """
    if len(asked.text) > MAX_TEXT:
        return []
    least = vault.config.related_threshold if least is None else least
    kept = kept or Kept(partial(find_note, vault), {})
    terms = term_sequence(f"{asked.title}\n{asked.text}")
    limit = SECTIONS if held is None else ALL_SECTIONS
    sharing = find_sharing(vault.index.snapshot(), terms, limit, kept.counts)
    pairs = zip(sharing.sections, sharing.shares, strict=True)
    sections = [section for section, share in pairs if share >= least * SHARE]
    weigh = weight_words(sharing.weigh)
    found = [
        similar
        for record, ordinals in _choose_notes(vault, sections, asked.path, held)
        if (note := kept.find_note(record.path))
        and (similar := _compare_note(note, record, ordinals, asked, weigh))
        and (similar.note.state is NoteState.QUARANTINED or not _is_left_out(record, held))
        and (similar.is_same or similar.likeness.similarity >= least)
    ]
    return sorted(found, key=_rank)


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


def says_same(note: Note, asked: SimilarityQuery) -> bool:
    """Return whether a note and a text state exactly the same."""
    theirs = Titled(note.visible_body, note.title, note.path.stem)
    return state_same(Titled(asked.text, asked.title, PurePosixPath(asked.path).stem), theirs)


def _rank(similar: SimilarNote) -> tuple[bool, bool, float, bool, int, str]:
    note = similar.note
    tie = (note.state is not NoteState.ACTIVE, len(note.body), similar.path)
    return (not similar.is_same, *_better(similar.likeness), *tie)


def _better(likeness: Likeness) -> tuple[bool, float]:
    return bool(likeness.differences), -round(likeness.similarity, 6)


def _choose_notes(
    vault: Vault,
    sections: Sequence[tuple[int, int]],
    own: str,
    held: Mapping[int, NoteRecord] | None,
) -> Iterator[tuple[NoteRecord, list[int]]]:
    """Yield the sections' notes in the view, best first, with those sections.

    Session notes come last: one might have been quarantined since it was indexed.
    """
    ordinals: dict[int, list[int]] = {}
    for document, ordinal in sections:
        ordinals.setdefault(document, []).append(ordinal)
    records = vault.view.records_of(ordinals) if held is None else held
    chosen: dict[bool, list[NoteRecord]] = {False: [], True: []}
    for document in ordinals:
        record = records.get(document)
        if record and record.path != own and (held or record.state != NoteState.QUARANTINED):
            chosen[_is_left_out(record, held)].append(record)
    for record in (*chosen[False][:NOTES], *chosen[True][:NOTES]):
        yield record, ordinals[record.document]


def _is_left_out(record: NoteRecord, held: Mapping[int, NoteRecord] | None) -> bool:
    """Return whether a note counts only if it is quarantined."""
    return held is not None or record.path.startswith(_LEFT_OUT)


def _compare_note(
    note: Note,
    record: NoteRecord,
    ordinals: list[int],
    asked: SimilarityQuery,
    weigh: Weigh,
) -> SimilarNote | None:
    sections = [
        each for each in note.sections if each.ordinal in ordinals or note.blob != record.blob
    ]
    context = f"{asked.title}. {asked.context}"
    is_same, found = says_same(note, asked), list[SimilarNote]()
    for each in sections:
        known = describe_section(note, each)
        likeness = compare_texts(asked.text, known, weigh, context)
        likeness = compare_titled(asked.text, asked.title, known, likeness)
        found.append(SimilarNote(record, note, each, likeness, is_same))
    return min(found, key=lambda each: _better(each.likeness), default=None)


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
