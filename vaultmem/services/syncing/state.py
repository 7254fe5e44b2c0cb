"""Tell how far a vault and its remote are apart, and how the last sync went."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.errors import VaultError
from vaultmem.services.syncing.contact import count_waiting
from vaultmem.services.syncing.place import find_place
from vaultmem.services.syncing.record import read_record
from vaultmem.services.syncing.unasked import check_unasked
from vaultmem.storage.git.remotes import read_remotes
from vaultmem.vault import Vault


class SyncState(NamedTuple):
    """With which remote a vault is synced, and how that stands.

    `at` and `good_at` are when the last sync was, and the last that came to its end (seconds since
    the epoch, 0: never); `outcome` is that of the last, and `told` why it was no better. `waiting`
    counts commits that the remote did not have then. `problem` says why nothing is synced unasked
    although vaultmem.yaml wants it.
    """

    remote: str
    every: str
    at: float
    good_at: float
    outcome: str
    told: str
    waiting: int
    problem: str


def read_sync_state(vault: Vault) -> SyncState | None:
    """Return how the vault stands with its remote; None where it has none and wants none."""
    config, last = vault.config, read_record(vault)
    is_projects = bool(vault.history.prefix) and not last.at  # Its remote is not there for notes.
    if not config.sync_remote and (is_projects or not read_remotes(vault.history).known):
        return None
    try:
        place = find_place(vault)
        name, waiting, problem = place.remote.name, count_waiting(vault, place), ""
        if config.sync_remote:
            check_unasked(vault)
    except VaultError as error:
        name, waiting, problem = last.remote or config.sync_remote, 0, str(error)
        if not config.sync_remote:
            return None
    return SyncState(
        name, config.sync_every, last.at, last.good_at, last.outcome, last.told, waiting, problem
    )
