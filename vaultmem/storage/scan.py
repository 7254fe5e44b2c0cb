"""A walk through the vault: which files there are, and which of them changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vaultmem.core.paths import GENERATED, NOT_NOTES, is_hidden
from vaultmem.storage.files import MAX_FILE_BYTES

#: What the file system says of a file: size in bytes, times in ns, inode number.
Stat = tuple[int, int, int, int]


@dataclass(slots=True)
class Scan:
    """What a walk found: notes and other files by path, and why anything was passed over.

    Paths are relative to the vault, with `/`. `unsafe` are files that exist but must not be
    read.
    """

    notes: dict[str, Stat]
    others: dict[str, Stat]
    unsafe: dict[str, str]


def scan_vault(root: Path, ignored: Callable[[str], bool]) -> Scan:
    """Walk the vault without following any link; `ignored` tells paths to pass over."""
    scan = Scan({}, {}, {})
    pending = [(os.fspath(root), "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    _sort_entry(entry, prefix, ignored, scan, pending)
        except OSError as error:
            scan.unsafe[prefix.rstrip("/") or "."] = f"the folder cannot be read: {error.strerror}"
    return scan


def _sort_entry(
    entry: os.DirEntry[str],
    prefix: str,
    ignored: Callable[[str], bool],
    scan: Scan,
    pending: list[tuple[str, str]],
) -> None:
    name = entry.name
    path = prefix + name
    if is_hidden(name) or ignored(path):
        return
    if entry.is_dir(follow_symlinks=False):
        if os.path.lexists(os.path.join(entry.path, ".git")):
            scan.unsafe[path] = "it is a git repository of its own"
        elif not (not prefix and name in {"transcripts", "media"}):
            pending.append((entry.path, path + "/"))
        return
    if path in GENERATED:
        return
    is_note = name[-3:].lower() == ".md" and not (prefix and path.split("/", 1)[0] in NOT_NOTES)
    if not entry.is_file(follow_symlinks=False):
        if entry.is_symlink():
            scan.unsafe[path] = "it is a symbolic link"
        elif is_note:
            scan.unsafe[path] = "it is not a regular file"
        return
    _take_file(entry, path, is_note, scan)


def _take_file(entry: os.DirEntry[str], path: str, is_note: bool, scan: Scan) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
        if not path.isascii():
            path.encode("utf-8")
    except UnicodeEncodeError:
        scan.unsafe[path] = "its name is not UTF-8"
        return
    except OSError:
        return  # It went away between listing and looking.
    stat = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    if not is_note:
        scan.others[path] = stat
    elif status.st_size > MAX_FILE_BYTES:
        scan.unsafe[path] = f"it is larger than {MAX_FILE_BYTES // 1024 // 1024} MiB"
        scan.others[path] = stat
    else:
        scan.notes[path] = stat
