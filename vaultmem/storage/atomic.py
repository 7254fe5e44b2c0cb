"""Write files atomically and durably, within the limit of open files."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from vaultmem.errors import SystemFailureError, VaultError

#: The name of a file that is being written; what a kill leaves behind is known by it.
TEMPORARY = ".vaultmem-{}.tmp"

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE in linux/fs.h and RENAME_SWAP in sys/stdio.h.
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def write_atomically(
    file: Path, data: bytes | Iterable[bytes], *, mode: int | None = None, durable: bool = True
) -> None:
    """Put new bytes in a file's place: whoever reads it sees the old ones or all of the new.

    `mode` is its permission bits, by default those of a new file. What is durable outlives a
    power cut once this returns; of a cache, which is looked at before it is used, that is not
    asked.

    Raises:
        OSError: the disk did not take it. The old bytes are in place, or (where only its folder
            could not be made durable) the new ones; nothing else is left behind.
    """
    temporary = write_temporary(file.parent, data, mode=mode, durable=durable)
    try:
        os.replace(temporary, file)
    except BaseException:
        drop_file(temporary)
        raise
    if durable:
        sync_folder(file.parent)


def write_temporary(
    folder: Path, data: bytes | Iterable[bytes], *, mode: int | None = None, durable: bool = True
) -> Path:
    """Write a new hidden file, which is to get its name by a link, a rename or an exchange.

    Raises:
        OSError: the disk did not take it; nothing is left behind.
    """
    temporary = folder / TEMPORARY.format(os.urandom(6).hex())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(temporary, flags, 0o644 if mode is None else 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            if durable:
                os.fsync(descriptor)
    except BaseException:
        drop_file(temporary)
        raise
    return temporary


@contextlib.contextmanager
def naming_failure(what: object, done: str = "written") -> Iterator[None]:
    """Say of what the disk does not accept in a `with`: "notes/x.md: could not be written".

    Raises:
        SystemFailureError: the disk did not accept it.
    """
    try:
        yield
    except OSError as error:
        raise SystemFailureError(f"{what}: could not be {done}: {error.strerror}") from error


def drop_file(file: Path) -> None:
    """Remove a file if that can be done: a temporary one is hidden, and harms nothing."""
    with contextlib.suppress(OSError):
        file.unlink()


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner can look into, durably, where it is not there yet.

    Raises:
        OSError: it could not be made.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def claim_private_folder(folder: Path) -> Path:
    """Make a folder that only its user can enter, and make sure that it is that.

    Raises:
        VaultError: it is somebody else's, or a link.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if os.name == "posix" and (folder.is_symlink() or status.st_uid != os.geteuid()):
            raise VaultError(f"{folder}: not your own folder; remove it")
        if os.name == "posix" and status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise SystemFailureError(
            f"{folder}: the state folder cannot be made ({error.strerror}); set XDG_STATE_HOME"
        ) from error
    return folder


def copy_attributes(source: Path, target: Path) -> None:
    """Give a file the permissions, owner and extended attributes of another one.

    Attributes that the system keeps to itself are left out.

    Raises:
        OSError: the owner, or the permissions, cannot be given.
    """
    status, own = source.stat(), target.stat()
    if (status.st_uid, status.st_gid) != (own.st_uid, own.st_gid) and hasattr(os, "chown"):
        os.chown(target, status.st_uid, status.st_gid)
    for name in os.listxattr(source) if hasattr(os, "listxattr") else ():
        with contextlib.suppress(OSError):
            os.setxattr(target, name, os.getxattr(source, name))
    os.chmod(target, status.st_mode & 0o7777)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exchange_files(first: Path, second: Path) -> None:
    """Exchange two files atomically.

    On a system or file system without such a call, the second file is put under the first
    one's name by a link and a rename: the note is still whole at each moment, and only a save
    between these two calls would go unnoticed.

    Raises:
        OSError: neither way worked; both files are as they were.
    """
    code = _exchange(os.fsencode(first), os.fsencode(second))
    if code == 0:
        return
    if code not in _UNSUPPORTED:
        raise OSError(code, os.strerror(code), str(second))
    spare = first.with_name(first.name + ".old")
    os.link(second, spare)
    os.replace(first, second)
    os.replace(spare, first)


def _exchange(first: bytes, second: bytes) -> int:
    """Return 0 or the system's error number."""
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            result = library.renamex_np(first, second, ctypes.c_uint(_EXCHANGE))
        else:
            result = library.renameat2(
                _AT_FDCWD, first, _AT_FDCWD, second, ctypes.c_uint(_EXCHANGE)
            )
    except (AttributeError, OSError, TypeError):
        return errno.ENOSYS
    return 0 if result == 0 else ctypes.get_errno()


# How many files this process may have open, as far as the system lets it be raised.

#: What is assumed where the system does not tell: few systems give less.
_ASSUMED = 512


def raise_file_limit(wanted: int) -> int:
    """Let this process have so many files open, or as many as it may have; return how many."""
    if sys.platform == "win32":
        return _ASSUMED
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
