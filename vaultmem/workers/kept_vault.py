"""A vault that stays open between requests, and opens anew what was moved, rebuilt or replaced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from vaultmem.services.reading.sync import read_behind
from vaultmem.services.vaults.pool import VaultPool, identify
from vaultmem.services.watching.sync_hints import ChangeHints
from vaultmem.storage.lock import READER, WRITER
from vaultmem.vault import UserFolders, Vault, open_vault
from vaultmem.workers.caller import Caller

Result = TypeVar("Result")

#: Brings the index up to what is on disk, for the thread whose vault it is given.
Sync = Callable[[Vault], None]

#: What is done with a vault, which is the caller's: in sync, in their name, on their branch.
Work = Callable[[Vault], Result]


class KeptVault:
    """One vault, for one thread: a database connection belongs to that.

    `sync` brings the index up to what is on disk, where somebody in this process watches the
    folder; else it is watched here, and `notice` called with each path that may have changed, from
    another thread. Where the vault is only read (`reads`), no writer is waited for. What is made of
    all notes goes into `made`, which those who read may share; who writes sees what others must not
    see yet.
    """

    def __init__(
        self,
        root: Path,
        folders: UserFolders,
        notice: Callable[[str], None] | None = None,
        reads: bool = False,
        made: dict[str, tuple[object, Any]] | None = None,
        sync: Sync | None = None,
    ) -> None:
        self._root = root
        self._folders = folders
        self._reads = reads
        self._patience = READER if reads else WRITER
        self._made = {} if made is None else made
        self._notice = notice
        self._sync = sync
        self._open: tuple[Vault, ChangeHints] | None = None
        self._others: VaultPool | None = None
        self._known: tuple[object, ...] = ()

    def run(self, work: Work[Result], caller: Caller) -> Result:
        """Return what `work` makes of the vault, in sync."""
        own, hints = self._reopen()
        sync = self._sync or hints.sync
        settings = caller.settings(self._folders)
        settings["store"], settings["patience"] = own.store, self._patience
        vault = open_vault(**settings)
        if caller.asks_others:
            vault = replace(vault, opener=partial(self._open_other, caller))
        try:
            if self._reads:
                read_behind(vault, sync)
            else:
                sync(vault)
            self._known = identify(vault)
            return work(in_session(_look(vault) if vault.ref else vault))
        except OSError:
            self._known = ()  # Something was taken away below us: begin anew next time.
            raise

    def _open_other(self, caller: Caller, path: str) -> Vault:
        """Open a vault beside this one, to be read by the same caller, by nobody's ref."""
        if self._others is None:
            self._others = VaultPool(self._folders)
        asking = caller._replace(ref="", session="")
        return self._others.lend(open_vault(path, **asking.settings(self._folders)))

    def let_go(self) -> None:
        """Close what is open."""
        if self._others is not None:
            self._others.close()
            self._others = None
        if self._open is not None:
            vault, hints = self._open
            hints.stop()
            with contextlib.suppress(Exception):
                vault.close()
        self._open = None

    def _reopen(self) -> tuple[Vault, ChangeHints]:
        """Return what stays open, opened anew where something was replaced."""
        if self._open is None or identify(self._open[0]) != self._known:
            self.let_go()
            own = open_vault(self._root, folders=self._folders, patience=self._patience)
            own.state.made = self._made
            self._open = own, ChangeHints(own, self._notice)
        return self._open


def settle(_: Vault) -> None:
    """Do nothing with a vault: from here on it is open, in sync, and watched."""


def warm_up(_: Vault) -> None:
    """Load what finds, so that the first question waits less."""
    import vaultmem.core.finding.ranking
    import vaultmem.services.finding.pack  # noqa: F401


def _look(vault: Vault) -> Vault:
    from vaultmem.services.reading.look import look_at

    return look_at(vault)


def in_session(vault: Vault) -> Vault:
    """Return the vault for writing in the session that its agent has open here, if there is one."""
    from vaultmem.services.sessions.edit_session import act_in
    from vaultmem.services.sessions.identify import identify_session

    if vault.author.session:
        return vault
    session = identify_session(vault).session
    return act_in(vault, session) if session else vault
