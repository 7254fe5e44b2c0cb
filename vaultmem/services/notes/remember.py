"""Write down a memory: gate, look-up of what is known, atomic write, journal, index."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.lifecycle import INSTRUCTION_KINDS, Kind, State
from vaultmem.core.links.link import link_to
from vaultmem.core.paths import check_new_name, fold, fold_name, parse_note_path, slugify
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.likeness.known import (
    Known,
    Nearby,
    Telling,
    describe_similar,
    look_up,
    name_contradicted,
    take_in,
)
from vaultmem.services.notes.memory import (
    Links,
    Memory,
    check_encoding,
    check_memory,
    choose_title,
    compose_note,
)
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.moves import undo_move
from vaultmem.services.reading.sync import sync_paths
from vaultmem.services.writing.divide import Event
from vaultmem.services.writing.edit_notes import edit_note
from vaultmem.services.writing.write_branch import commit_on_branch, names_on_branch
from vaultmem.storage.files import create_file
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.services.likeness.similar import SimilarNote

__all__ = ["Memory", "Nearby", "Outcome", "Remembered", "remember"]

_NAME_ATTEMPTS = 1_000


class Outcome(StrEnum):
    """What became of a memory: a note of its own, or another note that took it in."""

    CREATED = "created"
    UPDATED = "updated"
    KNOWN = "known"


class Remembered(NamedTuple):
    """The note that holds the memory, and the notes that are like it.

    `added` are the sentences that a note took in; none where it said all of it already.
    """

    path: str
    blob: str
    title: str
    state: str
    outcome: Outcome = Outcome.CREATED
    added: tuple[str, ...] = ()
    similar: tuple[Nearby, ...] = ()


def remember(vault: Vault, memory: Memory, *, force: bool = False) -> Remembered:
    """Write down a memory; when this returns it is durable on disk and indexed, not yet committed.

    A note that says the same takes it in; one that is near is linked; `force` always makes a new
    note. On a branch that is not checked out, the write is a commit there.

    Policies and skills that an agent writes start as candidates: they instruct nobody before
    they were promoted.

    Raises:
        RefusedError: empty, too large, looks like a credential, or an unsafe name.
    """
    check_encoding(memory)
    title = choose_title(memory)
    state = memory.state or _first_state(vault, memory.kind)
    folder = parse_note_path(f"notes/{memory.context or vault.config.context}")
    check_memory(
        memory, compose_note(vault, memory, title, state).encode("utf-8"), vault, str(folder)
    )
    if branch := find_branch(vault):
        return _remember_on_branch(vault, branch, memory, title, force)
    with vault.lock():
        undo_move(vault)  # A name is free only if no interrupted switch has taken its note away.
        near: tuple[SimilarNote, ...] = ()
        if not force:
            telling = _tell(vault, memory)
            known = look_up(vault, telling)
            if known.target is not None:
                done = _take_in(vault, known.target, telling, known.near)
                if done is not None:
                    return done
            near = known.near
        data = compose_note(vault, memory, title, state, _link(near)).encode("utf-8")
        path = _create(vault, folder, slugify(title), data)
        sync_paths(vault, [path])
    return Remembered(str(path), blob_id(data), title, state, similar=describe_similar(vault, near))


def _tell(vault: Vault, memory: Memory) -> Telling:
    state = memory.state or _first_state(vault, memory.kind)
    given = memory.state is not None
    place = (memory.text, memory.title, memory.context, memory.kind, state, given)
    return Telling(*place, memory.tags, memory.refs, memory.pinned)


def _take_in(
    vault: Vault, target: SimilarNote, telling: Telling, near: tuple[SimilarNote, ...]
) -> Remembered | None:
    """Let a note take the memory in; None if it was changed meanwhile and says another thing."""

    class _ChangedError(Exception):
        pass

    def change(note: Note) -> str:
        text = take_in(vault, note, telling)
        if text is None:
            raise _ChangedError
        return text

    try:
        blob = edit_note(vault, target.note.path, change)
    except (_ChangedError, ConflictError, NoteNotFoundError):
        return None
    return _say_taken(vault, target, blob, near)


def _say_taken(
    vault: Vault, target: SimilarNote, blob: str, near: tuple[SimilarNote, ...]
) -> Remembered:
    note, added = target.note, target.likeness.added
    outcome = Outcome.UPDATED if added else Outcome.KNOWN
    state = State.ACTIVE if note.state is State.STALE and note.matter.body else note.state
    shown = describe_similar(vault, (target, *near))
    return Remembered(target.path, blob, note.title, state, outcome, added, shown)


def _link(near: tuple[SimilarNote, ...]) -> Links:
    against = name_contradicted(near)
    return {
        "contradicts": tuple(link_to(each.path) for each in against),
        "related": tuple(link_to(each.path) for each in near if each not in against),
    }


def _first_state(vault: Vault, kind: Kind) -> State:
    by_agent = not vault.is_person
    return State.CANDIDATE if by_agent and kind in INSTRUCTION_KINDS else State.ACTIVE


def _create(vault: Vault, folder: PurePosixPath, slug: str, data: bytes) -> PurePosixPath:
    """Create the note under the first free name."""
    for path in _free_names(folder, slug, _names_in(vault, folder)):
        vault.journal.record(str(path), blob_id(data), vault.author, time.time())
        try:
            create_file(vault.root, path, data)
        except ConflictError:
            continue
        return path
    raise AssertionError("unreachable")


def _remember_on_branch(
    vault: Vault, branch: str, memory: Memory, title: str, force: bool
) -> Remembered:
    folder = parse_note_path(f"notes/{memory.context or vault.config.context}")
    telling = _tell(vault, memory)
    done: list[Remembered] = []

    def write(seen: Vault) -> dict[str, bytes | None]:
        known = Known(None, ()) if force else look_up(seen, telling)
        if known.target is not None:
            text = take_in(seen, known.target.note, telling)
            if text is not None:
                data = text.encode("utf-8")
                done.append(_say_taken(seen, known.target, blob_id(data), known.near))
                return {known.target.path: data}
        path = next(_free_names(folder, slugify(title), names_on_branch(seen, folder)))
        data = compose_note(vault, memory, title, telling.state, _link(known.near)).encode("utf-8")
        near = describe_similar(seen, known.near)
        done.append(Remembered(str(path), blob_id(data), title, telling.state, similar=near))
        return {str(path): data}

    event = Event("write", "write: {paths}", vault.author, intent="observe")
    commit_on_branch(vault, branch, event, write)
    return done[-1]


def _free_names(folder: PurePosixPath, slug: str, taken: set[str]) -> Iterator[PurePosixPath]:
    """Yield the names that are not taken: `slug`, `slug-2`, `slug-3` ..."""
    for number in range(1, _NAME_ATTEMPTS):
        path = folder / (f"{slug}.md" if number == 1 else f"{slug}-{number}.md")
        check_new_name(path)
        if fold_name(path) not in taken:
            yield path
    raise RefusedError(f"{folder}/{slug}: too many notes of that name; give another title")


def _names_in(vault: Vault, folder: PurePosixPath) -> set[str]:
    """Return the folded names in a folder, so that no case or NFC/NFD twin comes to be."""
    try:
        return {fold(f"{folder}/{name}") for name in os.listdir(vault.root / folder)}
    except OSError:
        return set()
