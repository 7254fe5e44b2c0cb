"""Change files of the folder in one transaction: whole, or undone by whoever comes next."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from vaultmem.core.blob import blob_id
from vaultmem.errors import (
    ConflictError,
    DamagedError,
    FaultError,
    PendingError,
    name_failure,
    naming_faults,
)
from vaultmem.services.reading.recovery import is_under_way, mark_under_way, recover, undo_moves
from vaultmem.services.reading.sync import sync_paths, sync_vault
from vaultmem.services.writing.change import Change, Step, Written
from vaultmem.services.writing.commit import CommitReport, commit_earlier, commit_event
from vaultmem.storage.files import read_known
from vaultmem.storage.git.commit_draft import TreeEntry
from vaultmem.storage.git.intent import Intent, Move, Moves, drop_intent, read_intent, write_intent
from vaultmem.storage.journal import REMOVED
from vaultmem.storage.replacing import has_to_stay
from vaultmem.storage.work_tree import move_files, read_blob

if TYPE_CHECKING:
    from vaultmem.services.writing.divide import Event
    from vaultmem.vault import Vault

_ATTEMPTS = 5

T = TypeVar("T")


def write_to_folder(vault: Vault, plan: Callable[[Change], T]) -> Written[T]:
    """Do what `plan` says; a save by somebody else meanwhile is kept, and `plan` asked again.

    It is asked again, too, where index or database prove to be damaged before all is written.

    Raises:
        ConflictError, RefusedError, PendingError: as for `write`.
    """
    with vault.lock():
        recover(vault)
        for attempt in range(_ATTEMPTS):
            is_last, is_planned = attempt == _ATTEMPTS - 1, False
            try:
                change = Change(vault)
                value = plan(change)
                is_planned = True
                return Written(value, _carry_out(vault, change))
            except ConflictError:
                if is_last or not is_planned:
                    raise
            except DamagedError:
                if is_last:
                    raise
                sync_vault(vault)
    raise AssertionError("unreachable")


def _carry_out(vault: Vault, change: Change) -> CommitReport:
    """Commit what was there before, write, and commit what is an event."""
    earlier = commit_earlier(vault, change.find_touched(), change.whose)
    report = CommitReport(paths=tuple(change.steps))
    event = change.event
    if event is None or change.is_left or vault.head() is None:
        if change.steps:
            with moving(vault, *_as_moves(vault, change), is_committed=False):
                pass
            with vault.leaving_to_next():
                sync_paths(vault, map(PurePosixPath, change.steps))
    elif change.steps or event.only:
        report = _write_event(vault, change, event)
    return report._replace(commits=(*earlier, *report.commits))


def _write_event(vault: Vault, change: Change, event: Event) -> CommitReport:
    waiting: PendingError | None = None
    report = CommitReport()
    with moving(vault, *_as_moves(vault, change), is_committed=True):
        try:
            report = commit_event(vault, event._replace(only=event.only or tuple(change.steps)))
        except PendingError as error:  # It waits by itself, and the notes are as they should be.
            waiting = error
    if waiting is not None:
        raise waiting
    return report


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


@contextlib.contextmanager
def moving(
    vault: Vault, moves: Moves, contents: Mapping[str, bytes], *, is_committed: bool
) -> Iterator[None]:
    """Change files for a `with` in which that becomes final; what ends in an error is undone.

    `contents` are bytes by blob id. With `is_committed`, HEAD is to have the files as they will
    be. Inside of another transaction it is a part of that one, and stands or falls with it.

    Raises:
        ConflictError: a file is not as it should be; nothing was changed.
    """
    with naming_faults("nothing was written"), vault.lock():
        outer = read_intent(vault.state_folder) if is_under_way(vault) else None
        if outer is None and not is_committed and len(moves) == 1 and _is_whole(vault, moves):
            _move_alone(vault, moves, contents)
            yield
            return
        whole = {**_read_uncommitted(vault, moves), **contents}
        head = vault.head()
        named = head.commit if head else ""
        intent = Intent(named, is_committed, moves, whole)
        write_intent(vault.state_folder, _join(outer, intent) if outer else intent)
        mark_under_way(vault, True)
        try:
            move_files(vault.root, moves, whole)
            yield
            if outer is None and not is_committed:
                drop_intent(vault.state_folder)
        except BaseException:
            _undo(vault, outer, moves, whole)
            raise
        finally:
            mark_under_way(vault, outer is not None)
        if outer is None and is_committed:
            with vault.leaving_to_next():  # HEAD has all of it: it is over.
                drop_intent(vault.state_folder)


def _is_whole(vault: Vault, moves: Moves) -> bool:
    """Tell whether each file changes whole by itself, so that a kill leaves no half of it."""
    return not any(has_to_stay(vault.root / path) for path in moves)


def _move_alone(vault: Vault, moves: Moves, contents: Mapping[str, bytes]) -> None:
    """Change one file, which no intent tells of.

    Raises:
        FaultError: the disk failed; where that was behind the change and it let nobody take that
            back, it says that it is written.
    """
    try:
        move_files(vault.root, moves, contents)
    except FaultError as error:
        ((path, (_, after)),) = moves.items()
        if read_blob(vault.root, PurePosixPath(path)) != (after.blob if after else ""):
            raise
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        done = f"{path} is {'written' if after else 'removed'}, but a power cut may undo that"
        raise FaultError(str(name_failure(cause)), done, stands=True) from error


def _undo(vault: Vault, outer: Intent | None, moves: Moves, contents: Mapping[str, bytes]) -> None:
    """Bring the files back; what is inside of another transaction leaves that one as it was."""
    if outer is not None:
        undo_moves(vault, moves, contents)
        write_intent(vault.state_folder, outer)
        return
    mark_under_way(vault, False)
    recover(vault)


@contextlib.contextmanager
def one_transaction(vault: Vault, *, is_committed: bool = True) -> Iterator[None]:
    """Let all that is written in a `with` come about together, and the commit if one ends it."""
    with moving(vault, {}, {}, is_committed=is_committed):
        yield


def _read_uncommitted(vault: Vault, moves: Moves) -> dict[str, bytes]:
    """Return by blob id the bytes before that the files alone have, and git does not."""
    return {
        before.blob: data
        for path, (before, _) in moves.items()
        if before is not None and not vault.manifest.is_committed(path, before.blob)
        if (data := read_known(vault.root, path, before.blob)) is not None
    }


def _join(outer: Intent, inner: Intent) -> Intent:
    """Return the intent of a transaction with what is written inside of it now."""
    moves = dict(outer.moves)
    earlier = dict(outer.earlier)
    for path, (before, after) in inner.moves.items():
        first = moves.get(path)
        if first is not None and first[1] is not None:
            earlier[path] = (*earlier.get(path, ()), first[1].blob)
        moves[path] = (first[0] if first else before, after)
    return outer._replace(
        moves=moves, contents={**outer.contents, **inner.contents}, earlier=earlier
    )
