"""Move the work tree from one commit to another without losing what anybody saves meanwhile.

Git's own checkout would run the repository's filters, and write over an editor's save. Here each
file changes places atomically and only where it still has the old commit's bytes. What is about
to happen is written down first. After a crash each file that was moved, and that HEAD has as it
was before, goes back; what HEAD has as it was moved is right where it is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Set
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.blob import blob_id
from vaultmem.errors import ConflictError, NoteNotFoundError, PendingError, RefusedError
from vaultmem.storage.files import (
    MAX_FILE_BYTES,
    UnsafeFileError,
    create_file,
    find_temporaries,
    read_file,
    remove_file,
    replace_file,
    set_executable,
)
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.storage.git.commits import TreeEntry
    from vaultmem.storage.git.moves import Move, Moves

_INTENT = "move.json"
_REGULAR = frozenset({"100644", "100755"})
_EXECUTABLE = "100755"


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
        if not path.startswith(prefix) or any(e.mode not in _REGULAR for e in entries):
            raise RefusedError(
                f"{path}: not a file of the vault that vaultmem can change; use git itself for this"
            )
        moves[path.removeprefix(prefix)] = (before, after)
    _check_sizes(vault, moves)
    return moves


def move_files(vault: Vault, moves: Moves, contents: Mapping[str, bytes] | None = None) -> None:
    """Bring the files to where `moves` says, or leave all as it was.

    `contents` is by blob id; what is not in it is read from git. Until `finish_move`, a crash
    means that it is undone by the next command, unless HEAD has moved too.

    Raises:
        ConflictError: a file is not as committed; nothing was changed.
    """
    from vaultmem.storage.git.moves import write_moves

    _check_unchanged(vault, moves)
    new = contents or {}
    contents = {**_read_contents(vault, moves, new), **new}
    write_moves(vault.state_folder / _INTENT, moves, new)
    try:
        for path, (before, after) in sorted(moves.items(), key=_removals_first):
            _move_file(vault.root, PurePosixPath(path), before, after, contents)
    except BaseException:
        undo_move(vault)
        raise


def finish_move(vault: Vault) -> None:
    """Say that HEAD has moved too, so that nothing is to be undone."""
    (vault.state_folder / _INTENT).unlink(missing_ok=True)


def undo_move(vault: Vault) -> None:
    """Undo what a move did and no commit has: in files and in the person's index.

    A file that somebody changed since is left as it is, and so is one that HEAD has as it was
    moved or as somebody else committed it.
    """
    if not is_interrupted(vault):
        return
    from vaultmem.storage.git.moves import read_moves

    with vault.lock():
        found = read_moves(vault.state_folder / _INTENT)
        if found is None:
            return
        moves, new = found
        head = vault.history.tree(vault.history.head().commit)
        undone = {
            path: (after, before)
            for path, (before, after) in moves.items()
            if head.get(path) == before
        }
        contents = _read_contents(vault, undone, {})
        for path, (after, before) in sorted(undone.items(), key=_removals_first):
            with contextlib.suppress(ConflictError, UnsafeFileError):
                _put_back(vault.root, PurePosixPath(path), after, before, contents)
        _remove_temporaries(vault, moves, new)
        with contextlib.suppress(PendingError):  # The next commit or clean index sees to it.
            vault.history.settle_index()
        finish_move(vault)


def is_interrupted(vault: Vault) -> bool:
    """Tell whether a move was interrupted; no more than a look at one file."""
    return (vault.state_folder / _INTENT).exists()


def _removals_first(
    move: tuple[str, Move],
) -> tuple[bool, str]:
    """Sort so that a folder may take the place of a file, and a file that of a folder."""
    path, (_, after) = move
    return after is not None, path


def _check_sizes(vault: Vault, moves: Moves) -> None:
    """Refuse what is larger than any file that vaultmem reads."""
    from vaultmem.storage.git.checkout import find_sizes

    blobs = {entry.blob: path for path, pair in moves.items() for entry in pair if entry}
    for blob, size in find_sizes(vault.history, blobs):
        if size > MAX_FILE_BYTES:
            raise RefusedError(
                f"{blobs[blob]}: it has {size:,} bytes and vaultmem moves {MAX_FILE_BYTES:,} at "
                "most; use git itself for this"
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
        return blob_id(read_file(root, path))
    except NoteNotFoundError:
        return ""
    except UnsafeFileError as error:
        raise ConflictError(f"{error}; commit it or move it away first") from None


def _read_contents(vault: Vault, moves: Moves, known: Mapping[str, bytes]) -> dict[str, bytes]:
    wanted = {after.blob for _, after in moves.values() if after is not None}
    blobs = sorted(wanted - known.keys())
    found = vault.history.objects.read_all(blobs)
    return {blob: data for blob, (_, data) in zip(blobs, found, strict=True)}


def _move_file(
    root: Path,
    path: PurePosixPath,
    before: TreeEntry | None,
    after: TreeEntry | None,
    contents: Mapping[str, bytes],
) -> None:
    if after is None:
        if before is not None:
            remove_file(root, path, before.blob)
            _remove_empty_folders(root, path.parent)
        return
    if before is None:
        _create(root, path, contents[after.blob])
    elif before.blob != after.blob:
        replace_file(root, path, before.blob, contents[after.blob])
    if (before.mode if before else "100644") != after.mode:
        set_executable(root, path, after.mode == _EXECUTABLE)


def _create(root: Path, path: PurePosixPath, data: bytes) -> None:
    try:
        create_file(root, path, data)
    except ConflictError:
        raise _in_the_way(path) from None


def _put_back(
    root: Path,
    path: PurePosixPath,
    after: TreeEntry | None,
    before: TreeEntry | None,
    contents: Mapping[str, bytes],
) -> None:
    """Undo one file's move, if it has come about and nobody has changed the file since."""
    if _blob_at(root, path) == (after.blob if after else ""):
        _move_file(root, path, after, before, contents)


def _remove_empty_folders(root: Path, folder: PurePosixPath) -> None:
    with contextlib.suppress(OSError):  # Not empty, or gone: as git leaves it.
        while folder.parts:
            (root / folder).rmdir()
            folder = folder.parent


def _remove_temporaries(vault: Vault, moves: Moves, new: Mapping[str, bytes]) -> None:
    """Remove what an interrupted write left next to the files: all or the first part of a blob."""
    folders = {PurePosixPath(path).parent for path in moves}
    left = [file for folder in folders for file in find_temporaries(vault.root, folder)]
    if not left:
        return
    from vaultmem.storage.git.checkout import find_sizes

    blobs = {entry.blob for pair in moves.values() for entry in pair if entry is not None}
    kept = [blob for blob, _ in find_sizes(vault.history, sorted(blobs - new.keys()))]
    whole = [*new.values(), *(data for _, data in vault.history.objects.read_all(kept))]
    for file in left:
        with contextlib.suppress(OSError):
            data = file.read_bytes()
            if any(each.startswith(data) for each in whole):
                file.unlink()
