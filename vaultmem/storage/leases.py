"""Whether somebody has a file open to write: on Linux the system tells it by a lease.

While a read lease is held, nobody has the file open to write, and whoever opens it so waits until
the lease is given back; an exclusive one keeps readers out too. Source: fcntl(2), "Leases".
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

#: Seconds that a program is waited for that has a file open.
_PATIENCE = 0.5


class Lease(Enum):
    """What the system answered; where it is `UNKNOWN`, it has no leases for such a file."""

    HELD = 1
    REFUSED = 2
    UNKNOWN = 3


@contextlib.contextmanager
def open_leased(
    file: Path, *, alone: bool = False, patience: float = _PATIENCE
) -> Iterator[tuple[int, Lease]]:
    """Open a file for a `with`, after waiting for those who have it open to write.

    With `alone` it is opened to be written itself, and nobody else has it open at all.

    Raises:
        OSError: it cannot be opened, or is a link.
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
    """Open a file and return its descriptor; a link is not followed, a device not waited for.

    With `O_CREAT` it may be a new file, for its owner alone.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    return os.open(file, flags, 0o600)


def is_broken(descriptor: int, lease: Lease) -> bool:
    """Tell whether somebody waits to write to a file that is leased, or has got it meanwhile."""
    if lease is not Lease.HELD:
        return False
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == fcntl.F_UNLCK


def _take(descriptor: int, alone: bool) -> Lease:
    try:
        import fcntl
        import signal

        # Who opens the file sends us a signal: one that nothing comes of, for SIGIO ends a process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK if alone else fcntl.F_RDLCK)
    except (ImportError, AttributeError):
        return Lease.UNKNOWN
    except OSError as error:  # Somebody else's file, or a file system without leases.
        return Lease.REFUSED if error.errno == errno.EAGAIN else Lease.UNKNOWN
    return Lease.HELD
