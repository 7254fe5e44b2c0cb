"""Files of the work tree go from one entry to another, each only while it has the old bytes.

Git's own checkout would run the repository's filters, and write over an editor's save.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.blob import blob_id
from vaultmem.core.paths import fold
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.storage.files import (
    UnsafeFileError,
    create_file,
    find_max_bytes,
    read_file,
    remove_file,
    replace_file,
    set_executable,
)
from vaultmem.storage.git.commit_draft import REGULAR, TreeEntry
from vaultmem.storage.replacing import has_to_stay

if TYPE_CHECKING:
    from vaultmem.storage.git.commit_draft import Move, Moves

_EXECUTABLE = "100755"


def move_files(root: Path, moves: Moves, contents: Mapping[str, bytes]) -> None:
    """Bring files to where `moves` says; what they become is in `contents` by blob id.

    Raises:
        ConflictError: a file has other bytes than before; those in front of it have moved.
    """
    for path, (before, after), is_in_the_way in order_moves(moves):
        move_file(root, PurePosixPath(path), before, after, contents)
        if is_in_the_way:
            remove_empty_folders(root, PurePosixPath(path).parent)


def order_moves(moves: Moves) -> Iterator[tuple[str, Move, bool]]:
    """Yield the moves so that what is new is there before what it replaces goes.

    First goes only what is in the way, which the last value tells: a file where a folder is to
    be, what is in a folder where a file is to be, or the same name but for its case. So at no
    time does a link lead nowhere.
    """
    new = {path for path, (before, after) in moves.items() if before is None and after is not None}
    above = {parent for path in new for parent in _parents(path)}
    folded = {fold(path) for path in new}

    def rank(path: str) -> int:
        if moves[path][1] is not None:
            return 1 if path in new else 2
        is_in_the_way = path in above or fold(path) in folded or not new.isdisjoint(_parents(path))
        return 0 if is_in_the_way else 3

    for place, path in sorted((rank(path), path) for path in moves):
        yield path, moves[path], place == 0


def move_file(
    root: Path,
    path: PurePosixPath,
    before: TreeEntry | None,
    after: TreeEntry | None,
    contents: Mapping[str, bytes],
) -> None:
    """Create, replace or remove a file; what it becomes is in `contents` by blob id.

    Raises:
        ConflictError: it has other bytes than `before`, or there is one where there was none.
    """
    if after is None:
        if before is not None:
            remove_file(root, path, before.blob, find_max_bytes(str(path)))
        return
    mode = None if after.mode in REGULAR else int(after.mode[-3:], 8)
    if before is None:
        create_file(root, path, contents[after.blob], mode)
    elif before.blob != after.blob:
        limit = find_max_bytes(str(path))
        replace_file(root, path, before.blob, contents[after.blob], limit)
    if mode is None and (before.mode if before else "100644") != after.mode:
        set_executable(root, path, after.mode == _EXECUTABLE)


def put_back(
    root: Path,
    path: PurePosixPath,
    move: Move,
    earlier: tuple[str, ...],
    contents: Mapping[str, bytes],
) -> None:
    """Undo one file's move, if it has come about and nobody has changed the file since.

    `earlier` are blobs that the file had on the way to its last one.
    """
    before, after = move
    # Where a folder of its path is a file or a link by now, somebody has made other plans.
    with contextlib.suppress(ConflictError, RefusedError, UnsafeFileError):
        now = read_blob(root, path)
        if now == (after.blob if after else ""):
            move_file(root, path, after, before, contents)
        elif now in earlier or _is_half_written(root, path, move, contents):
            mode = (after or before or TreeEntry("100644", "")).mode
            move_file(root, path, TreeEntry(mode, now), before, contents)
        if before is None:
            remove_empty_folders(root, path.parent)


def _is_half_written(
    root: Path, path: PurePosixPath, move: Move, contents: Mapping[str, bytes]
) -> bool:
    """Tell whether each byte of a file is that of before or of after, as a killed write leaves it.

    That is for files that are written in their place.
    """
    old, new = (contents.get(entry.blob) if entry else None for entry in move)
    if old is None or new is None or not has_to_stay(root / path):
        return False
    now = read_file(root, path, find_max_bytes(str(path)))
    longest = max(len(old), len(new))
    fits = min(len(old), len(new)) <= len(now) <= longest
    padded = (each.ljust(longest, b"\0") for each in (old, new))
    return fits and all(byte in pair for byte, *pair in zip(now, *padded, strict=False))


def read_blob(root: Path, path: PurePosixPath) -> str:
    """Return the blob id of a file, empty if there is no file, as where a folder is.

    Raises:
        UnsafeFileError: it is no file that may be read.
    """
    try:
        return blob_id(read_file(root, path, find_max_bytes(str(path))))
    except NoteNotFoundError:
        return ""


def remove_empty_folders(root: Path, folder: PurePosixPath) -> None:
    """Remove a folder and those above it, as far as nothing is in them."""
    with contextlib.suppress(OSError):  # Not empty, or gone: as git leaves it.
        while folder.parts:
            (root / folder).rmdir()
            folder = folder.parent


def _parents(path: str) -> Iterator[str]:
    return (path[:at] for at, mark in enumerate(path) if mark == "/")
