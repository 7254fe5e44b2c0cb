"""Undo an operation that a killed process left unfinished, in files and in git's index.

An operation ends when its row is deleted, or with its commit. So a crash before that leaves nothing
of it, and a crash after that leaves all of it.
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

#: The outermost operation running in this process, by state folder.
UNDER_WAY: dict[str, Any] = {}


def recover(vault: Vault) -> None:
    """Undo the operation that an earlier process left unfinished, if any."""
    if not vault.operations.is_open():
        return
    with vault.lock():
        if str(vault.state_folder) in UNDER_WAY:
            return
        if files := vault.operations.read_files():
            undo(vault, files)
        close_operation(vault)


def undo(vault: Vault, files: FileChanges) -> None:
    """Restore the files of an operation that no commit contains.

    A file that another program changed since stays. So does a file that HEAD has as written or as
    another commit left it.
    """
    undo_moves(vault, _find_undone(vault, files), files.contents, files.earlier)
    for folder in {PurePosixPath(path).parent for path in files.moves}:
        for file in find_leftovers(vault.root / folder):
            clear_leftover(file)


def close_operation(vault: Vault) -> None:
    """End an operation; remove its staged entries that HEAD lacks from git's index.

    If that fails, these entries stay recorded, so that they do not count as the person's.
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
    earlier_versions: Mapping[str, tuple[str, ...]] | None = None,
) -> None:
    """Restore each file that has its new content and was not changed since.

    `contents` are bytes by blob id that git might lack. If previous bytes are found nowhere, the
    file never had them, so it was not changed.
    """
    blobs = {before.blob for before, _ in moves.values() if before is not None}
    blob_data = {**_read_held(vault, blobs - contents.keys()), **contents}
    reverse_moves = {
        path: (after, before)
        for path, (before, after) in moves.items()
        if before is None or before.blob in blob_data
    }
    for path, (after, before), _ in order_moves(reverse_moves):
        earlier_blobs = (earlier_versions or {}).get(path, ())
        put_back(vault.root, PurePosixPath(path), (before, after), earlier_blobs, blob_data)


def read_blobs(vault: Vault, blobs: Iterable[str]) -> dict[str, bytes]:
    """Return git's bytes of these blob ids."""
    names = sorted(blobs)
    if not names:
        return {}
    contents = vault.history.objects.read_all(names)
    return {blob: data for blob, (_, data) in zip(names, contents, strict=True)}


def _find_undone(vault: Vault, files: FileChanges) -> Moves:
    """Return the moves that no commit contains: all of them, unless HEAD has moved.

    HEAD lacks a removed file either way. If the previous commit had it, the removal is committed.
    Otherwise it was never committed, and it is restored.
    """
    head = vault.head() if files.is_committed else None
    if head is None or head.commit == files.head:
        return files.moves
    head_tree = vault.history.tree(head.commit)
    removed_paths = {
        path
        for path, (before, after) in files.moves.items()
        if after is None and before is not None and before.blob in files.contents
    }
    old_tree = vault.history.tree(files.head) if removed_paths else {}
    return {
        path: (before, after)
        for path, (before, after) in files.moves.items()
        if not _is_same(head_tree.get(path), after)
        or (path in removed_paths and not _is_same(old_tree.get(path), before))
    }


def _is_same(existing: TreeEntry | None, target: TreeEntry | None) -> bool:
    """Return whether a committed file is as planned; only git's own modes are compared."""
    if existing is None or target is None:
        return existing is target
    return existing.blob == target.blob and (
        target.mode not in REGULAR or existing.mode == target.mode
    )


def _read_held(vault: Vault, blobs: set[str]) -> dict[str, bytes]:
    """Return the bytes, by blob id, of the blobs that git has."""
    if not blobs or vault.head() is None:
        return {}
    from vaultmem.storage.git.checkout import find_sizes

    return read_blobs(vault, [blob for blob, _ in find_sizes(vault.history, sorted(blobs))])
