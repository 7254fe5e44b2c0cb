"""Write files atomically and durably, within the limit of open files."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from vaultmem.errors import SystemFailureError, VaultError

#: The name of a file that is being written; after a kill, leftovers are found by it.
TEMPORARY = ".vaultmem-{}.tmp"

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE in linux/fs.h and RENAME_SWAP in sys/stdio.h.
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def write_atomically(
    file: Path, data: bytes | Iterable[bytes], *, mode: int | None = None, durable: bool = True
) -> None:
    """Replace a file's bytes, so that a reader sees all of the old or all of the new ones.

    `mode` is its permission bits, by default those of a new file. A `durable` write survives a
    power cut; caches that are checked before use do not need that.

    Raises:
        OSError: writing failed. The file has the old bytes, or the new ones if only its folder
            could not be made durable; no other file is left.
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
    """Write a new hidden file, to be linked, renamed or exchanged, and return its path.

    Raises:
        OSError: writing failed; no file is left.
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
def naming_failure(subject: object, action: str = "written") -> Iterator[None]:
    """Convert each OSError of the block to "notes/x.md: could not be written: ...".

    Raises:
        SystemFailureError: the block raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise SystemFailureError(f"{subject}: could not be {action}: {error.strerror}") from error


def drop_file(file: Path) -> None:
    """Remove a file if possible; a hidden temporary file that stays does no harm."""
    with contextlib.suppress(OSError):
        file.unlink()


def make_private_folder(folder: Path) -> None:
    """Create a folder (if missing) durably, private to its owner.

    Raises:
        OSError: the folder could not be created.
    """
    missing_folders = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing_folders:
        sync_folder(each.parent)


def claim_private_folder(folder: Path) -> Path:
    """Create a private folder, or make the user's existing one private; return it.

    Raises:
        VaultError: the folder belongs to another user, or is a link.
        SystemFailureError: the folder cannot be created.
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
    """Copy permissions, owner and extended attributes (where allowed) to another file.

    Raises:
        OSError: owner or permissions cannot be set.
    """
    status, own = source.stat(), target.stat()
    if (status.st_uid, status.st_gid) != (own.st_uid, own.st_gid) and hasattr(os, "chown"):
        os.chown(target, status.st_uid, status.st_gid)
    for name in os.listxattr(source) if hasattr(os, "listxattr") else ():
        with contextlib.suppress(OSError):
            os.setxattr(target, name, os.getxattr(source, name))
    os.chmod(target, status.st_mode & 0o7777)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable (POSIX only)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exchange_files(first: Path, second: Path) -> None:
    """Exchange two files atomically.

    Without such a system call, a link and two renames are used: the second file is complete at all
    times, and only a save between these calls would be missed.

    Raises:
        OSError: the exchange failed.
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


# The limit of open files of this process.

#: The limit assumed on Windows; few systems have less.
_ASSUMED = 512


def raise_file_limit(limit: int) -> int:
    """Raise the limit of open files to `limit`, as far as allowed; return the new limit."""
    if sys.platform == "win32":
        return _ASSUMED
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limit
    if soft < limit:
        new_limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
