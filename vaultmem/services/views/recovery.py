"""Undo the operation that a killed process left unfinished, in files and in git's index.

An operation is over when its row is gone; one that makes a commit is over with that commit. So a
crash anywhere before leaves nothing of it, and one after leaves all of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from vaultmem.errors import PendingError, SystemFailureError
from vaultmem.storage.displaced_files import clear_leftover, find_leftovers
from vaultmem.storage.git.commit_draft import REGULAR, Moves, TreeEntry
from vaultmem.storage.journal import FileChanges
from vaultmem.storage.scan_files import order_moves, put_back
from vaultmem.vault import Vault

#: The outermost operation that is under way in this process, by state folder.
UNDER_WAY: dict[str, Any] = {}


def recover(vault: Vault) -> None:
    """Undo the operation that an earlier process left unfinished, if there is one."""
    if not vault.operations.is_open():
        return
    with vault.lock():
        if str(vault.state_folder) in UNDER_WAY:
            return
        if files := vault.operations.read_files():
            undo(vault, files)
        close_operation(vault)


def undo(vault: Vault, files: FileChanges) -> None:
    """Bring the files of an operation back that no commit has.

    A file that another program changed since is left as it is, and so is one that HEAD has as it
    was written or as another commit has it.
    """
    undo_moves(vault, _find_undone(vault, files), files.contents, files.earlier)
    for folder in {PurePosixPath(path).parent for path in files.moves}:
        for file in find_leftovers(vault.root / folder):
            clear_leftover(file)


def close_operation(vault: Vault) -> None:
    """End an operation; entries that it staged and HEAD lacks are taken out of git's index.

    While that cannot be done, these entries stay known, so that they do not count as the person's.
    """
    if vault.head() is not None:
        with contextlib.suppress(OSError, SystemFailureError, PendingError):
            vault.history.update_git_index()
    if vault.operations.read_staged():
        vault.operations.drop_files()
    else:
        vault.operations.close()


def undo_moves(
    vault: Vault,
    moves: Moves,
    contents: Mapping[str, bytes],
    earlier: Mapping[str, tuple[str, ...]] | None = None,
) -> None:
    """Bring each file back that has come to what it was to be, and that nobody changed since.

    `contents` are bytes by blob id that git may not have. Bytes that nobody has any more were those
    of no file when it was to be changed, so that it was not.
    """
    wanted = {before.blob for before, _ in moves.values() if before is not None}
    whole = {**_read_held(vault, wanted - contents.keys()), **contents}
    back = {
        path: (after, before)
        for path, (before, after) in moves.items()
        if before is None or before.blob in whole
    }
    for path, (after, before), _ in order_moves(back):
        was = (earlier or {}).get(path, ())
        put_back(vault.root, PurePosixPath(path), (before, after), was, whole)


def read_blobs(vault: Vault, blobs: Iterable[str]) -> dict[str, bytes]:
    """Return what git has under these blob ids."""
    names = sorted(blobs)
    if not names:
        return {}
    found = vault.history.objects.read_all(names)
    return {blob: data for blob, (_, data) in zip(names, found, strict=True)}


def _find_undone(vault: Vault, files: FileChanges) -> Moves:
    """Return the moves that no commit has: all of them, unless HEAD has moved meanwhile.

    HEAD does not have a removed file either way. Where the commit before had it, it was removed
    from there; else no commit ever had it, and it comes back.
    """
    head = vault.head() if files.is_committed else None
    if head is None or head.commit == files.head:
        return files.moves
    now = vault.history.tree(head.commit)
    removed = {
        path
        for path, (before, after) in files.moves.items()
        if after is None and before is not None and before.blob in files.contents
    }
    then = vault.history.tree(files.head) if removed else {}
    return {
        path: (before, after)
        for path, (before, after) in files.moves.items()
        if not _is_same(now.get(path), after)
        or (path in removed and not _is_same(then.get(path), before))
    }


def _is_same(held: TreeEntry | None, wanted: TreeEntry | None) -> bool:
    """Tell whether a commit has a file as it was to be; only git's own modes are compared."""
    if held is None or wanted is None:
        return held is wanted
    return held.blob == wanted.blob and (wanted.mode not in REGULAR or held.mode == wanted.mode)


def _read_held(vault: Vault, blobs: set[str]) -> dict[str, bytes]:
    """Return the bytes by blob id of those that git has."""
    if not blobs or vault.head() is None:
        return {}
    from vaultmem.storage.git.checkout import find_sizes

    return read_blobs(vault, [blob for blob, _ in find_sizes(vault.history, sorted(blobs))])
