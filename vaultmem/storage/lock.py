"""One writer at a time: a lock on a file, given back by the system when its process ends."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from vaultmem.errors import VaultError

#: How often a thread holds a lock; threads lock each other out like processes do.
_held: dict[tuple[Path, int], int] = {}


@contextlib.contextmanager
def hold_lock(path: Path, timeout: float = 60.0) -> Iterator[None]:
    """Hold the lock of this thread on `path`; nested uses in one thread are one lock.

    Raises:
        VaultError: somebody else held it for `timeout` seconds, or its file cannot be made.
    """
    key = (path, threading.get_ident())
    if key in _held:
        _held[key] += 1
        try:
            yield
        finally:
            _held[key] -= 1
        return
    try:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise VaultError(f"{path}: the lock cannot be made ({error.strerror})") from error
    try:
        _acquire(descriptor, path, timeout)
        _held[key] = 1
        yield
    finally:
        _held.pop(key, None)
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Tell whether some process holds the lock on `path`; nothing is waited for."""
    try:
        with hold_lock(path, 0.0):
            return False
    except VaultError:
        return True


def _acquire(descriptor: int, path: Path, timeout: float) -> None:
    end = time.monotonic() + timeout
    pause = 0.001
    while not _try(descriptor):
        if time.monotonic() > end:
            raise VaultError(
                f"another vaultmem has been writing to this vault for {timeout:.0f} s; "
                f"wait for it, or end it ({path})"
            )
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def _try(descriptor: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
