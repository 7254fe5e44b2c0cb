"""Read a vault that is in sync; while others write, or nothing can be written, as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from vaultmem.errors import BusyError, FaultError, name_failure
from vaultmem.services.reading.indexing import Progress
from vaultmem.services.reading.sync import SyncReport, sync_vault
from vaultmem.storage.lock import READER, WRITER
from vaultmem.vault import Vault

T = TypeVar("T")


def read_behind(vault: Vault, sync: Callable[[Vault], T]) -> T | None:
    """Bring the index up to date by `sync`, but not while others write, or the disk is full.

    What is read then is what the index had before, and `vault.notices.stale` says why; nothing is
    returned. An index that is being made for the first time is waited for.

    Raises:
        BusyError: there is no index yet, and who makes it does not get on.
    """
    try:
        return sync(replace(vault, patience=min(vault.patience, READER)))
    except (OSError, FaultError) as error:  # A full disk can still be read.
        if not _has_index(vault):
            raise
        fault = error.fault if isinstance(error, FaultError) else name_failure(error)
        vault.notices.stale = f"without what was saved since the last look: {fault}"
    except BusyError as error:
        if not _has_index(vault):
            return _wait_for_index(vault, sync)
        vault.notices.stale = f"without what was saved since the last look: {error}"
    return None


def _has_index(vault: Vault) -> bool:
    """Tell whether there is an index; the first is written after what the database knows."""
    return bool(vault.state.get("view") and vault.index.stamp())


def _wait_for_index(vault: Vault, sync: Callable[[Vault], T]) -> T:
    try:
        return sync(replace(vault, patience=WRITER))
    except BusyError as error:
        raise BusyError(f"there is no index yet, and {error}") from None


def sync_to_read(vault: Vault, progress: Progress | None = None) -> SyncReport:
    """Make the index equal to the folder as `sync_vault` does, if it can be done at once."""
    return read_behind(vault, lambda brief: sync_vault(brief, progress)) or SyncReport()


def sync_once(vault: Vault, progress: Progress | None = None) -> None:
    """Make the index equal to the folder, unless that was tried since the vault was opened."""
    if "in_sync" not in vault.state.kept and not vault.notices.stale:
        sync_to_read(vault, progress)
