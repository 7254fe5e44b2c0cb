"""Move the work tree from one commit to another without losing what anybody saves meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.blob import blob_id
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.reading.recovery import read_blobs
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.writing.operation import Operation
from vaultmem.storage.files import UnsafeFileError, find_max_bytes, read_file
from vaultmem.storage.git.commit_draft import REGULAR, File, TreeEntry
from vaultmem.storage.work_tree import read_blob, remove_empty_folders
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.storage.git.commit_draft import Moves


def move_tree(
    operation: Operation, vault: Vault, moves: Moves, contents: Mapping[str, bytes] | None = None
) -> None:
    """Bring the files to where `moves` says; HEAD is to follow before the operation ends.

    `contents` is by blob id; what is not in it is read from git.

    Raises:
        ConflictError: a file is not as committed; nothing was changed.
    """
    _check_unchanged(vault, moves)
    new = contents or {}
    wanted = {after.blob for _, after in moves.values() if after is not None}
    known = {**read_blobs(vault, wanted - new.keys()), **new}
    operation.move(moves, known, is_committed=True)
    for path, (_, after) in moves.items():
        if after is None:
            remove_empty_folders(vault.root, PurePosixPath(path).parent)
    operation.then(lambda: sync_vault(vault))


def plan_files(
    files: Mapping[str, File], find_before: Callable[[str], TreeEntry | None]
) -> tuple[Moves, dict[str, bytes]]:
    """Return how files change from what they were before, and their contents by blob id."""
    moves: dict[str, tuple[TreeEntry | None, TreeEntry | None]] = {}
    contents: dict[str, bytes] = {}
    for path, file in files.items():
        before, after = find_before(path), None
        if file is not None:
            after = TreeEntry(file[0], blob_id(file[1]))
            contents[after.blob] = file[1]
        if before != after:
            moves[path] = (before, after)
    return moves, contents


def read_entry(vault: Vault, path: str) -> TreeEntry | None:
    """Return a file of the folder as a commit would have it, None where there is none."""
    try:
        data = read_file(vault.root, PurePosixPath(path))
    except NoteNotFoundError:
        return None
    return TreeEntry("100644", blob_id(data))


def find_moves(vault: Vault, old: str, new: str) -> Moves:
    """Return what differs between two trees or commits, by vault-relative path.

    Raises:
        RefusedError: it is not all regular files of the vault, small enough for it.
    """
    from vaultmem.storage.git.checkout import find_differences
    from vaultmem.storage.git.tree_builder import is_refused_name

    prefix = vault.history.prefix
    moves = {}
    for path, before, after in find_differences(vault.history, old, new):
        entries = [entry for entry in (before, after) if entry is not None]
        if is_refused_name(path) or {"", ".", ".."} & set(path.split("/")):
            raise RefusedError(f"{path}: git allows no file of this name; nothing was changed")
        if not path.startswith(prefix) or any(e.mode not in REGULAR for e in entries):
            raise RefusedError(
                f"{path}: not a file of the vault that vaultmem can change; use git itself for this"
            )
        moves[path.removeprefix(prefix)] = (before, after)
    _check_sizes(vault, moves)
    return moves


def _check_sizes(vault: Vault, moves: Moves) -> None:
    """Refuse what is larger than any file that a vault can have committed."""
    from vaultmem.storage.git.checkout import find_sizes

    blobs = {entry.blob: path for path, pair in moves.items() for entry in pair if entry}
    for blob, size in find_sizes(vault.history, blobs):
        most = find_max_bytes(blobs[blob])
        if size > most:
            raise RefusedError(
                f"{blobs[blob]}: it has {size:,} bytes and vaultmem moves {most:,} at most; "
                "use git itself for this"
            )


def _check_unchanged(vault: Vault, moves: Moves) -> None:
    gone = {path for path, (_, after) in moves.items() if after is None}
    for path, (before, _) in moves.items():
        if before is None:
            _check_free(vault.root, PurePosixPath(path), gone)
        elif _blob_at(vault.root, PurePosixPath(path)) != before.blob:
            if vault.history.find_skipped({path}):
                raise RefusedError(
                    f"{path}: a sparse checkout leaves it out; use git itself for this"
                )
            raise ConflictError(
                f"{path}: the file is not as committed; commit it or move it away first"
            )


def _check_free(root: Path, path: PurePosixPath, gone: Set[str]) -> None:
    """Make sure that nothing is where a file is to be made, but for what goes before."""
    for folder in reversed(path.parents[:-1] if path.parts[1:] else ()):
        if str(folder) in gone:
            return
        if (root / folder).is_symlink() or (
            (root / folder).exists() and not (root / folder).is_dir()
        ):
            raise _in_the_way(folder)
    file = root / path
    is_folder = file.is_dir() and not file.is_symlink()
    if is_folder and any(each.startswith(f"{path}/") for each in gone):
        return
    if os.path.lexists(file):
        raise _in_the_way(path)


def _in_the_way(path: PurePosixPath) -> ConflictError:
    return ConflictError(f"{path}: in no commit, and in the way; move it away first")


def _blob_at(root: Path, path: PurePosixPath) -> str:
    """Return the blob id of a file, empty if there is no file, as where a folder is."""
    try:
        return read_blob(root, path)
    except UnsafeFileError as error:
        raise ConflictError(f"{error}; commit it or move it away first") from None
