"""A vault that stays open between requests, and opens anew what was moved, rebuilt or replaced."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from vaultmem.environment import open_named_vault
from vaultmem.mcp_server.tool import see_at
from vaultmem.services.reading.behind import read_behind
from vaultmem.services.watching.sync_hints import ChangeHints
from vaultmem.vault import Vault

Result = TypeVar("Result")

#: What is done with a vault. It may be sent to another process, so it is a function
#: of a module, with its first arguments bound (`functools.partial`) or none.
Work = Callable[[Vault], Result]


class Served(NamedTuple):
    """Which vault is served, in whose name, and which branch of it, "" for what is on disk."""

    root: Path
    agent: str
    ref: str = ""


class ServedVault:
    """One vault, for one thread: a database connection belongs to that.

    `notice` is called with each path that may have changed, from another thread. Where the vault is
    only read (`reads`), no writer is waited for.
    """

    def __init__(
        self, served: Served, notice: Callable[[str], None] | None, reads: bool = False
    ) -> None:
        self._served = served
        self._reads = reads
        self._notice = notice
        self._open: tuple[Vault, ChangeHints] | None = None
        self._known: tuple[object, ...] = ()

    def run(self, work: Work[Result], session: str) -> Result:
        """Return what `work` makes of the vault, in sync."""
        root, agent, ref = self._served
        vault = open_named_vault(root, agent=agent, session=session, ref=ref)
        own, hints = self._reopen(vault)
        vault.share_storage(own)
        try:
            if self._reads:
                vault.wait_briefly()
                read_behind(vault, lambda: hints.sync(vault))
            else:
                hints.sync(vault)
            self._known = _identify(vault)
            return work(see_at(vault, {}) if vault.ref else _in_session(vault))
        except OSError:
            self._known = ()  # Something was taken away below us: begin anew next time.
            raise

    def let_go(self) -> None:
        """Close what is open."""
        if self._open is not None:
            vault, hints = self._open
            hints.stop()
            with contextlib.suppress(Exception):
                vault.close()
        self._open = None

    def _reopen(self, vault: Vault) -> tuple[Vault, ChangeHints]:
        """Return what stays open, opened anew where something was replaced."""
        if self._open is None or _identify(vault) != self._known:
            self.let_go()
            own = open_named_vault(self._served.root)
            if self._reads:
                own.wait_briefly()
            self._open = own, ChangeHints(own, self._notice)
        return self._open


def settle(_: Vault) -> None:
    """Do nothing with a vault: from here on it is open, in sync, and watched."""


def warm_up(_: Vault) -> None:
    """Load what finds, so that the first question waits less."""
    import vaultmem.core.finding.ranking
    import vaultmem.mcp_server.finding
    import vaultmem.services.finding.ask_pack  # noqa: F401


def _in_session(vault: Vault) -> Vault:
    """Return the vault for writing in the session that its agent has open here, if there is one."""
    from vaultmem.services.sessions.edit_session import act_in
    from vaultmem.services.sessions.identify import identify_session

    if vault.author.session:
        return vault
    session = identify_session(vault).session
    return act_in(vault, session) if session else vault


def _identify(vault: Vault) -> tuple[object, ...]:
    """Return what is another when folder, repository, state or index were replaced."""
    return tuple(
        _inode(path)
        for path in (
            vault.root,
            vault.root / ".git",
            vault.state.path,
            vault.state_folder / "index",
        )
    )


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None
