"""Where tools work: one thread that reads, one that writes, each with the vault open.

A long write must keep nobody from reading. Where it can be, what is read is read by a process of
its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from vaultmem.errors import RefusedError
from vaultmem.mcp_server.reader import Reader, ReaderEndedError
from vaultmem.mcp_server.served import Result, Served, ServedVault, Work, warm_up


class Workplace:
    """A vault for many requests.

    `reader` is a process that reads it. `notice` is called with each path that may have changed,
    from another thread.
    """

    def __init__(
        self,
        served: Served,
        read_only: bool = False,
        notice: Callable[[str], None] | None = None,
        reader: Reader | None = None,
    ) -> None:
        self.read_only = read_only
        if reader is not None:
            reader.notice = notice
        self._reader = _Worker(ServedVault(served, notice, reads=True), reader)
        self._writer = _Worker(ServedVault(served, None))

    async def read(self, work: Work[Result], session: str = "") -> Result:
        """Return what `work` makes of the vault, in sync."""
        return await self._reader.run(work, session)

    async def write(self, work: Work[Result], session: str = "") -> Result:
        """Return what `work` did; one at a time, and each to its end once it has begun.

        Raises:
            RefusedError: this server only reads.
        """
        if self.read_only:
            raise RefusedError("this server only reads; start it without --read-only to write")
        return await self._writer.run(work, session)

    def warm_up(self) -> None:
        """Open the vault while the client is still saying who it is; the first question waits less.

        What is wrong with the vault is reported when something is asked.
        """
        if self._reader.process is None:
            self._reader.submit(warm_up)

    def close(self) -> None:
        """Wait for what is under way, and close the vault."""
        self._writer.close()
        self._reader.close()


class _Worker:
    """One thread, whose work a process does as long as there is one."""

    def __init__(self, vault: ServedVault, process: Reader | None = None) -> None:
        self.process = process
        self._vault = vault
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vaultmem")

    async def run(self, work: Work[Result], session: str) -> Result:
        """Do the work in this thread; a caller who gives up does not interrupt it half-way."""
        return await asyncio.wrap_future(self.submit(work, session))

    def submit(self, work: Work[Result], session: str = "") -> Future[Result]:
        """Have the work done after what was asked for before."""
        return self._thread.submit(self._work, work, session)

    def close(self) -> None:
        """Let go of everything, once the last request is done."""
        with contextlib.suppress(RuntimeError):  # It is closed already, or being closed.
            self._thread.submit(self._let_go)
        self._thread.shutdown(wait=True)

    def _work(self, work: Work[Result], session: str) -> Result:
        if self.process is not None:
            try:
                return self.process.run(work, session)
            except ReaderEndedError:
                self.process = None
        return self._vault.run(work, session)

    def _let_go(self) -> None:
        if self.process is not None:
            self.process.close()
        self._vault.let_go()
