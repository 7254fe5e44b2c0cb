"""Files of a vault: safe reads, and atomic writes that never overwrite others' changes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from pathlib import Path, PurePosixPath

from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import (
    ConflictError,
    NoteNotFoundError,
    RefusedError,
    VaultError,
)
from vaultmem.storage.atomic import drop_file, naming_failure, sync_folder, write_temporary
from vaultmem.storage.file_replacement import put_bytes, remove_checked

#: The size limit of a note in bytes.
MAX_FILE_BYTES = 1024 * 1024

#: The size limit in MiB of other files that are committed or moved, as on hosts of git.
MAX_ATTACHMENT_MIB = 100

#: Seconds to wait for a file that another process has leased.
_LEASE_WAIT_SECONDS = 1.0


class UnsafeFileError(VaultError):
    """A file must not be read: it is a link, a device, or too large; the message explains."""


def find_max_bytes(path: str, attachments_max_mib: int = MAX_ATTACHMENT_MIB) -> int:
    """Return the size limit in bytes of a file that is committed or moved; a note's is fixed."""
    return MAX_FILE_BYTES if is_note_name(path) else attachments_max_mib * 1024 * 1024


def read_file(root: Path, path: PurePosixPath, limit: int = MAX_FILE_BYTES) -> bytes:
    """Return the bytes of a regular file inside the vault, without following links.

    Raises:
        NoteNotFoundError: the file does not exist.
        UnsafeFileError: the file is not a regular file, or larger than `limit` bytes.
    """
    return read_file_and_mode(root, path, limit)[0]


def read_file_and_mode(
    root: Path, path: PurePosixPath, limit: int = MAX_FILE_BYTES
) -> tuple[bytes, int]:
    """Return the bytes of a file as `read_file` does, and its permission bits."""
    descriptor = open_beneath(root, path)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeFileError(f"{path}: it is not a regular file")
        if status.st_size > limit:
            raise UnsafeFileError(f"{path}: it is larger than {limit:,} bytes")
        data = os.read(descriptor, status.st_size + 1)
        while len(data) > 0 and len(data) != status.st_size and len(data) <= limit:
            chunk = os.read(descriptor, limit + 1)  # It grew, or a signal cut the read short.
            if not chunk:
                break
            data += chunk
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise UnsafeFileError(f"{path}: it is larger than {limit:,} bytes")
    return data, stat.S_IMODE(status.st_mode)


def hash_file(root: Path, path: PurePosixPath) -> str:
    """Return git's blob id of a regular file of any size, read in pieces.

    Raises:
        NoteNotFoundError: the file does not exist.
        UnsafeFileError: the file is not a regular file.
    """
    with os.fdopen(open_beneath(root, path), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnsafeFileError(f"{path}: it is not a regular file")
        digest = hashlib.sha1(b"blob %d\0" % os.fstat(file.fileno()).st_size, usedforsecurity=False)
        while piece := file.read(MAX_FILE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def read_known(root: Path, path: str, blob: str) -> bytes | None:
    """Return the bytes of a file if it has this blob id, None otherwise.

    Faster than `read_file`: known bytes are safe even through a link.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(f"{root}/{path}", flags | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        data = os.read(descriptor, status.st_size + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data if blob_id(data) == blob else None


def create_file(root: Path, path: PurePosixPath, data: bytes, mode: int | None = None) -> None:
    """Write a new file atomically and durably, with these permission bits.

    Raises:
        ConflictError: a file of this name exists; it is unchanged.
        RefusedError: a folder of the path is not a folder.
        SystemFailureError: writing failed; no file is left.
    """
    target = root / path
    _make_folders(root, path.parent)
    with naming_failure(path):
        temporary = write_temporary(target.parent, data, mode=mode)
    with naming_failure(path):
        try:
            os.link(temporary, target, follow_symlinks=False)
        except FileExistsError:
            raise ConflictError(f"{path}: a note of that name exists; choose another") from None
        finally:
            drop_file(temporary)
        try:
            sync_folder(target.parent)
        except OSError:
            drop_file(target)
            raise


def replace_file(
    root: Path, path: PurePosixPath, expected: str, data: bytes, limit: int = MAX_FILE_BYTES
) -> None:
    """Replace the bytes of a file if they still have the blob id `expected`.

    Raises:
        ConflictError: the file was changed or removed, or another program has it open to write.
        SystemFailureError: writing failed; the file is unchanged.
    """
    if blob_id(read_file(root, path, limit)) != expected:
        raise ConflictError(f"{path}: another process changed it; read it again")
    with naming_failure(path):
        try:
            put_bytes(root / path, path, expected, data)
        except FileNotFoundError:
            reason = f"{path}: another process removed it; nothing was written"
            raise ConflictError(reason) from None


def remove_file(
    root: Path, path: PurePosixPath, expected: str, limit: int = MAX_FILE_BYTES
) -> None:
    """Remove a file if its bytes still have the blob id `expected`.

    Raises:
        ConflictError: the file was changed, or another program has it open to write; it stays.
        SystemFailureError: removing failed; the file is unchanged.
    """
    if blob_id(read_file(root, path, limit)) != expected:
        raise ConflictError(f"{path}: another process changed it; nothing was removed")
    with naming_failure(path, "removed"):
        remove_checked(root / path, path, expected)


def set_executable(root: Path, path: PurePosixPath, is_executable: bool) -> None:
    """Set (for its readers) or clear a file's executable bits; ignore an unsafe file."""
    if not hasattr(os, "fchmod"):
        return
    try:
        descriptor = open_beneath(root, path)
    except (NoteNotFoundError, UnsafeFileError):
        return
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        os.fchmod(descriptor, mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111)
    finally:
        os.close(descriptor)


def open_beneath(root: Path, path: PurePosixPath) -> int:
    """Open a file through its folders, so that no part of the path can be a link."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    folder_flags = flags | getattr(os, "O_DIRECTORY", 0)
    try:
        if os.open not in os.supports_dir_fd:
            return os.open(root / path, flags | getattr(os, "O_BINARY", 0))
        folder = os.open(root, folder_flags & ~getattr(os, "O_NOFOLLOW", 0))
        try:
            for part in path.parts[:-1]:
                deeper = os.open(part, folder_flags, dir_fd=folder)
                os.close(folder)
                folder = deeper
            return _open_last(path.parts[-1], flags | os.O_NONBLOCK, folder)
        finally:
            os.close(folder)
    except FileNotFoundError:
        raise NoteNotFoundError(f"{path}: there is no such note") from None
    except OSError as error:
        raise UnsafeFileError(f"{path}: it cannot be read safely ({error.strerror})") from None


def _open_last(name: str, flags: int, folder: int) -> int:
    """Open a file, after waiting if it is leased to an edit that writes it in place."""
    end = time.monotonic() + _LEASE_WAIT_SECONDS
    while True:
        try:
            return os.open(name, flags, dir_fd=folder)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.001)


def _make_folders(root: Path, folder: PurePosixPath) -> None:
    current = root
    for part in folder.parts:
        current = current / part
        with naming_failure(folder, "made"), contextlib.suppress(FileExistsError):
            current.mkdir()
            sync_folder(current.parent)
        if current.is_symlink() or not current.is_dir():
            raise RefusedError(f"{folder}: {part} is not a folder of the vault; choose another")
