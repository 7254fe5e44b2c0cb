"""Replace or remove a file that an editor can save at any time.

The old and the new file are exchanged in one step, while no process has the old one open to write.
So a save at the same time is detected and restored. On systems without leases, the old file stays
next to the note for some seconds (`displaced_files`).
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
    """Replace the bytes of a file if they have the blob id `expected`; messages name it `path`.

    Permissions, owner, extended attributes and hard links stay.

    Raises:
        ConflictError: the file now has other bytes, or another program has it open to write.
        OSError: writing failed; the file is unchanged.
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
    """Remove a file if it has the blob id `expected`; messages name it `path`.

    Raises:
        ConflictError: the file now has other bytes, or another program has it open to write.
        OSError: removing failed; the file is unchanged.
    """
    with _nobody_writing(target, path, expected) as (descriptor, lease):
        aside = set_aside(target, target, expected)
        if not holds(aside, expected):
            conflict_file = store_beside(aside, target)
            raise ConflictError(f"{path}: another process changed it; kept as {conflict_file.name}")
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
    """Return whether a file must be written in place.

    Such a file has hard links, or an owner or group that this process cannot give to a new file.
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
    """Write the new bytes to a file next to the target, with the target's attributes."""
    temporary = write_temporary(target.parent, data, mode=0o600)
    try:
        copy_attributes(target, temporary)
        return set_aside(temporary, target, before, blob_id(data))
    except BaseException:
        drop_file(temporary)
        raise


def _write_in_place(target: Path, path: PurePosixPath, expected: str, data: bytes) -> None:
    """Overwrite a file's bytes while no other process has it open.

    After a kill, the file has some old and some new bytes; the transaction's intent shows that they
    are not an edit of the owner.
    """
    with _nobody_writing(target, path, expected, alone=True) as (descriptor, _):
        old = read_open(descriptor)
        try:
            _overwrite(descriptor, data)
        except OSError:
            _overwrite(descriptor, old)
            raise


def _overwrite(descriptor: int, data: bytes) -> None:
    offset = 0
    while offset < len(data):
        offset += os.pwrite(descriptor, data[offset:], offset)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


@contextlib.contextmanager
def _nobody_writing(
    target: Path, path: PurePosixPath, expected: str, alone: bool = False
) -> Iterator[tuple[int, Lease]]:
    """Open a file so that writes of other processes are noticed, if the system has leases.

    Without a lease, the file is closed inside the block, unless `alone`.

    Raises:
        ConflictError: another program has the file open, or it now has other bytes.
        OSError: the file cannot be opened.
    """
    busy = f"{path}: another program has it open to write, so it was left as it is; close it there"
    with contextlib.ExitStack() as stack:
        try:
            handle = stack.enter_context(open_leased(target, alone=alone))
        except BlockingIOError:
            raise ConflictError(busy) from None
        if handle[1] is Lease.REFUSED:
            raise ConflictError(busy)
        if blob_id(read_open(handle[0])) != expected:
            raise ConflictError(f"{path}: another process changed it; read it again")
        if handle[1] is Lease.UNKNOWN and not alone:
            stack.close()  # A system without leases might not rename open files.
        yield handle


def _roll_back(aside: Path, target: Path, path: PurePosixPath) -> NoReturn:
    """Undo an exchange because another process wrote or is writing; raise ConflictError."""
    with contextlib.suppress(FileNotFoundError):  # The new file is gone: nothing to exchange.
        exchange_files(aside, target)
    conflict_file = discard(aside)
    hint = f"one version is {conflict_file.name}" if conflict_file else "read it again"
    raise ConflictError(f"{path}: another process changed it; {hint}")


def _sync_exchange(aside: Path, target: Path) -> None:
    """Make an exchange durable, or undo it."""
    try:
        sync_folder(target.parent)
    except OSError:
        exchange_files(aside, target)
        raise


def _put_back(aside: Path, target: Path) -> None:
    """Restore a removed file, under another name next to it if its own is taken."""
    try:
        os.link(aside, target, follow_symlinks=False)
        drop_file(aside)
    except FileExistsError:
        store_beside(aside, target)


def _is_file(file: Path, descriptor: int) -> bool:
    """Return whether a path names this open file."""
    try:
        return os.path.samestat(file.lstat(), os.fstat(descriptor))
    except OSError:
        return False
