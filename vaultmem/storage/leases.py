"""Leases on files (Linux), which show whether another process has a file open to write.

While a read lease is held, no process has the file open to write. A process that opens it waits for
the lease's release. A write lease excludes readers too. Source: fcntl(2), "Leases".
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

#: Seconds to wait for a program that has a file open.
_LEASE_WAIT_SECONDS = 0.5


class Lease(Enum):
    """The result of a request for a lease; `UNKNOWN` if the system has none for this file."""

    HELD = 1
    REFUSED = 2
    UNKNOWN = 3


@contextlib.contextmanager
def open_leased(
    file: Path, *, alone: bool = False, patience: float = _LEASE_WAIT_SECONDS
) -> Iterator[tuple[int, Lease]]:
    """Open a file with a read lease, after waiting up to `patience` (s) for its writers.

    With `alone` it is opened to write, with a lease that excludes all others.

    Raises:
        OSError: the file cannot be opened, or is a link.
    """
    descriptor = open_file(file, os.O_RDWR if alone else os.O_RDONLY)
    try:
        end, pause = time.monotonic() + patience, 0.001
        while (lease := _take(descriptor, alone)) is Lease.REFUSED and time.monotonic() < end:
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        yield descriptor, lease
    finally:
        os.close(descriptor)


def open_file(file: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file without following links or waiting for devices; return its descriptor.

    A file that `O_CREAT` creates is private to the owner.

    Raises:
        OSError: the file cannot be opened, or is a link.
    """
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    return os.open(file, flags, 0o600)


def is_broken(descriptor: int, lease: Lease) -> bool:
    """Return whether another process waits to open a leased file, or has opened it."""
    if lease is not Lease.HELD:
        return False
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == fcntl.F_UNLCK


def _take(descriptor: int, alone: bool) -> Lease:
    try:
        import fcntl
        import signal

        # A process that opens the file sends a signal; the default, SIGIO, would end this process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK if alone else fcntl.F_RDLCK)
    except (ImportError, AttributeError):
        return Lease.UNKNOWN
    except OSError as error:  # Another user's file, or a file system without leases.
        return Lease.REFUSED if error.errno == errno.EAGAIN else Lease.UNKNOWN
    return Lease.HELD
