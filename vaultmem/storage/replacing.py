"""Put other bytes in a file's place, or take it out, beside people who save it at any moment.

The old and the new file change places in one step, while nobody has the old one open to write. So
a save at the same moment is noticed, and put back. Where the system does not tell of writers, the
old file stays beside the note for some seconds (`asides`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NoReturn

from vaultmem.core.text.blob import blob_id
from vaultmem.errors import ConflictError
from vaultmem.storage.atomic import (
    copy_attributes,
    drop_file,
    exchange_files,
    sync_folder,
    write_temporary,
)
from vaultmem.storage.displaced_files import discard, holds, read_open, set_aside, store_beside
from vaultmem.storage.leases import Lease, is_broken, open_leased


def put_bytes(target: Path, path: PurePosixPath, expected: str, data: bytes) -> None:
    """Give a file other bytes than those of the blob id `expected`; messages call it `path`.

    All else that it has stays: permissions, owner, extended attributes, hard links.

    Raises:
        ConflictError: it has other bytes by now, or another program has it open to write.
        OSError: the disk did not take it; the file is unchanged.
    """
    if has_to_stay(target):
        _write_in_place(target, path, expected, data)
        return
    aside = _write_aside(target, expected, data)
    try:
        with _nobody_writing(target, path, expected) as (descriptor, lease):
            exchange_files(aside, target)
            is_other = lease is Lease.HELD and not _is_file(aside, descriptor)
            if is_other or not holds(aside, expected):
                _roll_back(aside, target, path)
            _sync_exchange(aside, target)
            if is_broken(descriptor, lease) or not holds(aside, expected):
                _roll_back(aside, target, path)
            if lease is Lease.HELD:
                drop_file(aside)
    except BaseException:
        discard(aside)
        raise


def remove_checked(target: Path, path: PurePosixPath, expected: str) -> None:
    """Remove a file that has the blob id `expected`; messages call it `path`.

    Raises:
        ConflictError: it has other bytes by now, or another program has it open to write.
        OSError: the disk did not take it; the file is unchanged.
    """
    with _nobody_writing(target, path, expected) as (descriptor, lease):
        aside = set_aside(target, target, expected)
        if not holds(aside, expected):
            kept = store_beside(aside, target)
            raise ConflictError(f"{path}: another process changed it; kept as {kept.name}")
        try:
            sync_folder(target.parent)
        except OSError:
            _put_back(aside, target)
            raise
        if is_broken(descriptor, lease):
            _put_back(aside, target)
            raise ConflictError(f"{path}: another process is saving it; nothing was removed")
        if lease is Lease.HELD:
            drop_file(aside)


def has_to_stay(target: Path) -> bool:
    """Tell whether a file can only be written in its place: another one would not be the same.

    It has other names (hard links), or belongs to somebody, or to a group, that we can give no file
    to.
    """
    if os.name != "posix":
        return False
    try:
        status = target.lstat()
    except OSError:
        return False
    if status.st_nlink > 1 or os.geteuid() == 0:
        return status.st_nlink > 1
    groups = (os.getegid(), *os.getgroups())
    return status.st_uid != os.geteuid() or status.st_gid not in groups


def _write_aside(target: Path, before: str, data: bytes) -> Path:
    """Write what is to take a file's place, with all that the file has but its bytes."""
    temporary = write_temporary(target.parent, data, mode=0o600)
    try:
        copy_attributes(target, temporary)
        return set_aside(temporary, target, before, blob_id(data))
    except BaseException:
        drop_file(temporary)
        raise


def _write_in_place(target: Path, path: PurePosixPath, expected: str, data: bytes) -> None:
    """Write over a file's bytes while nobody else has it open.

    A process that ends in the midst of it leaves some of both, which its transaction's intent tells
    from what a person wrote.
    """
    with _nobody_writing(target, path, expected, alone=True) as (descriptor, _):
        old = read_open(descriptor)
        try:
            _overwrite(descriptor, data)
        except OSError:
            _overwrite(descriptor, old)
            raise


def _overwrite(descriptor: int, data: bytes) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], done)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


@contextlib.contextmanager
def _nobody_writing(
    target: Path, path: PurePosixPath, expected: str, alone: bool = False
) -> Iterator[tuple[int, Lease]]:
    """Open a file for a `with` in which nobody can write to it unnoticed, as far as that is told.

    Without a lease it is closed by then, unless `alone` is asked for.

    Raises:
        ConflictError: another program has it open, or it has other bytes by now.
        OSError: it cannot be opened.
    """
    busy = f"{path}: another program has it open to write, so it was left as it is; close it there"
    with contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(open_leased(target, alone=alone))
        except BlockingIOError:
            raise ConflictError(busy) from None
        if opened[1] is Lease.REFUSED:
            raise ConflictError(busy)
        if blob_id(read_open(opened[0])) != expected:
            raise ConflictError(f"{path}: another process changed it; read it again")
        if opened[1] is Lease.UNKNOWN and not alone:
            stack.close()  # Such a system may not rename what is open.
        yield opened


def _roll_back(aside: Path, target: Path, path: PurePosixPath) -> NoReturn:
    """Put what the exchange took out back in its place: somebody else wrote it, or is about to."""
    with contextlib.suppress(FileNotFoundError):  # What was written is gone again: nothing to swap.
        exchange_files(aside, target)
    kept = discard(aside)
    told = f"one version is {kept.name}" if kept else "read it again"
    raise ConflictError(f"{path}: another process changed it; {told}")


def _sync_exchange(aside: Path, target: Path) -> None:
    """Make an exchange durable, or undo it."""
    try:
        sync_folder(target.parent)
    except OSError:
        exchange_files(aside, target)
        raise


def _put_back(aside: Path, target: Path) -> None:
    """Give a removed file its name again, or one beside it where somebody has taken that."""
    try:
        os.link(aside, target, follow_symlinks=False)
        drop_file(aside)
    except FileExistsError:
        store_beside(aside, target)


def _is_file(file: Path, descriptor: int) -> bool:
    """Tell whether a name is that of an open file."""
    try:
        return os.path.samestat(file.lstat(), os.fstat(descriptor))
    except OSError:
        return False
