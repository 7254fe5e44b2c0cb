"""Change a vault: files, index and branch change together, or not at all.

`operate` runs a change from start to end. It waits for the vault's lock and undoes what a killed
process left. It retries if another program changed the same files or the branch, and restores files
if the work fails. It adds the outcome to each system error. `Transaction.move` changes files in
between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import TypeVar

from vaultmem.core.text.display import format_names
from vaultmem.errors import (
    ConflictError,
    DamagedError,
    PendingError,
    SystemFailureError,
    VersionMismatchError,
    wrap_os_error,
    wrapping_os_errors,
)
from vaultmem.services.views.recovery import UNDER_WAY, close_operation, recover, undo, undo_moves
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.file_replacement import has_to_stay
from vaultmem.storage.files import read_known
from vaultmem.storage.git.commit_draft import Moves, RefMovedError
from vaultmem.storage.journal import FileChanges
from vaultmem.storage.scan_files import move_files, read_blob
from vaultmem.vault import Vault

T = TypeVar("T")

#: Attempts at a change that conflicts with another program's save or commit.
ATTEMPTS = 10


def operate(vault: Vault, outcome: str, work: Callable[[Transaction], T]) -> T:
    """Run `work` on a vault under its lock and return its result: all of it happens, or nothing.

    `work` runs again if the branch has moved or index or database are damaged. It also runs again,
    on its request, if a file was saved meanwhile. `outcome` is the result in a system error:
    "nothing was written". An error after a commit names the commit. Inside another operation, it is
    a part of that one.

    Raises:
        ConflictError: other programs kept changing the same files.
        PendingError: other commits kept arriving.
        LockTimeoutError: another process kept the lock.
        SystemFailureError: the disk or the system failed.
    """
    with wrapping_os_errors(outcome), vault.lock(), _naming_commits(vault):
        is_inner = str(vault.state_folder) in UNDER_WAY
        vault.store.ensure_id()
        for _ in range(ATTEMPTS - 1):
            operation = Transaction(vault)
            try:
                recover(vault)
                return operation.run(work)
            except RefMovedError:
                continue
            except VersionMismatchError:
                raise
            except ConflictError:
                if not operation.retries_conflicts:
                    raise
            except DamagedError:
                if is_inner:
                    raise
                sync_vault(vault)
        try:
            return Transaction(vault).run(work)
        except RefMovedError:
            raise PendingError("other commits keep coming in; try again") from None


class Transaction:
    """One attempt to change a vault.

    Work sets `retries_conflicts` if it can be repeated after a file was saved meanwhile.
    """

    def __init__(self, vault: Vault) -> None:
        self.retries_conflicts = False
        self.files: FileChanges | None = None
        self._vault = vault
        self._outer: Transaction | None = UNDER_WAY.get(str(vault.state_folder))
        self._before = self._outer.files if self._outer else None
        self._last: list[Callable[[], object]] = []

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Return the result of `work`; if it fails, undo its file changes."""
        vault, is_inner = self._vault, self._outer is not None
        UNDER_WAY.setdefault(str(vault.state_folder), self)
        try:
            value = work(self)
            if self.files and not (is_inner or self.files.is_committed):
                close_operation(vault)
        except BaseException:
            self._undo()
            raise
        finally:
            if not is_inner:
                del UNDER_WAY[str(vault.state_folder)]
        if not is_inner:  # HEAD has all of it; closing can fail.
            self._last.insert(0, partial(close_operation, vault))
        for each in self._last:
            with vault.leaving_to_next():
                each()
        return value

    def move(
        self, moves: Moves, contents: Mapping[str, bytes], *, is_committed: bool = False
    ) -> None:
        """Change files; `contents` are bytes by blob id.

        With `is_committed`, HEAD will have these files when the work ends.

        Raises:
            ConflictError: a file has unexpected content.
        """
        vault, outer = self._vault, self._outer
        is_alone = outer is None and not (is_committed or self.files)
        if is_alone and len(moves) == 1 and not any(has_to_stay(vault.root / x) for x in moves):
            _move_alone(vault, moves, contents)  # Atomic, so a kill leaves no half.
            return
        all_contents = {**_read_uncommitted(vault, moves), **contents}
        head = vault.head()
        changes = FileChanges(head.commit if head else "", is_committed, moves, all_contents)
        self.files = _join(self.files, changes) if self.files else changes
        if outer is not None:
            outer.files = _join(outer.files, changes) if outer.files else changes
        vault.operations.write_files((outer or self).files or changes)
        move_files(vault.root, moves, all_contents)

    def hold_files(self) -> None:
        """Keep the files without a commit, which has to wait."""
        if self.files:
            self.files = self.files._replace(is_committed=False)

    def then(self, work: Callable[[], object]) -> None:
        """Run `work` at the end, for caches only; the next sync repairs a failure."""
        self._last.append(work)

    def _undo(self) -> None:
        vault, files = self._vault, self.files
        if self._outer is None:
            if files:
                undo(vault, files)
            close_operation(vault)
        elif files:
            undo_moves(vault, files.moves, files.contents, files.earlier)
            self._outer.files = self._before
            if self._before:
                vault.operations.write_files(self._before)
            else:
                vault.operations.drop_files()


@contextlib.contextmanager
def _naming_commits(vault: Vault) -> Iterator[None]:
    """Add the commits that the outermost operation made to each system error in the block.

    Raises:
        SystemFailureError: the disk or the system failed after a commit.
    """
    commit_ids = vault.operations.made
    if str(vault.state_folder) in UNDER_WAY:
        yield
        return
    commit_ids.clear()
    try:
        yield
    except (OSError, SystemFailureError):
        if not commit_ids:
            raise
        commits = format_names([commit[:7] for commit in commit_ids])
        outcome = f"the notes are committed ({commits}), but not all is done; run the command again"
        with wrapping_os_errors(outcome, stands=True):
            raise


def _move_alone(vault: Vault, moves: Moves, contents: Mapping[str, bytes]) -> None:
    """Change a single file without an operation record.

    Raises:
        SystemFailureError: the disk failed. If the change was made and could not be undone, the
            error reports it as written.
    """
    try:
        move_files(vault.root, moves, contents)
    except SystemFailureError as error:
        ((path, (_, new_entry)),) = moves.items()
        if read_blob(vault.root, PurePosixPath(path)) != (new_entry.blob if new_entry else ""):
            raise
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        outcome = (
            f"{path} is {'written' if new_entry else 'removed'}, but a power cut may undo that"
        )
        raise SystemFailureError(str(wrap_os_error(cause)), outcome, stands=True) from error


def _read_uncommitted(vault: Vault, moves: Moves) -> dict[str, bytes]:
    """Return by blob id the previous bytes that are only on disk and not in git."""
    return {
        old_entry.blob: data
        for path, (old_entry, _) in moves.items()
        if old_entry is not None and not vault.manifest.is_committed(path, old_entry.blob)
        if (data := read_known(vault.root, path, old_entry.blob)) is not None
    }


def _join(first: FileChanges, second: FileChanges) -> FileChanges:
    """Return the file changes of two steps as those of one operation."""
    moves = dict(first.moves)
    earlier = dict(first.earlier)
    for path, (old_entry, new_entry) in second.moves.items():
        move = moves.get(path)
        if move is not None and move[1] is not None:
            earlier[path] = (*earlier.get(path, ()), move[1].blob)
        moves[path] = (move[0] if move else old_entry, new_entry)
    contents = {**first.contents, **second.contents}
    is_committed = first.is_committed or second.is_committed
    return FileChanges(first.head, is_committed, moves, contents, earlier)
