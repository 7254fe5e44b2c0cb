"""Every expected failure, and the exit code that each ends a command with.

    VaultError                1   the command could not be done
    |-- NoVaultError          3   no vault was found, or the folder is not one
    |-- NoteNotFoundError     4   no such note, section or commit
    |-- RefusedError          5   unsafe name, secret, unknown value: nothing was written
    |-- ConflictError         6   somebody else changed the same bytes; both are kept
    |-- PendingError          7   saved on disk, but git cannot take a commit right now
    |-- MergeConflictError    8   two sides changed the same thing; nothing was merged
    `-- DamagedError          1   the cache was damaged and is built again

Exit code 2 is a usage error (Typer), 130 an interruption (Ctrl-C).
"""

from __future__ import annotations

from collections.abc import Sequence
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


class ConflictError(VaultError):
    """The bytes on disk are not the ones that the change was made for."""

    exit_code = 6


class PendingError(VaultError):
    """The notes are safe on disk and their commit has to wait."""

    exit_code = 7


class MergeConflictError(VaultError):
    """Two sides changed the same thing in different ways; nothing was merged.

    `conflicts` says what, where, and who wrote it on each side.
    """

    exit_code = 8

    def __init__(self, message: str, conflicts: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.conflicts = tuple(conflicts)
