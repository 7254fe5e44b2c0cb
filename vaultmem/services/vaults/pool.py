"""Vaults that stay open between questions, in a process that answers many: so many at most."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vaultmem.errors import VaultError
from vaultmem.services.reading.sync import read_behind
from vaultmem.services.watching.sync_hints import ChangeHints
from vaultmem.storage.lock import READER
from vaultmem.vault import UserFolders, Vault, open_vault

#: Vaults that are kept open; each takes what its index and the last questions made of it.
MOST = 24


class _Open(NamedTuple):
    """A vault, what may have changed in its folder, and what is another when it was replaced."""

    vault: Vault
    hints: ChangeHints
    identity: tuple[int, ...]


class VaultPool:
    """What others have open of vaults beside their own; for one thread, as databases are."""

    def __init__(self, folders: UserFolders, most: int = MOST) -> None:
        self._folders = folders
        self._most = most
        self._open: dict[Path, _Open] = {}

    def lend(self, vault: Vault) -> Vault:
        """Have a vault use what is open of its folder, in sync; what was asked last is kept.

        Raises:
            VaultError: it cannot be read.
        """
        known = self._open.pop(vault.root, None)
        if known is not None and known.identity != identify(known.vault):
            _close(known)  # Something was replaced.
            known = None
        if known is None:
            own = open_vault(vault.root, folders=self._folders, patience=READER)
            known = _Open(own, ChangeHints(own), ())
        vault = replace(vault, store=known.vault.store, view=known.vault.view, patience=READER)
        try:
            read_behind(vault, known.hints.sync)
        except BaseException:
            _close(known)
            raise
        self._open[vault.root] = known._replace(identity=identify(known.vault))
        while len(self._open) > self._most:
            _close(self._open.pop(next(iter(self._open))))
        return vault

    def close(self) -> None:
        """Close what is open."""
        for each in self._open.values():
            _close(each)
        self._open.clear()


def _close(opened: _Open) -> None:
    opened.hints.stop()
    with contextlib.suppress(VaultError, OSError):
        opened.vault.close()


def identify(vault: Vault) -> tuple[int, ...]:
    """Return what is another when folder, repository, state or index were replaced."""
    found = []
    index = vault.state_folder / "index"
    for path in (vault.root, vault.root / ".git", vault.state.path, index):
        try:
            found.append(os.stat(path).st_ino)
        except OSError:
            found.append(0)
    return tuple(found)
