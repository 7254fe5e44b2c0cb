"""One writer at a time: a lock on a file, given back by the system when its process ends."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from vaultmem.errors import FaultError, VaultError

#: How often a thread holds a lock; threads lock each other out like processes do.
_held: dict[tuple[Path, int], int] = {}


@contextlib.contextmanager
def hold_lock(path: Path, timeout: float = 60.0, shared: bool = False) -> Iterator[None]:
    """Hold the lock of this thread on `path`; nested uses in one thread are one lock.

    Many may hold it `shared` at once, and then nobody else holds it alone.

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
    descriptor = _open(path)
    try:
        waits = timeout > 0 and not shared
        with _be_next(path, timeout) if waits else contextlib.nullcontext():
            _acquire(descriptor, path, timeout, shared)
        _held[key] = 1
        yield
    finally:
        _held.pop(key, None)
        os.close(descriptor)


@contextlib.contextmanager
def _be_next(path: Path, timeout: float) -> Iterator[None]:
    """Stand first in line: who has just let go of the lock does not get it again before us.

    Without it, one who writes all the time keeps the others out for as long as it likes.
    """
    descriptor = _open(path.with_name(f"{path.name}.next"))
    try:
        _acquire(descriptor, path, timeout, shared=False)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise FaultError(f"{path}: the lock cannot be made ({error.strerror})") from error


def is_held(path: Path) -> bool:
    """Tell whether some process holds the lock on `path` alone; nothing is waited for."""
    if not path.exists():
        return False
    try:
        with hold_lock(path, 0.0, shared=True):  # Two who ask do not see each other.
            return False
    except VaultError:
        return True


def _acquire(descriptor: int, path: Path, timeout: float, shared: bool) -> None:
    end = time.monotonic() + timeout
    pause = 0.001
    while not _try(descriptor, shared):
        if time.monotonic() > end:
            raise VaultError(
                f"another vaultmem has been writing to this vault for {timeout:.0f} s; "
                f"wait for it, or end it ({path})"
            )
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def _try(descriptor: int, shared: bool) -> bool:
    try:
        if os.name == "nt":  # Which has no shared locks of this kind.
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
