"""Decide whether a memory is known, which note absorbs it, and which notes are similar."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.clients.auto_memory import find_writer
from vaultmem.core.lifecycle import OPEN_STATES, OWNER_KINDS, NoteKind, NoteState
from vaultmem.core.new_memory import Memory
from vaultmem.core.notes.agent_changes import Attestation, confirm_note, has_room
from vaultmem.core.similarity.canonical import states_same
from vaultmem.core.similarity.compare import (
    MAX_TEXT,
    Difference,
    KnownText,
    TextSimilarity,
    compare_texts,
    is_brief,
)
from vaultmem.core.text.paths import PINNED_FILES, note_context
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.changes.ownership import read_pending
from vaultmem.services.similarity.similar import (
    SimilarityQuery,
    SimilarNote,
    find_similar,
    says_same,
)
from vaultmem.services.similarity.value_updates import add_updated, list_untrusted
from vaultmem.services.views.read_notes import find_note
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.git.log import follow_path
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.core.notes.record import NoteRecord


#: The least similarity of a quarantined note to a text that contains its statement among others.
_MIN_SEARCH_SIMILARITY = 0.1

#: The similarity of texts that state nearly the same, and of a text that states all of another.
_MIN_DUPLICATE_SIMILARITY, _MIN_STATED_SHARE = 0.75, 0.95

#: Most similar notes that are named.
_MAX_SIMILAR_NOTES = 3


class KnownNotes(NamedTuple):
    """Notes that match a memory: the one that states the same and can absorb it, and similar ones.

    `quarantined` are notes that were quarantined since they were indexed.
    """

    target: SimilarNote | None
    similar: tuple[SimilarNote, ...]
    quarantined: tuple[SimilarNote, ...]


def ask_memory(memory: Memory) -> SimilarityQuery:
    """Return a memory as a query."""
    return SimilarityQuery(memory.text, memory.title, memory.context)


def find_known(vault: Vault, new: Memory, state: NoteState) -> KnownNotes:
    """Return the known notes for a memory in a state; index a new vault first.

    Notes of other projects neither absorb it nor count as similar: they are not visible there, and
    their contents must not be shown.
    """
    _fill_index(vault)
    similar = find_similar(vault, ask_memory(new))
    quarantined_notes = tuple(each for each in similar if each.note.state is NoteState.QUARANTINED)
    visible_notes = [
        each
        for each in similar
        if each.note.state is not NoteState.QUARANTINED and each.note.project in {"", new.project}
    ]
    for each in visible_notes:
        if each.is_same and _may_take(vault, each.note, new, state):
            return KnownNotes(
                each,
                tuple(other for other in visible_notes if other is not each)[:_MAX_SIMILAR_NOTES],
                quarantined_notes,
            )
    return KnownNotes(
        None,
        tuple(add_updated(vault, ask_memory(new), visible_notes)[:_MAX_SIMILAR_NOTES]),
        quarantined_notes,
    )


def find_quarantined_match(
    vault: Vault, query: SimilarityQuery, quarantined_notes: tuple[SimilarNote, ...] = ()
) -> SimilarNote | None:
    """Return a quarantined note that states the same as a text, or nearly, None if there is none.

    Another word is nearly the same; another number or a "not" is not. `quarantined_notes`
    are notes that the index does not know as quarantined.
    """
    _fill_index(vault)
    records = vault.view.records(f"d.state = '{NoteState.QUARANTINED.value}'")
    if len(query.text) > MAX_TEXT:  # Documents are not searched by the index.
        return next(filter(None, (_read_copy(vault, each, query) for each in records)), None)
    records_by_document = {record.document: record for record in records}
    matches = [
        *quarantined_notes,
        *(
            find_similar(vault, query, _MIN_SEARCH_SIMILARITY, quarantined=records_by_document)
            if records_by_document
            else ()
        ),
    ]
    return next((each for each in matches if _is_nearly_same(query, each)), None)


def _read_copy(vault: Vault, record: NoteRecord, query: SimilarityQuery) -> SimilarNote | None:
    note = find_note(vault, record.path)
    if note is None:
        return None
    is_copy = states_same(query.text, note.visible_body)
    return (
        SimilarNote(record, note, note.sections[0], TextSimilarity(1.0), True) if is_copy else None
    )


def _fill_index(vault: Vault) -> None:
    if not vault.state.get("view"):
        sync_vault(vault)


def _is_nearly_same(query: SimilarityQuery, similar: SimilarNote) -> bool:
    """Return whether a text contains nearly the statement of a note."""
    if similar.is_same or _is_same_but_for_words(similar.likeness):
        return True
    section_text = similar.note.section_text(similar.section)
    containment = compare_texts(section_text, KnownText(query.text, query.title))
    return not is_brief(section_text) and _is_same_but_for_words(containment)


def _is_same_but_for_words(likeness: TextSimilarity) -> bool:
    only_words = all(each.kind in {"word", "wording"} for each in likeness.differences)
    return only_words and likeness.similarity >= _MIN_DUPLICATE_SIMILARITY


def reject_quarantined(
    vault: Vault, query: SimilarityQuery, new_notes: tuple[SimilarNote, ...] = ()
) -> SimilarNote | None:
    """Return a quarantined note that states nearly the same as a text, including `new_notes`.

    Raises:
        RefusedError: the note states all of it.
    """
    match = find_quarantined_match(vault, query, new_notes)
    if match and (match.is_same or match.likeness.is_said(_MIN_STATED_SHARE)):
        raise RefusedError(
            f"{match.path} states that already, and is quarantined; a person who has read it "
            f"lets it out with `vaultmem state {shlex.quote(match.path)} candidate`"
        )
    return match


def absorb(vault: Vault, note: Note, new: Memory, state: NoteState) -> str | None:
    """Return the note's text with the memory merged; None if it no longer states the same."""
    if not says_same(note, ask_memory(new)) or not _may_take(vault, note, new, state):
        return None
    author = vault.author
    details = (new.tags, new.cites, new.pinned, _find_wording(note, new))
    try:
        return confirm_note(
            note, Attestation(author.agent, author.session, vault.local_time(), *details)
        )
    except RefusedError:  # Its properties cannot be edited by position.
        return None


def _may_take(vault: Vault, note: Note, new: Memory, state: NoteState) -> bool:
    """Return whether a note can absorb a memory and record its author and wording.

    Pinned files such as MEMORY.md, and clients' own memories, are never edited. A moved note also
    absorbs memories for its earlier context.
    """
    if find_writer(str(note.path)) or str(note.path) in PINNED_FILES:
        return False
    if not has_room(note, _find_wording(note, new)):
        return False
    if may_absorb(vault, note, new, state):
        return True
    any_context = new._replace(context="")  # In any context.
    is_open = may_absorb(vault, note, any_context, state)
    return is_open and new.context.strip("/") in _find_earlier_contexts(vault, note)


def _find_earlier_contexts(vault: Vault, note: Note) -> frozenset[str]:
    """Return the contexts of a note's earlier paths, with uncommitted moves.

    Without git, none is known. The note's whole history is read, which is slow.
    """
    path, paths = str(note.path), []
    with contextlib.suppress(VaultError, ImportError):
        if vault.view.is_work_tree:
            paths += [earlier_path for earlier_path, _ in vault.journal.find_moved(note.blob)]
            head = vault.head()
            commit = head.commit if head else ""
            moves = read_pending(vault).moved if commit else {}
            for _ in moves:  # From move to move.
                path = moves.get(path, path)
                paths.append(path)
        else:
            commit = vault.view.sources[0].commit
        for _, change in follow_path(vault.history, commit, path) if commit else ():
            paths += [change.path, change.previous]
    return frozenset(note_context(PurePosixPath(each)) for each in paths if each)


def _find_wording(note: Note, new: Memory) -> str:
    wording = new.text.strip()
    return "" if wording == note.visible_body.strip() else wording


def may_absorb(vault: Vault, note: Note, new: Memory, state: NoteState) -> bool:
    """Return whether a note may absorb a memory that it states already; `state` is a new note's.

    It needs the same kind, context and authority, an open state, and no other project.
    """
    if note.state not in OPEN_STATES or note.problem or note.encoding:
        return False
    if note.project not in {"", new.project}:
        return False
    is_fact_of_decision = new.kind is NoteKind.SEMANTIC_FACT and note.kind is NoteKind.DECISION
    if note.kind is not new.kind and not is_fact_of_decision:
        return False
    if str(note.path).startswith("primed/"):
        return False
    if note.kind in OWNER_KINDS and note.state is not state:
        return False  # Another state is another authority.
    if new.state is NoteState.ACTIVE and note.state is NoteState.CANDIDATE:
        return False
    if new.state and new.state not in OPEN_STATES:
        return False
    return _is_same_context(vault, note_context(note.path), new.context)


def _is_same_context(vault: Vault, context: str, other: str) -> bool:
    """Return whether two contexts are compatible: one is not given, they are equal, or nested."""
    other = other.strip("/")
    open_ones = {"", vault.config.default_context}
    if context in open_ones or other in open_ones:
        return True
    return f"{context}/".startswith(f"{other}/") or f"{other}/".startswith(f"{context}/")


def find_contradicted(notes: Sequence[SimilarNote]) -> tuple[SimilarNote, ...]:
    """Return the open notes that state another value of the same thing."""
    return tuple(
        each for each in notes if each.likeness.is_contradiction and each.note.state in OPEN_STATES
    )


def _without_words(similar: SimilarNote) -> SimilarNote:
    if similar.note.state is not NoteState.QUARANTINED:
        return similar
    likeness = similar.likeness._replace(nearest="", differences=())
    return similar._replace(note=similar.note._replace(title=""), likeness=likeness)


class SimilarText(NamedTuple):
    """A note similar to a text: its similarity (0 to 1), its statement, and the differences."""

    path: str
    title: str
    state: str
    similarity: float
    says: str
    differences: tuple[Difference, ...]
    is_same: bool
    contradicts: bool
    says_more: bool


def describe_similar(notes: Sequence[SimilarNote], text: str) -> tuple[SimilarText, ...]:
    """Return the notes for display, in the same order; quarantined ones without text.

    If a text contradicts a note, `says_more` is whether the note also has other statements.
    """
    contradicted = find_contradicted(notes)
    notes = [_without_words(each) for each in notes]
    return tuple(
        SimilarText(
            each.path,
            each.note.title,
            each.note.state.value,
            round(each.likeness.similarity, 3),
            each.likeness.nearest,
            each.likeness.differences,
            each.is_same,
            each in contradicted,
            each in contradicted and bool(list_untrusted(each.note, KnownText(text))),
        )
        for each in notes
    )
