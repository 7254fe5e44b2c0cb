"""Move notes from state to state, each step on record: why, by whom, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.clients.agents import UNNAMED
from vaultmem.core.delta.commit_message import name_files
from vaultmem.core.lifecycle import Mover, State, check_transition
from vaultmem.core.notes.edit_properties import mark_as_memory, quarantine_unread, write_state
from vaultmem.core.notes.note import Note
from vaultmem.core.secrets.scan import find_secrets
from vaultmem.errors import RefusedError
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.read_notes import read_note, resolve_address
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import Edit, write_event
from vaultmem.storage.journal import Author
from vaultmem.vault import Vault


class Move(NamedTuple):
    """A note that went from one state to another."""

    path: str
    before: State
    after: State


class Transition(NamedTuple):
    """What a transition did: the moves, and the commits."""

    moves: tuple[Move, ...]
    report: CommitReport


def change_state(
    vault: Vault,
    addresses: Sequence[str],
    state: State,
    reason: str = "",
    *,
    is_machine: bool = False,
) -> Transition:
    """Set the notes' state and `state_reason`, and commit that and nothing else.

    A machine is an agent, or what runs unattended under a person's name (`is_machine`). From
    candidate to active goes `promote_notes` alone, which puts policies and skills on record.

    Raises:
        NoteNotFoundError: a note is missing.
        RefusedError: a step is not allowed; none was made.
        PendingError: the notes are changed; their commit has to wait.
    """
    paths = [resolve_address(vault, address)[0] for address in addresses]
    reason = check_reason(reason)
    with vault.lock():
        mover = name_mover(vault, is_machine)
        notes = [read_note(vault, path) for path in dict.fromkeys(paths)]
        moves = [Move(str(note.path), note.state, state) for note in notes if note.state != state]
        for note in notes:
            if note.state != state:
                check_move(note, state, mover)
        if not moves:
            return Transition((), CommitReport())
        changes = {PurePosixPath(m.path): set_state(state, reason, mover) for m in moves}
        event = _make_event(vault, moves, reason)
        return Transition(tuple(moves), write_event(vault, changes, event))


def set_state(state: State, reason: str, mover: Mover) -> Edit:
    """Return the change that sets a note's state and says why."""

    def change(note: Note) -> str:
        if note.state == state:
            return note.text
        if note.problem and state is State.QUARANTINED:
            return quarantine_unread(note.text)
        check_move(note, state, mover)
        text = write_state(note.text, state, reason)
        return text if reason else mark_as_memory(note.path, text, note.kind)

    return change


def check_move(note: Note, state: State, mover: Mover) -> None:
    """Allow a step.

    Raises:
        RefusedError: it is none that this mover may make.
    """
    if (note.state, state) == (State.CANDIDATE, State.ACTIVE):
        raise RefusedError(
            f"{note.path}: a candidate becomes active by `vaultmem promote {note.path}`"
        )
    check_transition(str(note.path), note.kind, note.state, state, note.pinned, mover)


def name_mover(vault: Vault, is_machine: bool = False) -> Mover:
    """Return who moves notes: the person, or an agent."""
    return Mover(is_machine or not vault.is_person, vault.may_activate(vault.author.agent))


def check_reason(reason: str) -> str:
    """Return a reason in one line.

    Raises:
        RefusedError: it looks like a credential.
    """
    reason = " ".join(reason.split())
    if find_secrets(reason):
        raise RefusedError("the reason looks like a credential; nothing was changed")
    return reason


def _make_event(vault: Vault, moves: Sequence[Move], reason: str) -> Event:
    subject = name_files("state", [move.path for move in moves], f" to {moves[0].after}")
    why = f": {reason}" if reason else ""
    body = tuple(f"{move.path}: {move.before} to {move.after}{why}" for move in moves)
    return Event("state", subject, vault.author, body, "refine")


#: Who git names where no agent gave the command.
MACHINE = "vaultmem"


def act_as_machine(vault: Vault) -> Vault:
    """Return the same vault, its storage shared, for writing as the agent, else as vaultmem.

    A person's timer says no more of who asks than that nobody is named.
    """
    if vault.author.agent not in {"", UNNAMED}:
        return vault
    return replace(vault, author=Author(MACHINE))


def refuse_branch(vault: Vault) -> None:
    """Look after what is checked out, and nothing else.

    Raises:
        RefusedError: the vault's ref is another branch.
    """
    if branch := find_branch(vault):
        raise RefusedError(f"{branch}: not checked out; `vaultmem switch {branch}` first")
