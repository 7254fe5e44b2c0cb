"""What an edit takes out of a note's place: it goes once nobody can be writing to it any more.

A program that opened the note before the edit writes to the file that it opened, wherever that is
by then. So the file is under a name that says what it was, until it is known to hold nothing but
what the edit knew.
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

#: The names in git of its bytes before and after the edit ("" for none) begin so; and the note's.
_NAME = compile_later(
    r"\.vaultmem-[0-9a-f]{12}-([0-9a-f]{16}|)-([0-9a-f]{16}|)-(.+?)(?:\.old)+", re.S
)
_BLOB = 16

#: The name of what is written, and has not been in any note's place.
_TEMPORARY = compile_later(re.escape(TEMPORARY).replace(r"\{\}", "[0-9a-f]{12}"))

#: How all these names begin.
LEFTOVER = ".vaultmem-"

#: No name is longer, in bytes, with most file systems; what stands around the note's takes these.
_LONGEST, _AROUND = 255, 70

#: Seconds after which nobody who opened a file before its edit is thought to write to it still.
_QUIET = 5.0

#: So ends the opening of a link, a device or a folder, which somebody put in a note's place.
_NO_FILE = {errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EINVAL}


def set_aside(file: Path, target: Path, before: str, after: str = "") -> Path:
    """Give a file beside a note the name of one that an edit takes out of the note's place."""
    parts = (os.urandom(6).hex(), before[:_BLOB], after[:_BLOB], _shorten(target))
    aside = target.with_name(f".vaultmem-{'-'.join(parts)}.old")
    os.rename(file, aside)
    return aside


def is_aside(name: str) -> bool:
    """Tell whether a file's name is that of one that an edit took out of a note's place."""
    return _NAME.fullmatch(name) is not None


def discard(aside: Path) -> Path | None:
    """Remove what an edit took out, unless somebody wrote to it: return where that is kept.

    While somebody has it open to write, it stays; and for some seconds, where that is not told.
    """
    named = _NAME.fullmatch(aside.name)
    if named is None:
        return None
    try:
        with open_leased(aside, patience=0.0) as (descriptor, lease):
            if lease is Lease.REFUSED:
                return None
            is_known = blob_id(read_open(descriptor))[:_BLOB] in named.groups()[:2]
            is_over = lease is Lease.HELD or _is_quiet(descriptor)
            if is_known and lease is Lease.HELD:
                drop_file(aside)
    except OSError as error:
        if error.errno not in _NO_FILE:  # It is gone, or cannot be read just now.
            return None
        is_known = False
    if is_known:
        if is_over:  # A system without leases may not remove what is open.
            drop_file(aside)
        return None
    return store_beside(aside, aside.with_name(named[3]))


def drop_asides(target: Path) -> None:
    """Remove what edits took out of one file's place, whoever has it open: it may hold keys."""
    for file in find_leftovers(target.parent):
        named = _NAME.fullmatch(file.name)
        if named is not None and named[3] == _shorten(target):
            drop_file(file)


def clear_leftover(file: Path, is_held: bool = True) -> Path | None:
    """Remove what an interrupted write left; return where it is, if somebody else wrote it.

    With `is_held` the caller holds off all who write such files; without, they get some seconds.
    """
    if is_aside(file.name):
        return discard(file)
    try:
        with open_leased(file, patience=0.0) as (descriptor, lease):
            at_once = is_held and lease is Lease.HELD
            is_over = at_once or (lease is not Lease.REFUSED and _is_quiet(descriptor))
    except OSError:
        return None  # It is gone, or none of ours.
    if is_over:
        drop_file(file)
    return None


def find_leftovers(folder: Path) -> list[Path]:
    """Return the files of a folder that writes were interrupted at, or that edits took out."""
    try:
        names = os.listdir(folder)
    except OSError:  # There is no such folder, or nobody may look into it.
        return []
    return [folder / name for name in names if name.startswith(LEFTOVER) and is_leftover(name)]


def is_leftover(name: str) -> bool:
    """Tell whether a file's name is one that writes give, and no note."""
    return _TEMPORARY.fullmatch(name) is not None or is_aside(name)


def store_beside(file: Path, target: Path) -> Path:
    """Give what somebody put in a note's place a name next to it that all can see."""
    stamp = datetime.now().strftime("%Y%m%dT%H%M%S")
    name = f"{target.stem}.conflict-{stamp}-{os.urandom(2).hex()}{target.suffix}"
    kept = target.with_name(name)
    os.rename(file, kept)
    return kept


def holds(file: Path, blob: str) -> bool:
    """Tell whether it is a regular file of these bytes."""
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
        OSError: it is no regular one.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


def _shorten(target: Path) -> str:
    """Return a note's name, so much of it as a file's name has room for."""
    stem = target.stem
    while len(os.fsencode(stem + target.suffix)) > _LONGEST - _AROUND and stem:
        stem = stem[:-1]
    return stem + target.suffix


def _is_quiet(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return time.time() - max(status.st_mtime, status.st_ctime) > _QUIET
