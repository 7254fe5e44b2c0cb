"""One writer at a time: a lock on a file, given back by the system when its process ends."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from vaultmem.errors import BusyError, FaultError

#: Seconds that a writer waits for another one; and who only reads, which can do without the lock.
WRITER = 60.0
READER = 0.5

#: How often a thread holds a lock; threads lock each other out like processes do.
_held: dict[tuple[Path, int], int] = {}


@contextlib.contextmanager
def hold_lock(path: Path, timeout: float = WRITER, shared: bool = False) -> Iterator[None]:
    """Hold the lock of this thread on `path`; nested uses in one thread are one lock.

    Whoever holds it is waited for, but nobody whose process was stopped (seen on Linux). Many may
    hold it `shared` at once, and then nobody else holds it alone.

    Raises:
        BusyError: somebody else held it for `timeout` seconds.
        VaultError: its file cannot be made.
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
    end = time.monotonic() + timeout
    try:
        waits = timeout > 0 and not shared
        with _be_next(path, end) if waits else contextlib.nullcontext():
            if not _acquire(descriptor, path, end, shared):
                raise BusyError(_describe_holder(path))
        _held[key] = 1
        yield
    finally:
        _held.pop(key, None)
        os.close(descriptor)


@contextlib.contextmanager
def _be_next(path: Path, end: float) -> Iterator[None]:
    """Stand first in line: who has just let go of the lock does not get it again before us.

    Without it, one who writes all the time keeps the others out for as long as it likes.
    """
    line = path.with_name(f"{path.name}.next")
    descriptor = _open(line)
    try:
        if not _acquire(descriptor, line, end, shared=False):
            raise BusyError(_describe_holder(path))
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
    except (BusyError, FaultError):
        return True


def find_holders(path: Path) -> list[int]:
    """Return the processes that hold the lock on `path`, where the system tells them (Linux)."""
    try:
        inode = path.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    fields = [line.split() for line in lines if "->" not in line]
    found = {int(each[4]) for each in fields if len(each) > 5 and each[5].endswith(f":{inode}")}
    return sorted(pid for pid in found if pid > 0)  # Of another container there is no number.


def _describe_holder(path: Path) -> str:
    if stopped := _find_stopped(path):
        who = f"another vaultmem (process {stopped})"
        return f"{who} was stopped while writing; `kill -CONT {stopped}` lets it go on, or end it"
    holders = find_holders(path)
    who = f"another vaultmem{f' (process {holders[0]})' if holders else ''}"
    return f"{who} is writing to this vault; wait for it, or end it ({path})"


def _find_stopped(path: Path) -> int:
    """Return a process that holds the lock and stands still, 0 if none is known to."""
    from vaultmem.storage.processes import is_stopped  # Most commands never wait.

    return next(filter(is_stopped, find_holders(path)), 0)


def _acquire(descriptor: int, path: Path, end: float, shared: bool) -> bool:
    pause = 0.001
    look = time.monotonic() + READER
    while not _try(descriptor, shared):
        now = time.monotonic()
        if now > end or (now > look and _find_stopped(path)):
            return False
        look = now + READER if now > look else look
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True


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
