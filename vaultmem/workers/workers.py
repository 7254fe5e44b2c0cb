"""Threads that each have the vault open: one that writes, and some that read.

A long write must keep nobody from reading. However many ask, there are no more vaults open.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from vaultmem.errors import RefusedError
from vaultmem.vault import Vault, find_user_folders
from vaultmem.workers.caller import Caller
from vaultmem.workers.kept_vault import KeptVault, Result, Sync, Work

#: Threads that read. Python computes in one of them at a time, but a slow question waits for others
#: to let it go on, not the others for it.
_READERS = 2


class Workers:
    """Does what callers ask of one vault.

    `notice` and `sync` are as `KeptVault` has them. The user's folders are those of this process,
    as it starts: what its environment says may be changed later.
    """

    #: Whether what is done is always done in this process.
    are_here = True

    def __init__(
        self,
        root: Path,
        notice: Callable[[str], None] | None = None,
        sync: Sync | None = None,
    ) -> None:
        self.root = root
        folders = find_user_folders(dict(os.environ))
        made: dict[str, tuple[object, Any]] = {}
        open_to_read = partial(KeptVault, root, folders, notice, True, made, sync)
        self._readers = _Crew(_READERS, open_to_read)
        self._patient = _Crew(1, open_to_read)
        self._writer = _Crew(1, lambda: KeptVault(root, folders, sync=sync))

    async def read(self, work: Work[Result], caller: Caller) -> Result:
        """Return what `work` makes of the vault, in sync."""
        return await asyncio.wrap_future(self.submit_read(work, caller))

    async def read_long(self, work: Work[Result], caller: Caller) -> Result:
        """Return what `work` makes of the vault where that may take minutes; one at a time.

        Whoever else reads does not wait for it.
        """
        return await asyncio.wrap_future(self.submit_long(work, caller))

    async def write(self, work: Work[Result], caller: Caller) -> Result:
        """Return what `work` did; one at a time, and each to its end once it has begun.

        Raises:
            RefusedError: this caller may only read.
        """
        return await asyncio.wrap_future(self.submit_write(work, caller))

    async def note_refusal(self, caller: Caller, operation: str, told: str) -> None:
        """Do nothing where a caller is refused an operation: here it is the user's own program."""

    def submit_read(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Have something read, as soon as a thread is free for it."""
        return self._readers.submit(work, caller)

    def submit_long(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Have something read that may take minutes, after what was asked so before."""
        return self._patient.submit(work, caller)

    def submit_write(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Have something written, after what was asked for before.

        Raises:
            RefusedError: this caller may only read.
        """
        if not caller.may_write:
            raise RefusedError("this connection only reads; start it without --read-only to write")
        return self._writer.submit(work, caller)

    def submit_close(self, caller: Caller) -> Future[None] | None:
        """Have the sessions of a caller's process closed; None if this caller has none to close."""
        if not caller.may_write:
            return None
        try:
            return self.submit_write(_close_sessions, caller)
        except RefusedError:  # The workers are closed already.
            return None

    def close(self) -> None:
        """Wait for what was asked for, and close the vault."""
        self._writer.close()
        self._readers.close()
        self._patient.close()


def _close_sessions(vault: Vault) -> None:
    from vaultmem.services.sessions.close import close_of_process

    close_of_process(vault)


class _Crew:
    """Threads that take what is asked in turn; each is started when it is needed first."""

    def __init__(self, size: int, make: Callable[[], KeptVault]) -> None:
        self._size = size
        self._make = make
        self._asked: SimpleQueue[tuple[Future[Any], Work[Any], Caller] | None] = SimpleQueue()
        self._pending = 0
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def submit(self, work: Work[Result], caller: Caller) -> Future[Result]:
        done: Future[Result] = Future()
        with self._lock:
            if self._is_closed:
                raise RefusedError("this server is ending; ask again when it has started anew")
            self._asked.put((done, work, caller))
            self._pending += 1
            if len(self._threads) < min(self._pending, self._size):
                self._threads.append(threading.Thread(target=self._serve, daemon=True))
                self._threads[-1].start()
        return done

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        for _ in self._threads:
            self._asked.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        vault = self._make()
        while (asked := self._asked.get()) is not None:
            done, work, caller = asked
            if done.set_running_or_notify_cancel():  # Else nobody waits for it any more.
                try:
                    done.set_result(vault.run(work, caller))
                except BaseException as error:  # noqa: BLE001  Whoever asked is told.
                    done.set_exception(error)
            del asked, done, work
            with self._lock:
                self._pending -= 1
        vault.let_go()
