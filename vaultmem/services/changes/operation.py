"""Change a vault: files, index and branch come about together, or nothing does.

`operate` is where a change begins and ends. It waits for the vault's lock, undoes what a killed
process left, tries again where another program changed the same files or the branch, takes files
back when the work fails, and says with a fault what came of the work. `Operation.move` changes
files on the way.
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
from vaultmem.storage.files import read_known
from vaultmem.storage.git.commit_draft import Moves, RefMovedError
from vaultmem.storage.journal import FileChanges
from vaultmem.storage.replacing import has_to_stay
from vaultmem.storage.scan_files import move_files, read_blob
from vaultmem.vault import Vault

T = TypeVar("T")

#: How often a change is tried that another program comes before: a save, or a commit.
ATTEMPTS = 10


def operate(vault: Vault, undone: str, work: Callable[[Transaction], T]) -> T:
    """Return what `work` does to a vault under its lock: all of it, or nothing.

    It is called again where the branch has moved meanwhile, where index or database prove to be
    damaged, and, if it asks for that, where a file was saved meanwhile. `undone` is the outcome
    that a fault names: "nothing was written"; a fault that comes after a commit names the commit.
    Inside of another operation it is a part of that one.

    Raises:
        ConflictError: others kept changing the same files.
        PendingError: other commits kept coming in.
        BusyError: another process kept the lock.
        FaultError: the disk or the system failed.
    """
    with wrapping_os_errors(undone), vault.lock(), _naming_commits(vault):
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

    `retries_conflicts` is set by work that can be done again where a file was saved meanwhile.
    """

    def __init__(self, vault: Vault) -> None:
        self.retries_conflicts = False
        self.files: FileChanges | None = None
        self._vault = vault
        self._outer: Transaction | None = UNDER_WAY.get(str(vault.state_folder))
        self._before = self._outer.files if self._outer else None
        self._last: list[Callable[[], object]] = []

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Return what `work` does; where it fails, undo the files that it changed."""
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
        if not is_inner:  # HEAD has all of it, so that closing may fail.
            self._last.insert(0, partial(close_operation, vault))
        for each in self._last:
            with vault.leaving_to_next():
                each()
        return value

    def move(
        self, moves: Moves, contents: Mapping[str, bytes], *, is_committed: bool = False
    ) -> None:
        """Change files; `contents` are bytes by blob id.

        With `is_committed`, HEAD is to have the files as they will be when the work ends.

        Raises:
            ConflictError: a file is not as it should be.
        """
        vault, outer = self._vault, self._outer
        is_alone = outer is None and not (is_committed or self.files)
        if is_alone and len(moves) == 1 and not any(has_to_stay(vault.root / x) for x in moves):
            _move_alone(vault, moves, contents)  # It changes whole, so a kill leaves no half of it.
            return
        whole = {**_read_uncommitted(vault, moves), **contents}
        head = vault.head()
        own = FileChanges(head.commit if head else "", is_committed, moves, whole)
        self.files = _join(self.files, own) if self.files else own
        if outer is not None:
            outer.files = _join(outer.files, own) if outer.files else own
        vault.operations.write_files((outer or self).files or own)
        move_files(vault.root, moves, whole)

    def hold_files(self) -> None:
        """Have the files stay as they are without a commit, which has to wait."""
        if self.files:
            self.files = self.files._replace(is_committed=False)

    def then(self, work: Callable[[], object]) -> None:
        """Do at the end what only caches need; a fault there is left to the next sync."""
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
    """Say with each fault of the outermost operation in a `with` which commits it made before.

    Raises:
        FaultError: the disk or the system failed after a commit.
    """
    made = vault.operations.made
    if str(vault.state_folder) in UNDER_WAY:
        yield
        return
    made.clear()
    try:
        yield
    except (OSError, SystemFailureError):
        if not made:
            raise
        commits = format_names([commit[:7] for commit in made])
        outcome = f"the notes are committed ({commits}), but not all is done; run the command again"
        with wrapping_os_errors(outcome, stands=True):
            raise


def _move_alone(vault: Vault, moves: Moves, contents: Mapping[str, bytes]) -> None:
    """Change one file, which no row tells of.

    Raises:
        FaultError: the disk failed; where that was after the change, and the change could not be
            taken back, it says that it is written.
    """
    try:
        move_files(vault.root, moves, contents)
    except SystemFailureError as error:
        ((path, (_, after)),) = moves.items()
        if read_blob(vault.root, PurePosixPath(path)) != (after.blob if after else ""):
            raise
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        done = f"{path} is {'written' if after else 'removed'}, but a power cut may undo that"
        raise SystemFailureError(str(wrap_os_error(cause)), done, stands=True) from error


def _read_uncommitted(vault: Vault, moves: Moves) -> dict[str, bytes]:
    """Return by blob id the bytes before that the files alone have, and git does not."""
    return {
        before.blob: data
        for path, (before, _) in moves.items()
        if before is not None and not vault.manifest.is_committed(path, before.blob)
        if (data := read_known(vault.root, path, before.blob)) is not None
    }


def _join(first: FileChanges, second: FileChanges) -> FileChanges:
    """Return the files of two steps as those of one operation."""
    moves = dict(first.moves)
    earlier = dict(first.earlier)
    for path, (before, after) in second.moves.items():
        known = moves.get(path)
        if known is not None and known[1] is not None:
            earlier[path] = (*earlier.get(path, ()), known[1].blob)
        moves[path] = (known[0] if known else before, after)
    contents = {**first.contents, **second.contents}
    is_committed = first.is_committed or second.is_committed
    return FileChanges(first.head, is_committed, moves, contents, earlier)
