"""A walk through the vault: which files there are, and which of them changed."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.paths import GENERATED, NOT_NOTES, is_hidden
from vaultmem.storage.files import MAX_FILE_BYTES

#: What the file system says of a file: size in bytes, times in ns, inode number.
Stat = tuple[int, int, int, int]


class Scan(NamedTuple):
    """What a walk found: notes and other files by path, and why anything was passed over.

    Paths are relative to the vault, with `/`. `unsafe` are files that exist but must not be
    read.
    """

    notes: dict[str, Stat]
    others: dict[str, Stat]
    unsafe: dict[str, str]

    def signature(self) -> str:
        """Return a text that differs whenever the walk found something else."""
        found = marshal.dumps((self.notes, self.others, self.unsafe), 2)
        return hashlib.sha256(found).hexdigest()


def scan_vault(root: Path, ignored: Callable[[str], bool] | None = None) -> Scan:
    """Walk the vault without following any link; `ignored` tells paths to pass over."""
    scan = Scan({}, {}, {})
    pending = [(os.fspath(root), "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            _scan_folder(folder, prefix, ignored, scan, pending)
        except OSError as error:
            problem = f"the folder cannot be read: {error.strerror}"
            scan.unsafe[_shown(prefix.rstrip("/") or ".")] = problem
    return scan


def _scan_folder(
    folder: str,
    prefix: str,
    ignored: Callable[[str], bool] | None,
    scan: Scan,
    pending: list[tuple[str, str]],
) -> None:
    """Sort the entries of one folder; written flat, because it runs for each file each time."""
    has_notes = prefix.split("/", 1)[0] not in NOT_NOTES
    with _open_folder(folder) as entries:
        for entry in entries:
            name = entry.name
            path = prefix + name
            is_note = name[-3:] == ".md"
            if name[0] in ".~#" or (not is_note and is_hidden(name)):
                continue
            if ignored is not None and ignored(path):
                continue
            if entry.is_dir(follow_symlinks=False):
                _enter_folder(os.path.join(folder, name), path, scan, pending)
                continue
            is_note = has_notes and (is_note or name[-3:].lower() == ".md")
            if not entry.is_file(follow_symlinks=False):
                _refuse_entry(entry, path, is_note, scan)
                continue
            try:
                status = entry.stat(follow_symlinks=False)
                if not path.isascii():
                    path.encode("utf-8")
            except UnicodeEncodeError:
                scan.unsafe[_shown(path)] = "its name is not UTF-8"
                continue
            except OSError:
                continue  # It went away between listing and looking.
            stat = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            if is_note and status.st_size <= MAX_FILE_BYTES and path not in GENERATED:
                scan.notes[path] = stat
            elif path not in GENERATED:
                scan.others[path] = stat
                if is_note:
                    limit = MAX_FILE_BYTES // 1024 // 1024
                    scan.unsafe[path] = f"it is larger than {limit} MiB"


@contextlib.contextmanager
def _open_folder(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Open a folder that is no link, so that its entries are looked up in it, not by long paths."""
    if os.scandir not in os.supports_fd:
        with os.scandir(folder) as entries:
            yield entries
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with os.scandir(opened) as entries:
            yield entries
    finally:
        os.close(opened)


def _enter_folder(folder: str, path: str, scan: Scan, pending: list[tuple[str, str]]) -> None:
    if os.path.lexists(os.path.join(folder, ".git")):
        scan.unsafe[_shown(path)] = "it is a git repository of its own"
    elif path not in {"transcripts", "media"}:
        pending.append((folder, path + "/"))


def _refuse_entry(entry: os.DirEntry[str], path: str, is_note: bool, scan: Scan) -> None:
    if entry.is_symlink():
        scan.unsafe[_shown(path)] = "it is a symbolic link"
    elif is_note:
        scan.unsafe[_shown(path)] = "it is not a regular file"


def _shown(path: str) -> str:
    """Return a path as text that can be stored: bytes that are not UTF-8 as escapes."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")
