"""Vaults of clones that stay open, in sync with the commit that each clone is at."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import NamedTuple

from vaultmem.config import CONFIG_NAME, read_config
from vaultmem.errors import DamagedError, NoVaultError, VaultError
from vaultmem.services.pools.clone import Clone
from vaultmem.services.reading.sync import sync_vault
from vaultmem.storage.file_limit import raise_file_limit
from vaultmem.vault import UserFolders, Vault, VaultSettings, open_vault

#: Files that an open vault takes: its database with two beside it, segments of its index, a lock;
#: and how many a process has for all else.
_FILES_EACH, _OTHER_FILES = 6, 256

#: Where an index keeps for which commit of the clone it was made.
_AT = "pool_commit"


class ChangedFilesError(DamagedError):
    """Somebody changed the files of a clone, which are its remote's alone."""


class _Opened(NamedTuple):
    """A vault that is open, and of which clone (`made`) at which commit it was in sync."""

    vault: Vault
    made: str
    commit: str


def choose_most_open(wanted: int) -> int:
    """Return how many vaults may be open in this process; its limit of files is raised for it."""
    files = raise_file_limit(wanted * _FILES_EACH + _OTHER_FILES)
    return max(1, min(wanted, (files - _OTHER_FILES) // _FILES_EACH))


class OpenVaults:
    """What a shard has open, for its thread; what was asked last is kept."""

    def __init__(self, folders: UserFolders) -> None:
        self._folders = folders
        self._open: dict[str, _Opened] = {}

    def lend(self, clone: Clone, settings: VaultSettings, syncs: bool = True) -> Vault:
        """Return a Vault that uses what is open of a clone, in sync with that.

        Raises:
            NoVaultError: there is no clone, or no vault in it.
            ChangedFilesError: its files are not those that it was left with.
        """
        name, record = clone.source.name, clone.record
        if record is None or not (clone.root / CONFIG_NAME).is_file():
            raise NoVaultError(f"no vault: its remote has no {CONFIG_NAME}")
        if name in self._open and self._open[name].made != record.made:
            self.close([name])
        known = self._open.pop(name, None)
        if known is None:
            known = _Opened(open_vault(clone.root, folders=self._folders), record.made, "")
        self._open[name] = known
        if syncs and known.commit != record.commit:
            known.vault.config = read_config(clone.root)
            _sync(known.vault, record.commit)
            self._open[name] = known._replace(commit=record.commit)
        given = settings.copy()
        # Beside the clone are those of others, which its owners may not read.
        config = known.vault.config._replace(code_repository="")
        given["folders"], given["config"] = self._folders, config
        vault = open_vault(clone.root, **given)
        vault.share_storage(known.vault)
        vault.name = name
        return vault

    def close(self, names: Collection[str] | None = None) -> None:
        """Close these, or all."""
        for name in list(self._open if names is None else names):
            if known := self._open.pop(name, None):
                with contextlib.suppress(VaultError, OSError):
                    known.vault.close()

    def close_all_but(self, most: int) -> None:
        """Close what was not asked for longest, until no more than `most` are open."""
        self.close(list(self._open)[: max(0, len(self._open) - most)])


def expect_changes(vault: Vault) -> None:
    """Note that a clone's files are about to be changed by its own pool."""
    vault.state.put(_AT, "")


def _sync(vault: Vault, commit: str) -> None:
    """Bring the index up to a clone's files, which are those of a commit."""
    expected = vault.state.get(_AT) == commit
    done = sync_vault(vault)
    if not expected:
        vault.state.put(_AT, commit)
    elif done.added or done.changed or done.removed:
        expect_changes(vault)
        raise ChangedFilesError("its clone was changed by somebody, and is made as it was")
