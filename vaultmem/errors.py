"""Every expected failure and the exit code of a command that ends with it.

    VaultError                   1   the command could not be done
    |-- NoVaultError             3   no vault was found, or the folder is not a vault
    |-- NoteNotFoundError        4   no such note, section or commit
    |-- RefusedError             5   unsafe name, secret, unknown value: nothing was written
    |   |-- ArgumentError        2   an argument has the wrong form
    |   `-- ForbiddenError       5   the caller has no permission for this
    |-- ConflictError            6   another process changed the same bytes; both are kept
    |   `-- VersionMismatchError 6   the note changed since the caller read it
    |-- PendingError             7   saved on disk, but git cannot commit right now
    |-- MergeConflictError       8   both sides changed the same thing; a person has to decide
    |-- LockTimeoutError         1   another process held a lock for too long
    |-- DamagedError             1   the cache was damaged; it is rebuilt
    `-- SystemFailureError       1   the disk or the system failed; reports what was written

Exit code 2 is also a usage error (Typer), 130 an interruption (Ctrl-C).
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence
from typing import Any


class VaultError(Exception):
    """An expected failure; its text names the subject, the fact and the remedy."""

    exit_code = 1


class DamagedError(VaultError):
    """The index or database is damaged; a sync rebuilds it from the notes."""


class NoVaultError(VaultError):
    """No vault was found."""

    exit_code = 3


class NoteNotFoundError(VaultError):
    """The named note, section or commit does not exist."""

    exit_code = 4


class RefusedError(VaultError):
    """The input is unsafe or not allowed; nothing was written."""

    exit_code = 5


class ArgumentError(RefusedError):
    """An argument does not have the form that the command accepts."""

    exit_code = 2


class ForbiddenError(RefusedError):
    """The vault's remote rejects this change: the caller lacks the permission."""


class ConflictError(VaultError):
    """The bytes on disk are not those that the change was made for."""

    exit_code = 6


class VersionMismatchError(ConflictError):
    """The note changed since the caller read it; nothing was written."""


class PendingError(VaultError):
    """The notes are safe on disk; their commit has to wait."""

    exit_code = 7


class LockTimeoutError(VaultError):
    """Another process held the vault, or a part of it, past the lock timeout."""


class MergeConflictError(VaultError):
    """Two sides changed the same thing in different ways; nothing was merged.

    `conflicts` are the conflicts with their places and authors.
    """

    exit_code = 8

    def __init__(self, message: str, conflicts: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.conflicts = tuple(conflicts)


class SystemFailureError(VaultError):
    """The disk or the system failed, or a child process was killed.

    The text is `outcome` (whether anything was written), then `fault`. With `stands`, the outcome
    is final: outer contexts keep it, because the change cannot be undone.
    """

    def __init__(self, fault: str, outcome: str = "", *, stands: bool = False) -> None:
        super().__init__(f"{outcome}: {fault}" if outcome else fault)
        self.fault, self.outcome, self.stands = fault, outcome, stands


#: Remedies for the most frequent system errors.
_REMEDIES = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EROFS: "mount it to be written to",
    errno.EMFILE: "end other programs, or raise `ulimit -n`",
    errno.ENFILE: "end other programs",
    errno.EIO: "look at the disk",
    errno.EACCES: "check its permissions",
    errno.EPERM: "check its permissions",
    errno.EISDIR: "move this folder away",
    errno.ENOTDIR: "move the file in its path away",
    errno.ENAMETOOLONG: "use a shorter name",
}


def wrap_os_error(error: OSError | VaultError) -> VaultError:
    """Return an OSError as an expected failure with file, cause and remedy."""
    if isinstance(error, VaultError):
        return error
    where = f"{error.filename}: " if error.filename else ""
    remedy = _REMEDIES.get(error.errno or 0, "run the command again")
    return SystemFailureError(
        f"{where}{error.strerror or str(error) or type(error).__name__}; {remedy}"
    )


@contextlib.contextmanager
def wrapping_os_errors(outcome: str, *, stands: bool = False) -> Iterator[None]:
    """Add the outcome (such as "nothing was written") to each error raised in the block.

    With `stands`, the outcome is final: outer contexts do not replace it.

    Raises:
        SystemFailureError: the disk or the system failed.
    """
    try:
        yield
    except (OSError, SystemFailureError) as error:
        if isinstance(error, SystemFailureError) and error.stands:
            raise
        named = wrap_os_error(error)
        fault = named.fault if isinstance(named, SystemFailureError) else str(named)
        raise SystemFailureError(fault, outcome, stands=stands) from error
