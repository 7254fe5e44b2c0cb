"""Where tools work: one thread that reads, one that writes, each with the vault open.

A database connection belongs to one thread, and a long write must keep nobody from reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from vaultmem.errors import RefusedError, VaultError
from vaultmem.mcp_server.tool import see_at
from vaultmem.services.watching.hints import ChangeHints
from vaultmem.vault import Vault, open_vault

Result = TypeVar("Result")


class Workplace:
    """A vault for many requests; it opens anew whatever was moved, rebuilt or replaced.

    `notice` is told of each path that may have changed, from another thread.
    """

    def __init__(self, root: Path, agent: str, ref: str = "", read_only: bool = False) -> None:
        self.root = root
        self.agent = agent
        self.ref = ref
        self.read_only = read_only
        self.notice: Callable[[str], None] | None = None
        self._reader = _Worker(self, self._pass_on)
        self._writer = _Worker(self, None)

    async def read(self, work: Callable[[Vault], Result], session: str = "") -> Result:
        """Return what `work` makes of the vault, in sync."""
        return await self._reader.run(work, session)

    async def write(self, work: Callable[[Vault], Result], session: str = "") -> Result:
        """Return what `work` did; one at a time, and each to its end once it has begun.

        Raises:
            RefusedError: this server only reads.
        """
        if self.read_only:
            raise RefusedError("this server only reads; start it without --read-only to write")
        return await self._writer.run(work, session)

    def watch(self) -> None:
        """Begin to watch the folder; what is known of it by then need not be looked at again."""
        self._reader.begin()

    def warm_up(self) -> None:
        """Open the vault while the client is still saying who it is; the first question waits less.

        What is wrong with the vault is told when something is asked.
        """
        self._reader.submit(_import_finding)

    def close(self) -> None:
        """Wait for what is under way, and close the vault."""
        self._writer.close()
        self._reader.close()

    def _pass_on(self, path: str) -> None:
        if self.notice is not None:
            self.notice(path)


class _Worker:
    """One thread with a vault that stays open between requests."""

    def __init__(self, place: Workplace, notice: Callable[[str], None] | None) -> None:
        self._place = place
        self._notice = notice
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vaultmem")
        self._kept: tuple[Vault, ChangeHints] | None = None
        self._known: tuple[object, ...] = ()

    async def run(self, work: Callable[[Vault], Result], session: str) -> Result:
        """Do the work in this thread; a caller who gives up does not interrupt it half-way."""
        return await asyncio.wrap_future(self.submit(work, session))

    def submit(self, work: Callable[[Vault], Result], session: str = "") -> Future[Result]:
        """Have the work done after what was asked for before."""
        return self._thread.submit(self._work, work, session)

    def begin(self) -> None:
        """Watch the vault, before anything is asked; what is wrong with it is told then."""
        with contextlib.suppress(OSError, VaultError):
            vault = open_vault(self._place.root)
            _, hints = self._keep(vault)
            hints.begin()
            self._known = _identify(vault)

    def close(self) -> None:
        """Let go of everything, once the last request is done."""
        self._thread.submit(self._let_go)
        self._thread.shutdown(wait=True)

    def _work(self, work: Callable[[Vault], Result], session: str) -> Result:
        place = self._place
        vault = open_vault(place.root, agent=place.agent, session=session, ref=place.ref)
        kept, hints = self._keep(vault)
        vault.share_storage(kept)
        try:
            hints.sync(vault)
            self._known = _identify(vault)
            return work(see_at(vault, {}) if vault.ref else _in_session(vault))
        except OSError:
            self._known = ()  # Something was taken away below us: begin anew next time.
            raise

    def _keep(self, vault: Vault) -> tuple[Vault, ChangeHints]:
        """Return what stays open, opened anew where something was replaced."""
        if self._kept is None or _identify(vault) != self._known:
            self._let_go()
            kept = open_vault(self._place.root)
            self._kept = kept, ChangeHints(kept, self._notice)
        return self._kept

    def _let_go(self) -> None:
        if self._kept is not None:
            vault, hints = self._kept
            hints.stop()
            with contextlib.suppress(Exception):
                vault.close()
        self._kept = None


def _import_finding(_: Vault) -> None:
    import vaultmem.services.finding.look
    import vaultmem.services.finding.pack
    import vaultmem.services.finding.recall  # noqa: F401


def _in_session(vault: Vault) -> Vault:
    """Return the vault for writing in the session that its agent has open here, if there is one."""
    from vaultmem.services.sessions.identify import identify_session
    from vaultmem.services.sessions.write import act_in

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
            vault.state_folder / "state.sqlite3",
            vault.state_folder / "index",
        )
    )


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None
