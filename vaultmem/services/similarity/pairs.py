"""Compare the notes of a whole vault: duplicates, near duplicates and contradictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.curation.compaction import Fidelity, read_fidelity
from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.similarity.compare import MAX_TEXT, TextSimilarity
from vaultmem.core.similarity.statement import split_sentences
from vaultmem.core.text.paths import PINNED_FILES, note_context
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.search.link_walk import LinkGraph
from vaultmem.services.similarity.similar import (
    SimilarityCache,
    SimilarityQuery,
    SimilarNote,
    cache_readings,
    find_similar,
    says_same,
)
from vaultmem.services.similarity.value_updates import NoteUpdate, find_updates, list_updates
from vaultmem.services.views.read_notes import read_bytes
from vaultmem.storage.files import UnsafeFileError
from vaultmem.storage.link_table import LinkStore
from vaultmem.vault import Vault

_STATES = (NoteState.CANDIDATE, NoteState.ACTIVE, NoteState.STALE)
_EXCLUDED_PREFIXES = ("sessions/", "primed/")

#: Properties whose links name notes that need no further decision.
_DECISION_PROPERTIES = ("differs_from", "supersedes_part")


#: Most sentences of one note that are compared with other notes.
_MAX_SENTENCES = 50

#: The similarity from which two notes without a known difference are nearly the same.
_MIN_DUPLICATE_SIMILARITY = 0.75


class Pair(NamedTuple):
    """Two notes that state the same or contradict each other.

    `likeness` is how much of the first the second states.
    """

    ours: Note
    theirs: Note
    likeness: TextSimilarity

    @property
    def names(self) -> frozenset[str]:
        """The paths of both."""
        return frozenset((str(self.ours.path), str(self.theirs.path)))


class Pairs(NamedTuple):
    """The pairs of a vault. `duplicates` can have (a, b) and (b, a), others have each pair once."""

    duplicates: tuple[Pair, ...]
    contradictions: tuple[Pair, ...]
    similar: tuple[Pair, ...]


def compare_vault(vault: Vault, progress: Callable[[int, int], None] | None = None) -> Pairs:
    """Compare each counted note with all others, through the index.

    The vault must be in sync. Sessions, reference material, and pairs marked as different are left
    out. New values are found by their subject, whatever the rest of the notes.
    """
    apart = read_apart(vault)
    records = [record for record in vault.view.records() if is_counted(record)]
    return _compare(vault, records, records, list_updates(vault, apart), apart, progress)


def compare_some(vault: Vault, paths: Sequence[str]) -> Pairs:
    """Compare these notes with all others, as `compare_vault` does, in time that grows with them.

    Only notes that the index finds are read.
    """
    apart = read_apart(vault)
    records = [record for record in _records_where(vault, "path", paths) if is_counted(record)]
    copies = _records_where(vault, "body_digest", [record.body_digest for record in records])
    updates = (
        update
        for record in records
        if (note := read_whole(vault, record.path)) and len(note.body) <= MAX_TEXT
        for update in find_updates(vault, record, note)
        if frozenset((str(update.old.path), str(update.new.path))) not in apart
    )
    return _compare(vault, records, [each for each in copies if is_counted(each)], updates, apart)


def compare_sentences(
    vault: Vault, paths: Sequence[str], known_texts: Sequence[str] = ()
) -> Iterator[Pair]:
    """Yield contradictions between sentences of these notes and other notes.

    A long note as a whole is similar to no other. Sentences in one of the `known_texts` are
    skipped.
    """
    readings, apart = cache_readings(vault), read_apart(vault)
    for record in filter(is_counted, _records_where(vault, "path", paths)):
        note = read_whole(vault, record.path)
        if note is None or len(note.body) > MAX_TEXT:
            continue
        note_query = ask_note(note)
        sentences = split_sentences(note.visible_body)
        new_sentences = [
            each for each in sentences if not any(each in text for text in known_texts)
        ]
        for sentence in new_sentences[:_MAX_SENTENCES]:
            query = note_query._replace(text=sentence)
            for other in find_similar(vault, query, readings=readings):
                is_apart = frozenset((record.path, other.path)) in apart
                if other.likeness.is_contradiction and is_counted(other.record) and not is_apart:
                    yield Pair(note, other.note, other.likeness)


def list_records(vault: Vault, pairs: Pairs) -> list[NoteRecord]:
    """Return the records of the notes in pairs."""
    paths = {path for group in pairs for pair in group for path in pair.names}
    return _records_where(vault, "path", list(paths))


def _records_where(vault: Vault, column: str, values: Sequence[str]) -> list[NoteRecord]:
    marks = ", ".join("?" * len(values))
    return vault.view.records(f"d.{column} IN ({marks})", values) if values else []


def _compare(
    vault: Vault,
    records: Sequence[NoteRecord],
    possible_copies: Sequence[NoteRecord],
    updates: Iterable[NoteUpdate],
    apart: frozenset[frozenset[str]],
    progress: Callable[[int, int], None] | None = None,
) -> Pairs:
    """Compare notes with all others; `updates` are the new values."""
    same_pairs = [pair for pair in _find_copies(vault, possible_copies) if pair.names not in apart]
    copies = {(str(pair.ours.path), str(pair.theirs.path)) for pair in same_pairs}
    contradictions: dict[frozenset[str], Pair] = {}
    near_pairs: dict[frozenset[str], Pair] = {}
    readings = cache_readings(vault)
    for number, record in enumerate(records):
        if progress is not None:
            progress(number, len(records))
        note = read_whole(vault, record.path)
        if note is None or len(note.body) > MAX_TEXT:
            continue
        for other in _find_like(vault, note, readings):
            names = (record.path, other.path)
            if frozenset(names) in apart:
                continue
            if other.is_same and names not in copies:
                same_pairs.append(Pair(note, other.note, other.likeness))
            elif other.likeness.is_contradiction:
                pair = Pair(note, other.note, other.likeness)
                contradictions.setdefault(frozenset(names), pair)
            elif is_nearly_said(other.likeness) and not other.is_same:
                near_pairs.setdefault(frozenset(names), Pair(note, other.note, other.likeness))
    for update in updates:
        pair = Pair(update.new, update.old, update.likeness)
        if update.states_change or pair.names not in contradictions:
            contradictions[pair.names] = pair
    if progress is not None and records:
        progress(len(records), len(records))
    return Pairs(tuple(same_pairs), tuple(contradictions.values()), tuple(near_pairs.values()))


def read_apart(vault: Vault) -> frozenset[frozenset[str]]:
    """Return the pairs of notes that are marked as different, or as superseding.

    A preference repeats a wish of the note that it cites, and both stay.
    """
    store = LinkStore(vault.state)
    preferences = vault.view.records(f"d.kind = '{NoteKind.PREFERENCE.value}'")
    citations = store.cites({each.document for each in preferences}) if preferences else {}
    links_by_document = [*store.links_in(_DECISION_PROPERTIES).items(), *citations.items()]
    graph = LinkGraph(vault) if links_by_document else None
    return frozenset(
        frozenset((source, target))
        for document, links in links_by_document
        if graph and (source := graph.paths.get(document))
        for link in links
        if (target := graph.names.find(link, source))
    )


def is_counted(record: NoteRecord) -> bool:
    """Return whether a note is compared: its state is open, and it is not from a session."""
    in_state = record.state in _STATES and not record.problem
    return (
        in_state
        and record.path not in PINNED_FILES
        and not record.path.startswith(_EXCLUDED_PREFIXES)
    )


def is_nearly_said(likeness: TextSimilarity) -> bool:
    """Return whether a note states nearly the same as another: no difference is known."""
    return likeness.is_said(_MIN_DUPLICATE_SIMILARITY)


def _find_like(vault: Vault, note: Note, readings: SimilarityCache) -> Iterator[SimilarNote]:
    for similar in find_similar(vault, ask_note(note), readings=readings):
        if is_counted(similar.record) and similar.note.state in _STATES and _is_full(similar.note):
            yield similar


def ask_note(note: Note) -> SimilarityQuery:
    """Return a note as a query."""
    return SimilarityQuery(note.visible_body, note.title, note_context(note.path), str(note.path))


def _find_copies(vault: Vault, records: Iterable[NoteRecord]) -> Iterator[Pair]:
    """Yield pairs of notes with the same body."""
    groups: dict[str, list[str]] = {}
    for record in records:
        groups.setdefault(record.body_digest, []).append(record.path)
    for paths in groups.values():
        notes = [note for path in paths if len(paths) > 1 and (note := read_whole(vault, path))]
        notes = [note for note in notes if note.visible_body.strip()]
        for ours in notes:
            for theirs in notes:
                if ours.path != theirs.path and says_same(ours, ask_note(theirs)):
                    yield Pair(ours, theirs, TextSimilarity(1.0))


def read_whole(vault: Vault, path: str) -> Note | None:
    """Return a note with its full text, None if it is unreadable or was compacted."""
    try:
        note = parse_note(PurePosixPath(path), read_bytes(vault, PurePosixPath(path)))
    except (NoteNotFoundError, UnsafeFileError, UnreadableNoteError):
        return None
    return note if _is_full(note) else None


def _is_full(note: Note) -> bool:
    """Return whether a note has its full text: compacted notes can look the same."""
    return read_fidelity(note) is Fidelity.FULL
