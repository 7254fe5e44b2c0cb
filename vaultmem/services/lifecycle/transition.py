"""Change a note's state: promote candidates, archive, mark as stale, and quarantine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.clients.agents import UNNAMED
from vaultmem.core.commit_message import format_files
from vaultmem.core.indexing.section_texts import digest_body
from vaultmem.core.lifecycle import (
    OWNER_KINDS,
    NoteState,
    StateChanger,
    check_promotion,
    check_transition,
)
from vaultmem.core.notes.edit_properties import mark_as_memory, quarantine_unread, write_state
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.secrets.scan import find_secrets
from vaultmem.core.text.paths import parse_note_path
from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError, wrapping_os_errors
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.ownership import AuthorScope, scan_note_text
from vaultmem.services.changes.write import Edit, replace_text, write, write_event
from vaultmem.services.views.open_view import find_branch
from vaultmem.services.views.read_notes import read_note, resolve_address
from vaultmem.services.views.trust_withdrawal import is_trust_named
from vaultmem.storage.journal import Author
from vaultmem.vault import HOW_TO_SAY, Vault


class PromoteResult(NamedTuple):
    """The result of a promotion: (path, old state) of each note, newly trusted notes, and commits.

    `active` were active and needed no change. `unsaid` are policies, skills and preferences without
    effect until a person promotes them or, with `by_person`, until the vault is trusted.
    """

    notes: tuple[tuple[str, str], ...]
    trusted: tuple[str, ...]
    report: CommitReport
    active: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()
    by_person: bool = False


def promote_notes(vault: Vault, addresses: Sequence[str]) -> PromoteResult:
    """Set the notes' state to active, and commit only that, as `promote`.

    A folder as address means its candidates. If the vault is trusted and the caller is a person, or
    an agent in `promoting_agents`, promoted policies, skills and preferences are trusted until
    their text changes. For an active note only trust is recorded; edits in it wait for the next
    commit.

    Raises:
        NoteNotFoundError, RefusedError: a note is missing or cannot be promoted; none was.
        PendingError: the notes are active; their commit has to wait.
    """
    paths = [path for address in addresses for path in _find_named(vault, address)]
    promoted_notes: list[Note] = []
    active_notes: list[Note] = []

    def plan(change: Change) -> list[tuple[PurePosixPath, NoteState]]:
        all_notes = [change.read(path) for path in dict.fromkeys(paths)]
        for note in all_notes:
            check_note(vault, note)
        notes = [
            each for each in all_notes if each.state is not NoteState.ACTIVE or _is_new(vault, each)
        ]
        active_notes[:] = [each for each in all_notes if each not in notes]
        promoted_notes[:] = [_activate(change, note) for note in notes]
        old_states = [(note.path, note.state) for note in notes]
        if not notes:
            return old_states
        change.commit(make_event(vault, old_states), AuthorScope.OTHERS_AND_EDITS)
        return old_states

    with vault.lock():
        try:
            old_states, report = write(vault, plan)
        except PendingError:
            if not find_branch(vault):  # Nothing was written, so nothing is trusted.
                record_trust(vault, promoted_notes)
            raise
        trusted = record_trust(vault, promoted_notes)
    notes = tuple((str(path), state.value) for path, state in old_states)
    unsaid = list_untrusted(vault, [*promoted_notes, *active_notes])
    active = tuple(str(each.path) for each in active_notes)
    return PromoteResult(notes, trusted, report, active, unsaid, vault.is_person)


def _find_named(vault: Vault, address: str) -> list[PurePosixPath]:
    """Return the note at an address, or the candidates in a folder.

    Raises:
        NoteNotFoundError: there is no such note and no candidate.
    """
    try:
        return [resolve_address(vault, address)[0]]
    except NoteNotFoundError:
        prefix = f"{parse_note_path(address)}/"
        records = vault.view.records("d.state = ?", [NoteState.CANDIDATE])
        candidates = [each for each in records if each.path.startswith(prefix) and not each.problem]
        if not candidates:
            raise
        return [PurePosixPath(each.path) for each in candidates]


def _activate(change: Change, note: Note) -> Note:
    """Set a note's state to active, and return the new note."""
    if note.state == NoteState.ACTIVE:
        return note
    data = replace_text(change, note, lambda each: write_state(each.text, NoteState.ACTIVE))
    return parse_note(note.path, data)


def check_note(vault: Vault, note: Note) -> None:
    """Check that a note may be promoted.

    Raises:
        RefusedError: its state or pin does not allow it, or it looks like a credential.
    """
    if note.problem:
        raise RefusedError(f"{note.path}: {note.problem}; fix it in an editor first")
    check_promotion(str(note.path), note.state)
    if note.state is not NoteState.ACTIVE:
        check_activation(vault, note)
    if note.pinned and note.state is not NoteState.ACTIVE:
        vault.require_person(f"{note.path}: pinned, so only a person promotes it")
    for leak in scan_note_text(vault, str(note.path), note.text):
        raise RefusedError(
            f"{note.path}:{leak.line}: this looks like a credential ({leak.rule}); "
            "remove it before you promote the note"
        )


def check_activation(vault: Vault, note: Note) -> None:
    """Check that a note may become active.

    Raises:
        RefusedError: its text was trusted before, and the caller is an agent that may not promote.
    """
    if note.kind not in OWNER_KINDS or vault.may_activate(vault.author.agent):
        return
    if is_trust_named(vault, (str(note.path), digest_body(note))):
        vault.require_person(f"{note.path}: was trusted, so only a person makes it active again")


def make_event(
    vault: Vault, old_states: Sequence[tuple[PurePosixPath, NoteState]], origin: str = ""
) -> Event:
    """Return the event for promoted notes (path, old state); `origin` is appended to each line."""
    lines = tuple(f"{path}: {state} to active{origin}" for path, state in old_states)
    only = tuple(str(path) for path, _ in old_states)
    return Event("promote", format_files("promote", only), vault.author, lines, "refine", only=only)


def record_trust(vault: Vault, notes: Sequence[Note]) -> tuple[str, ...]:
    """Record trust in policies, skills and preferences, if the caller may; return their paths."""
    if not _may_say(vault):
        return ()
    digests = {str(n.path): digest_body(n) for n in notes if n.kind in OWNER_KINDS}
    if not digests:
        return ()
    outcome = "the notes are promoted, but not trusted yet; promote them again"
    with wrapping_os_errors(outcome, stands=True):
        vault.trust.record(digests)
    return tuple(digests)


def _may_say(vault: Vault) -> bool:
    """Return whether the caller may decide which notes instruct agents."""
    return vault.may_activate(vault.author.agent) and vault.trust.is_trusted()


def _is_new(vault: Vault, note: Note) -> bool:
    """Return whether a note's current text should be trusted and is not trusted yet."""
    return _may_say(vault) and _is_unsaid(vault, note)


def list_untrusted(vault: Vault, notes: Sequence[Note]) -> tuple[str, ...]:
    """Return the untrusted policies, skills and preferences."""
    return tuple(str(note.path) for note in notes if _is_unsaid(vault, note))


def _is_unsaid(vault: Vault, note: Note) -> bool:
    is_own_lock = vault.trust.notes().get(str(note.path), ())
    return note.kind in OWNER_KINDS and digest_body(note) not in is_own_lock


def describe_untrusted(result: PromoteResult) -> str:
    """Return how to trust the promoted notes that are not trusted, or ""."""
    if not result.unsaid:
        return ""
    names = ", ".join(result.unsaid)
    if result.by_person:
        return (
            f"{names}: evidence, no instruction, because the vault is not trusted; "
            "if the vault is yours, run `vaultmem trust`"
        )
    return f"{names}: evidence, no instruction, until a person promotes it {HOW_TO_SAY}"


# Change notes' states, each step with reason and author, in one commit.


class Move(NamedTuple):
    """A note that changed from one state to another."""

    path: str
    before: NoteState
    after: NoteState


class TransitionResult(NamedTuple):
    """The state changes of a transition, and the commits."""

    moves: tuple[Move, ...]
    report: CommitReport


def change_state(
    vault: Vault,
    addresses: Sequence[str],
    state: NoteState,
    reason: str = "",
    *,
    is_machine: bool = False,
) -> TransitionResult:
    """Set the notes' state and `state_reason`, and commit only that.

    `is_machine` is for a job that runs unattended under a person's name. Only `promote_notes` makes
    candidates active, because it records trust.

    Raises:
        NoteNotFoundError: a note is missing.
        RefusedError: a step is not allowed; none was made.
        PendingError: the notes are changed; their commit has to wait.
    """
    paths = [resolve_address(vault, address)[0] for address in addresses]
    reason = check_reason(reason)
    with vault.lock():
        mover = acting_party(vault, is_machine)
        notes = [read_note(vault, path) for path in dict.fromkeys(paths)]
        moves = [Move(str(note.path), note.state, state) for note in notes if note.state != state]
        for note in notes:
            if note.state != state:
                check_move(note, state, mover)
        if not moves:
            return TransitionResult((), CommitReport())
        changes = {PurePosixPath(m.path): set_state(state, reason, mover) for m in moves}
        event = _make_event(vault, moves, reason)
        return TransitionResult(tuple(moves), write_event(vault, changes, event))


def set_state(state: NoteState, reason: str, mover: StateChanger) -> Edit:
    """Return the edit that sets a note's state and reason."""

    def change(note: Note) -> str:
        if note.state == state:
            return note.text
        if note.problem and state is NoteState.QUARANTINED:
            return quarantine_unread(note.text)
        check_move(note, state, mover)
        text = write_state(note.text, state, reason)
        return text if reason else mark_as_memory(note.path, text, note.kind)

    return change


def check_move(note: Note, state: NoteState, mover: StateChanger) -> None:
    """Check that the caller may change a note's state.

    Raises:
        RefusedError: the caller may not.
    """
    if (note.state, state) == (NoteState.CANDIDATE, NoteState.ACTIVE):
        raise RefusedError(
            f"{note.path}: a candidate becomes active by `vaultmem promote "
            f"{shlex.quote(str(note.path))}`"
        )
    check_transition(str(note.path), note.kind, note.state, state, note.pinned, mover)


def acting_party(vault: Vault, is_machine: bool = False) -> StateChanger:
    """Return who changes states: the person or an agent, and its right to promote."""
    return StateChanger(is_machine or not vault.is_person, vault.may_activate(vault.author.agent))


def check_reason(reason: str) -> str:
    """Return a reason as one line.

    Raises:
        RefusedError: it looks like a credential.
    """
    reason = " ".join(reason.split())
    if find_secrets(reason):
        raise RefusedError("the reason looks like a credential; nothing was changed")
    return reason


def _make_event(vault: Vault, moves: Sequence[Move], reason: str) -> Event:
    subject = format_files("state", [move.path for move in moves], f" to {moves[0].after}")
    suffix = f": {reason}" if reason else ""
    body = tuple(f"{move.path}: {move.before} to {move.after}{suffix}" for move in moves)
    return Event("state", subject, vault.author, body, "refine")


#: Author in git if no agent gave the command.
MACHINE = "vaultmem"


def as_agent(vault: Vault) -> Vault:
    """Return the vault with the agent as author, else "vaultmem", sharing storage.

    A command of a person's timer has no agent, so vaultmem is the author.
    """
    if vault.author.agent not in {"", UNNAMED}:
        return vault
    return replace(vault, author=Author(MACHINE))


def check_branch(vault: Vault) -> None:
    """Check that the vault's ref is checked out.

    Raises:
        RefusedError: the vault's ref is another branch.
    """
    if branch := find_branch(vault):
        raise RefusedError(f"{branch}: not checked out; `vaultmem switch {branch}` first")
