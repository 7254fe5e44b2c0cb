"""Do what a reviewed report proposes: exactly that, in one commit, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.delta.commit_message import name_files
from vaultmem.core.lifecycle import State
from vaultmem.core.notes.note import Note
from vaultmem.core.paths import parse_note_path
from vaultmem.core.upkeep.proposal import NEW_STATES, Action, Proposal, Report
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.lifecycle.transition import (
    check_reason,
    name_mover,
    refuse_branch,
    set_state,
)
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.upkeep.dedup import Merge, change_merged
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import Edit, write_event
from vaultmem.vault import Vault


class Applied(NamedTuple):
    """What was done of a report, what somebody had done already, and the commits."""

    done: tuple[Proposal, ...]
    already: tuple[Proposal, ...]
    report: CommitReport


def apply_report(vault: Vault, report: Report) -> Applied:
    """Make the changes of a report in one commit; a machine's rights suffice for all of them.

    What has been done meanwhile, by another curator for example, is left as it is.

    Raises:
        ConflictError: notes are not as they were when the report was made; nothing was changed.
        RefusedError: a change is none that a machine may make; nothing was changed.
        PendingError: the notes are changed; their commit has to wait.
    """
    refuse_branch(vault)
    with vault.lock():
        sync_vault(vault)
        todo: list[Proposal] = []
        already: list[Proposal] = []
        outdated: list[str] = []
        for proposal in report.changes:
            note = _read(vault, proposal.path)
            if note and _is_done(note, proposal):
                already.append(proposal)
            elif note is None or note.blob != proposal.blob or _has_moved(vault, proposal):
                outdated.append(proposal.path)
            else:
                todo.append(proposal)
        if outdated:
            more = f" and {len(outdated) - 1} more" if len(outdated) > 1 else ""
            raise ConflictError(
                f"{outdated[0]}{more}: changed since the report was made; nothing was done, "
                "run `vaultmem curate` again"
            )
        if not todo:
            return Applied((), tuple(already), CommitReport())
        made = write_event(vault, _plan_changes(vault, todo), _make_event(vault, todo))
        return Applied(tuple(todo), tuple(already), made)


def _plan_changes(vault: Vault, proposals: Sequence[Proposal]) -> dict[PurePosixPath, Edit]:
    mover = name_mover(vault, is_machine=True)
    merges = [
        Merge(each.path, each.into, each.blob, each.into_blob)
        for each in proposals
        if each.action is Action.MERGE_DUPLICATES
    ]
    changes = change_merged(vault, merges, mover)
    for each in proposals:
        if each.action is not Action.MERGE_DUPLICATES:
            path = parse_note_path(each.path)
            if path in changes:
                raise RefusedError(f"{path}: the report changes it twice; make a new one")
            reason = check_reason(each.reason)
            changes[path] = set_state(NEW_STATES[each.action], reason, mover)
    return changes


def _make_event(vault: Vault, proposals: Sequence[Proposal]) -> Event:
    counts: dict[State, int] = {}
    for each in proposals:
        state = State.DEPRECATED if each.into else NEW_STATES[each.action]
        counts[state] = counts.get(state, 0) + 1
    counted = ", ".join(f"{number} {state}" for state, number in counts.items())
    body = tuple(
        f"{each.path}: {each.action.replace('_', ' ')}, {check_reason(each.reason)}"
        for each in proposals
    )
    subject = name_files("curate", [each.path for each in proposals], f" ({counted})")
    return Event("curate", subject, vault.author, body, "refine")


def _is_done(note: Note, proposal: Proposal) -> bool:
    """Tell whether a note is in the state already that a proposal wants."""
    return note.blob != proposal.blob and note.state is NEW_STATES[proposal.action]


def _has_moved(vault: Vault, proposal: Proposal) -> bool:
    """Tell whether the note that takes another in is not as it was."""
    if proposal.action is not Action.MERGE_DUPLICATES:
        return False
    into = _read(vault, proposal.into)
    return into is None or into.blob != proposal.into_blob


def _read(vault: Vault, path: str) -> Note | None:
    try:
        return read_note(vault, parse_note_path(path))
    except NoteNotFoundError:
        return None
