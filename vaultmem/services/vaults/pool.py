"""Vaults that stay open between questions, in a process that answers many: so many at most."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from vaultmem.errors import VaultError
from vaultmem.vault import UserFolders, Vault, open_vault

#: Vaults that are kept open; each takes what its index and the last questions made of it.
MOST = 24


class VaultPool:
    """What others have open of vaults beside their own; for one thread, as databases are."""

    def __init__(self, folders: UserFolders, most: int = MOST) -> None:
        self._folders = folders
        self._most = most
        self._open: dict[Path, tuple[Vault, tuple[int, ...]]] = {}

    def lend(self, vault: Vault) -> Vault:
        """Have a vault use what is open of its folder; what was asked longest ago is closed."""
        known = self._open.pop(vault.root, None)
        if known is not None and known[1] != _identify(known[0]):  # Something was replaced.
            self._close(known[0])
            known = None
        own = known[0] if known else open_vault(vault.root, folders=self._folders)
        own.wait_briefly()
        vault.share_storage(own)
        self._open[vault.root] = own, _identify(own)
        while len(self._open) > self._most:
            self._close(self._open.pop(next(iter(self._open)))[0])
        return vault

    def close(self) -> None:
        """Close what is open."""
        for vault, _ in self._open.values():
            self._close(vault)
        self._open.clear()

    def _close(self, vault: Vault) -> None:
        with contextlib.suppress(VaultError, OSError):
            vault.close()


def _identify(vault: Vault) -> tuple[int, ...]:
    """Return what is another when the folder, its state or its index were replaced."""
    found = []
    for path in (vault.root, vault.state.path, vault.state_folder / "index"):
        try:
            found.append(os.stat(path).st_ino)
        except OSError:
            found.append(0)
    return tuple(found)
