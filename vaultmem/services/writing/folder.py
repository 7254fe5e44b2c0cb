"""Write to the files of the folder in one operation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from vaultmem.core.blob import blob_id
from vaultmem.errors import PendingError
from vaultmem.services.reading.sync import sync_paths
from vaultmem.services.writing.change import Change, Step, Written
from vaultmem.services.writing.commit import CommitReport, commit_earlier, commit_event
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.storage.git.commit_draft import Move, TreeEntry
from vaultmem.storage.journal import REMOVED

if TYPE_CHECKING:
    from vaultmem.vault import Vault

T = TypeVar("T")


def write_to_folder(vault: Vault, plan: Callable[[Change], T]) -> Written[T]:
    """Do what `plan` says; a save by another program meanwhile is kept, and `plan` asked again.

    Raises:
        ConflictError, RefusedError, PendingError: as for `write`.
    """
    waiting: list[PendingError] = []

    def work(operation: Operation) -> Written[T]:
        waiting.clear()
        change = Change(vault)
        value = plan(change)
        operation.retries_conflicts = True
        return Written(value, _carry_out(operation, vault, change, waiting))

    done = operate(vault, "nothing was written", work)
    for error in waiting:  # The notes are as they should be, and their commit waits.
        raise error
    return done


def _carry_out(
    operation: Operation, vault: Vault, change: Change, waiting: list[PendingError]
) -> CommitReport:
    """Commit what was there before, write, and commit what is an event."""
    earlier = commit_earlier(vault, change.find_touched(), change.whose)
    report = CommitReport(paths=tuple(change.steps))
    event = change.event
    if event is None or change.is_left or vault.head() is None:
        if change.steps:
            operation.move(*_as_moves(vault, change))
            operation.then(lambda: sync_paths(vault, map(PurePosixPath, change.steps)))
    elif change.steps or event.only:
        operation.move(*_as_moves(vault, change), is_committed=True)
        try:
            report = commit_event(vault, event._replace(only=event.only or tuple(change.steps)))
        except PendingError as error:
            operation.keep_files()
            waiting.append(error)
    return report._replace(commits=(*earlier, *report.commits))


def _as_moves(vault: Vault, change: Change) -> tuple[dict[str, Move], dict[str, bytes]]:
    """Say who writes which bytes, and return how the files change, with their contents."""
    moves: dict[str, Move] = {}
    contents: dict[str, bytes] = {}
    with vault.state.transaction():
        for path, step in change.steps.items():
            blob = REMOVED if step.data is None else blob_id(step.data)
            vault.journal.record(path, blob, vault.author, vault.now(), step.data)
            moves[path] = _as_move(vault, path, step, blob)
            if step.data is not None:
                contents[blob] = step.data
    return moves, contents


def _as_move(vault: Vault, path: str, step: Step, blob: str) -> Move:
    mode = f"100{step.mode:03o}" if step.mode is not None else "100644"
    if step.before:
        with contextlib.suppress(OSError):
            mode = f"100{(vault.root / path).lstat().st_mode & 0o777:03o}"
    before = TreeEntry(mode, step.before) if step.before else None
    return before, None if step.data is None else TreeEntry(mode, blob)
