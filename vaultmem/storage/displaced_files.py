"""Displaced files: old files that an edit replaced, kept while a program might still write to them.

A program that opened a note before an edit writes to the file that it opened. So that file is
renamed, and removed only when it is known to contain no other bytes than the edit's.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from datetime import datetime
from pathlib import Path

from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.patterns import compile_later
from vaultmem.storage.atomic import TEMPORARY, drop_file
from vaultmem.storage.leases import Lease, open_file, open_leased

#: The start of the blob ids before and after the edit ("" for none), and the note's name.
_NAME = compile_later(
    r"\.vaultmem-[0-9a-f]{12}-([0-9a-f]{16}|)-([0-9a-f]{16}|)-(.+?)(?:\.old)+", re.S
)
_BLOB = 16

#: The name of a temporary file, which was never a note.
_TEMPORARY = compile_later(re.escape(TEMPORARY).replace(r"\{\}", "[0-9a-f]{12}"))

#: The prefix of all these names.
LEFTOVER = ".vaultmem-"

#: Most bytes of a file name on most file systems, and those around the note's name.
_MAX_NAME_BYTES, _MAX_AFFIX_BYTES = 255, 70

#: Seconds after its last change in which a program might still write to a displaced file.
_QUIET_SECONDS = 5.0

#: Errors of opening a link, device or folder that another process put in a note's place.
_NO_FILE = {errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EINVAL}


def set_aside(file: Path, target: Path, before: str, after: str = "") -> Path:
    """Rename a file to the name of a displaced file of `target`; return the new path.

    `before` and `after` are the blob ids of the note before and after the edit, "" for none.
    """
    parts = (os.urandom(6).hex(), before[:_BLOB], after[:_BLOB], _shorten(target))
    aside = target.with_name(f".vaultmem-{'-'.join(parts)}.old")
    os.rename(file, aside)
    return aside


def is_aside(name: str) -> bool:
    """Return whether a name is that of a displaced file."""
    return _NAME.fullmatch(name) is not None


def discard(aside: Path) -> Path | None:
    """Remove a displaced file, or rename it next to the note and return its path if it changed.

    It stays while a program has it open to write or, without leases, for some seconds.
    """
    match = _NAME.fullmatch(aside.name)
    if match is None:
        return None
    try:
        with open_leased(aside, patience=0.0) as (descriptor, lease):
            if lease is Lease.REFUSED:
                return None
            is_known = blob_id(read_open(descriptor))[:_BLOB] in match.groups()[:2]
            is_over = lease is Lease.HELD or _is_quiet(descriptor)
            if is_known and lease is Lease.HELD:
                drop_file(aside)
    except OSError as error:
        if error.errno not in _NO_FILE:  # It was removed, or cannot be read now.
            return None
        is_known = False
    if is_known:
        if is_over:  # A system without leases might not remove open files.
            drop_file(aside)
        return None
    return store_beside(aside, aside.with_name(match[3]))


def drop_asides(target: Path) -> None:
    """Remove all displaced files of a note, even if open: they might contain secrets."""
    for file in find_leftovers(target.parent):
        match = _NAME.fullmatch(file.name)
        if match is not None and match[3] == _shorten(target):
            drop_file(file)


def clear_leftover(file: Path, is_held: bool = True) -> Path | None:
    """Remove a file that an interrupted write left; return the path if it is kept (see `discard`).

    `is_held`: the caller holds the lock on such writes. Otherwise a temporary file stays for some
    seconds.
    """
    if is_aside(file.name):
        return discard(file)
    try:
        with open_leased(file, patience=0.0) as (descriptor, lease):
            at_once = is_held and lease is Lease.HELD
            is_over = at_once or (lease is not Lease.REFUSED and _is_quiet(descriptor))
    except OSError:
        return None  # It was removed, or is not our file.
    if is_over:
        drop_file(file)
    return None


def find_leftovers(folder: Path) -> list[Path]:
    """Return the temporary and displaced files in a folder."""
    try:
        names = os.listdir(folder)
    except OSError:  # The folder does not exist or is not readable.
        return []
    return [folder / name for name in names if name.startswith(LEFTOVER) and is_leftover(name)]


def is_leftover(name: str) -> bool:
    """Return whether a name is that of a temporary or displaced file."""
    return _TEMPORARY.fullmatch(name) is not None or is_aside(name)


def store_beside(file: Path, target: Path) -> Path:
    """Rename a file to a visible conflict name next to the note; return the new path."""
    stamp = datetime.now().strftime("%Y%m%dT%H%M%S")
    name = f"{target.stem}.conflict-{stamp}-{os.urandom(2).hex()}{target.suffix}"
    conflict_file = target.with_name(name)
    os.rename(file, conflict_file)
    return conflict_file


def holds(file: Path, blob: str) -> bool:
    """Return whether a file is a regular file with this blob id."""
    try:
        descriptor = open_file(file)
        try:
            return blob_id(read_open(descriptor)) == blob
        finally:
            os.close(descriptor)
    except OSError:
        return False


def read_open(descriptor: int) -> bytes:
    """Return all bytes of an open file.

    Raises:
        OSError: the file is not a regular file.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


def _shorten(target: Path) -> str:
    """Return a note's name, shortened to fit in the name of a displaced file."""
    stem = target.stem
    while len(os.fsencode(stem + target.suffix)) > _MAX_NAME_BYTES - _MAX_AFFIX_BYTES and stem:
        stem = stem[:-1]
    return stem + target.suffix


def _is_quiet(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return time.time() - max(status.st_mtime, status.st_ctime) > _QUIET_SECONDS
