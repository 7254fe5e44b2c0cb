"""Every expected failure, and the exit code that each ends a command with.

    VaultError                1   the command could not be done
    |-- NoVaultError          3   no vault was found, or the folder is not one
    |-- NoteNotFoundError     4   no such note, section or commit
    |-- RefusedError          5   unsafe name, secret, unknown value: nothing was written
    |   `-- ForbiddenError    5   whoever asks may not do this there
    |-- ConflictError         6   somebody else changed the same bytes; both are kept
    |   `-- ChangedError      6   a note is another than the one that was read to be changed
    |-- PendingError          7   saved on disk, but git cannot take a commit right now
    |-- MergeConflictError    8   two sides changed what only a person can join
    |-- BusyError             1   another process had what this one needs for too long
    |-- DamagedError          1   the cache was damaged and is built again
    `-- FaultError            1   the disk or the system failed; it says what was written

Exit code 2 is a usage error (Typer), 130 an interruption (Ctrl-C).
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence
from typing import Any


class VaultError(Exception):
    """An expected failure; its text says subject, fact and remedy."""

    exit_code = 1


class DamagedError(VaultError):
    """Index or database proved to be damaged; a sync builds them again from the notes."""


class NoVaultError(VaultError):
    """No vault was found where one was looked for."""

    exit_code = 3


class NoteNotFoundError(VaultError):
    """A note, section or commit that was named does not exist."""

    exit_code = 4


class RefusedError(VaultError):
    """The input is unsafe or not allowed; nothing was written."""

    exit_code = 5


class ArgumentError(RefusedError):
    """An argument is not of the form that the command takes."""

    exit_code = 2


class ForbiddenError(RefusedError):
    """A vault's remote does not take this from whoever asks, for it is not theirs to do."""


class ConflictError(VaultError):
    """The bytes on disk are not the ones that the change was made for."""

    exit_code = 6


class VersionMismatchError(ConflictError):
    """A note is not the version of it that was to be changed; nothing was written."""


class PendingError(VaultError):
    """The notes are safe on disk and their commit has to wait."""

    exit_code = 7


class LockTimeoutError(VaultError):
    """Another process had the vault, or what belongs to it, for longer than was to be waited."""


class MergeConflictError(VaultError):
    """Two sides changed the same thing in different ways; nothing was merged.

    `conflicts` says what, where, and who wrote it on each side.
    """

    exit_code = 8

    def __init__(self, message: str, conflicts: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.conflicts = tuple(conflicts)


class SystemFailureError(VaultError):
    """The disk or the system failed, or a child that was killed.

    Where something was to be written, the text says whether it was: `outcome`, before `fault`. One
    that `stands` is that of a change which cannot be taken back, whatever this was a part of.
    """

    def __init__(self, fault: str, outcome: str = "", *, stands: bool = False) -> None:
        super().__init__(f"{outcome}: {fault}" if outcome else fault)
        self.fault, self.outcome, self.stands = fault, outcome, stands


#: What helps against what the system says most often where it refuses.
_REMEDIES = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EROFS: "mount it to be written to",
    errno.EMFILE: "end other programs, or raise `ulimit -n`",
    errno.ENFILE: "end other programs",
    errno.EIO: "look at the disk",
}


def wrap_os_error(error: OSError | VaultError) -> VaultError:
    """Return an expected failure: of what the system refused, at which file, why, what helps."""
    if isinstance(error, VaultError):
        return error
    where = f"{error.filename}: " if error.filename else ""
    remedy = _REMEDIES.get(error.errno or 0, "run the command again")
    return SystemFailureError(
        f"{where}{error.strerror or str(error) or type(error).__name__}; {remedy}"
    )


@contextlib.contextmanager
def wrapping_os_errors(outcome: str, *, stands: bool = False) -> Iterator[None]:
    """Say with each fault in a `with` what came of the work: "nothing was written".

    With `stands`, what the work is a part of cannot take that back, and keeps the outcome.

    Raises:
        FaultError: the disk or the system failed.
    """
    try:
        yield
    except (OSError, SystemFailureError) as error:
        if isinstance(error, SystemFailureError) and error.stands:
            raise
        named = wrap_os_error(error)
        fault = named.fault if isinstance(named, SystemFailureError) else str(named)
        raise SystemFailureError(fault, outcome, stands=stands) from error
