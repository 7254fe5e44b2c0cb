"""Decide whether a memory is known, which note absorbs it, and which notes are similar."""

from __future__ import annotations

import contextlib
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
    Likeness,
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
_LEAST = 0.1

#: The similarity of texts that state nearly the same, and of a text that states all of another.
_NEARLY, _ALL = 0.75, 0.95

#: Most similar notes that are named.
_NEAR = 3


class Known(NamedTuple):
    """Notes that match a memory: the one that states the same and can absorb it, and similar ones.

    `held` are notes that were quarantined since they were indexed.
    """

    target: SimilarNote | None
    near: tuple[SimilarNote, ...]
    held: tuple[SimilarNote, ...]


def ask_memory(memory: Memory) -> SimilarityQuery:
    """Return a memory as a query."""
    return SimilarityQuery(memory.text, memory.title, memory.context)


def find_known(vault: Vault, new: Memory, state: NoteState) -> Known:
    """Return the known notes for a memory in a state; index a new vault first.

    Notes of other projects neither absorb it nor count as similar: they are not visible there, and
    their contents must not be shown.
    """
    _fill_index(vault)
    similar = find_similar(vault, ask_memory(new))
    held = tuple(each for each in similar if each.note.state is NoteState.QUARANTINED)
    found = [
        each
        for each in similar
        if each.note.state is not NoteState.QUARANTINED and each.note.project in {"", new.project}
    ]
    for each in found:
        if each.is_same and _may_take(vault, each.note, new, state):
            return Known(each, tuple(other for other in found if other is not each)[:_NEAR], held)
    return Known(None, tuple(add_updated(vault, ask_memory(new), found)[:_NEAR]), held)


def find_quarantined_match(
    vault: Vault, asked: SimilarityQuery, held: tuple[SimilarNote, ...] = ()
) -> SimilarNote | None:
    """Return a quarantined note that states the same as a text, or nearly, None if there is none.

    Another word is nearly the same; another number or a "not" is not. `held` are quarantined notes
    that the index does not know as such.
    """
    _fill_index(vault)
    records = vault.view.records(f"d.state = '{NoteState.QUARANTINED.value}'")
    if len(asked.text) > MAX_TEXT:  # Documents are not searched by the index.
        return next(filter(None, (_read_copy(vault, each, asked) for each in records)), None)
    known = {record.document: record for record in records}
    found = [*held, *(find_similar(vault, asked, _LEAST, held=known) if known else ())]
    return next((each for each in found if _is_nearly_same(asked, each)), None)


def _read_copy(vault: Vault, record: NoteRecord, asked: SimilarityQuery) -> SimilarNote | None:
    note = find_note(vault, record.path)
    if note is None:
        return None
    is_copy = states_same(asked.text, note.visible_body)
    return SimilarNote(record, note, note.sections[0], Likeness(1.0), True) if is_copy else None


def _fill_index(vault: Vault) -> None:
    if not vault.state.get("view"):
        sync_vault(vault)


def _is_nearly_same(asked: SimilarityQuery, held: SimilarNote) -> bool:
    """Return whether a text contains nearly the statement of a note."""
    if held.is_same or _is_same_but_for_words(held.likeness):
        return True
    there = held.note.section_text(held.section)
    inside = compare_texts(there, KnownText(asked.text, asked.title))
    return not is_brief(there) and _is_same_but_for_words(inside)


def _is_same_but_for_words(likeness: Likeness) -> bool:
    only_words = all(each.kind in {"word", "wording"} for each in likeness.differences)
    return only_words and likeness.similarity >= _NEARLY


def reject_quarantined(
    vault: Vault, asked: SimilarityQuery, fresh: tuple[SimilarNote, ...] = ()
) -> SimilarNote | None:
    """Return a quarantined note that states nearly the same as a text, including `fresh` ones.

    Raises:
        RefusedError: the note states all of it.
    """
    held = find_quarantined_match(vault, asked, fresh)
    if held and (held.is_same or held.likeness.is_said(_ALL)):
        raise RefusedError(
            f"{held.path} states that already, and is quarantined; a person who has read it "
            f"lets it out with `vaultmem state {held.path} candidate`"
        )
    return held


def absorb(vault: Vault, note: Note, new: Memory, state: NoteState) -> str | None:
    """Return the note's text with the memory merged; None if it no longer states the same."""
    if not says_same(note, ask_memory(new)) or not _may_take(vault, note, new, state):
        return None
    author = vault.author
    said = (new.tags, new.cites, new.pinned, _find_wording(note, new))
    try:
        return confirm_note(
            note, Attestation(author.agent, author.session, vault.local_time(), *said)
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
    elsewhere = new._replace(context="")  # In any context.
    is_open = may_absorb(vault, note, elsewhere, state)
    return is_open and new.context.strip("/") in _find_earlier_contexts(vault, note)


def _find_earlier_contexts(vault: Vault, note: Note) -> frozenset[str]:
    """Return the contexts of a note's earlier paths, with uncommitted moves.

    Without git, none is known. The note's whole history is read, which is slow.
    """
    path, paths = str(note.path), []
    with contextlib.suppress(VaultError, ImportError):
        if vault.view.is_work_tree:
            paths += [written for written, _ in vault.journal.find_moved(note.blob)]
            head = vault.head()
            commit = head.commit if head else ""
            moved = read_pending(vault).moved if commit else {}
            for _ in moved:  # From move to move.
                path = moved.get(path, path)
                paths.append(path)
        else:
            commit = vault.view.sources[0].commit
        for _, change in follow_path(vault.history, commit, path) if commit else ():
            paths += [change.path, change.previous]
    return frozenset(note_context(PurePosixPath(each)) for each in paths if each)


def _find_wording(note: Note, new: Memory) -> str:
    said = new.text.strip()
    return "" if said == note.visible_body.strip() else said


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


def _is_same_context(vault: Vault, there: str, wanted: str) -> bool:
    """Return whether two contexts are compatible: one is not given, they are equal, or nested."""
    wanted = wanted.strip("/")
    open_ones = {"", vault.config.default_context}
    if there in open_ones or wanted in open_ones:
        return True
    return f"{there}/".startswith(f"{wanted}/") or f"{wanted}/".startswith(f"{there}/")


def find_contradicted(near: Sequence[SimilarNote]) -> tuple[SimilarNote, ...]:
    """Return the open notes that state another value of the same thing."""
    return tuple(
        each for each in near if each.likeness.is_contradiction and each.note.state in OPEN_STATES
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


def describe_similar(found: Sequence[SimilarNote], text: str) -> tuple[SimilarText, ...]:
    """Return the notes for display, in the same order; quarantined ones without text.

    If a text contradicts a note, `says_more` is whether the note also has other statements.
    """
    contradicted = find_contradicted(found)
    found = [_without_words(each) for each in found]
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
        for each in found
    )
