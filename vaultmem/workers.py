"""Worker threads that hold an open vault for one caller at a time."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from vaultmem.environment import read_settings, scope_to_project
from vaultmem.errors import RefusedError
from vaultmem.services.vaults.companions import VaultPool, identify
from vaultmem.services.views.update_index import read_nonblocking
from vaultmem.services.watching.sync_hints import ChangeHints
from vaultmem.storage.lock import READER, WRITER
from vaultmem.vault import UserFolders, Vault, VaultSettings, find_user_folders, open_vault

_EMPTY_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


class HubPrincipal(NamedTuple):
    """A hub's caller: the name and the id of their token.

    `person` (`Name <mail>`) is the author of a person's commits. `branch` receives their writes, ""
    for the vault's own. `origin` is their address.
    """

    name: str
    id: str
    person: str = ""
    branch: str = ""
    origin: str = ""


class Caller(NamedTuple):
    """One connection and its permissions; this process's own settings are not used.

    `environment` has the caller's variables for opening a vault and for sessions. `folder` is the
    caller's folder, `pid` the process whose end closes its sessions, by default this one. A caller
    that `asks_others` is the local user, who can query other vaults too. `guest` is the hub's
    caller. `operation` is the name of the API operation or tool, "" for a page.
    """

    agent: str = ""
    session: str = ""
    ref: str = ""
    environment: Mapping[str, str] = _EMPTY_ENVIRONMENT
    folder: Path | None = None
    pid: int = 0
    may_write: bool = False
    asks_others: bool = False
    guest: HubPrincipal | None = None
    operation: str = ""

    def settings(self, folders: UserFolders) -> VaultSettings:
        """Return the settings for opening the vault for this caller, with this process's state."""
        settings = read_settings(self.agent, self.session, self.ref, self.environment)
        settings["folders"] = folders
        settings["here"], settings["scope"] = self.folder, scope_to_project
        settings["pid"] = self.pid or os.getpid()
        return settings


def shows_token(headers: Iterable[tuple[bytes, bytes]], token: str) -> bool:
    """Return whether the headers contain the token in exactly one Authorization header."""
    tokens = [value for name, value in headers if name == b"authorization"]
    return len(tokens) == 1 and hmac.compare_digest(tokens[0], b"Bearer " + token.encode("ascii"))


# A vault that stays open between requests, and reopens after it was moved, rebuilt or replaced.

Result = TypeVar("Result")

#: Updates the index from the files, for the thread whose vault it is given.
Sync = Callable[[Vault], None]

#: A function of the caller's vault: indexed, in the caller's name and on its branch.
Work = Callable[[Vault], Result]


class ThreadVault:
    """One open vault for one thread, because a database connection belongs to one thread.

    `sync` updates the index if another part of this process watches the folder. Otherwise this
    object watches it, and calls `notice` from another thread with each path that might have
    changed. A vault that `reads` waits for no writer. `made` caches results computed from all
    notes. Readers can share it; a writer has its own, because it sees changes before others do.
    """

    def __init__(
        self,
        root: Path,
        folders: UserFolders,
        notice: Callable[[str], None] | None = None,
        reads: bool = False,
        cache: dict[str, tuple[object, Any]] | None = None,
        sync: Sync | None = None,
    ) -> None:
        self._root = root
        self._folders = folders
        self._reads = reads
        self._patience = READER if reads else WRITER
        self._made = {} if cache is None else cache
        self._notice = notice
        self._sync = sync
        self._open: tuple[Vault, ChangeHints] | None = None
        self._others: VaultPool | None = None
        self._known: tuple[object, ...] = ()

    def run(self, work: Work[Result], caller: Caller) -> Result:
        """Return the result of `work` on the indexed vault."""
        own, hints = self._reopen()
        sync = self._sync or hints.sync
        settings = caller.settings(self._folders)
        settings["store"], settings["patience"] = own.store, self._patience
        vault = open_vault(**settings)
        if caller.asks_others:
            vault = replace(vault, opener=partial(self._open_other, caller))
        try:
            if self._reads:
                read_nonblocking(vault, sync)
            else:
                sync(vault)
            self._known = identify(vault)
            return work(in_session(_look(vault) if vault.ref else vault))
        except OSError:
            self._known = ()  # Files were removed while open: reopen next time.
            raise

    def _open_other(self, caller: Caller, path: str) -> Vault:
        """Open another vault for the same caller, without its ref and session."""
        if self._others is None:
            self._others = VaultPool(self._folders)
        asking = caller._replace(ref="", session="")
        return self._others.lend(open_vault(path, **asking.settings(self._folders)))

    def discard(self) -> None:
        """Close the vault and the others that were opened with it."""
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
        """Return the open vault, reopened if it was replaced."""
        if self._open is None or identify(self._open[0]) != self._known:
            self.discard()
            own = open_vault(self._root, folders=self._folders, patience=self._patience)
            own.state.made = self._made
            self._open = own, ChangeHints(own, self._notice)
        return self._open


def settle(_: Vault) -> None:
    """Do nothing: running it opens, indexes and watches the vault."""


def warm_up(_: Vault) -> None:
    """Import the search modules, so that the first query is faster."""
    import vaultmem.core.search.ranking
    import vaultmem.services.packs.build  # noqa: F401


def _look(vault: Vault) -> Vault:
    from vaultmem.services.views.open_view import view_at

    return view_at(vault)


def in_session(vault: Vault) -> Vault:
    """Return the vault for writing in its agent's open session, if there is one."""
    from vaultmem.services.sessions.edit_session import act_in
    from vaultmem.services.sessions.identify import identify_session

    if vault.author.session:
        return vault
    session = identify_session(vault).session
    return act_in(vault, session) if session else vault


# Threads that each have the vault open: one that writes, and some that read.
#
# A long write does not block readers. The number of open vaults does not grow with the callers.

#: Reader threads. Only one of them computes at a time; a slow query yields to the others.
_READERS = 2


class Workers:
    """The worker threads that run callers' requests on one vault.

    `notice` and `sync` are as in `ThreadVault`. The user's folders are read from the environment
    once, at the start.
    """

    #: Whether all work is done in this process.
    are_here = True

    def __init__(
        self,
        root: Path,
        notice: Callable[[str], None] | None = None,
        sync: Sync | None = None,
    ) -> None:
        self.root = root
        folders = find_user_folders(dict(os.environ))
        cache: dict[str, tuple[object, Any]] = {}
        open_to_read = partial(ThreadVault, root, folders, notice, True, cache, sync)
        self._readers = _Crew(_READERS, open_to_read)
        self._patient = _Crew(1, open_to_read)
        self._writer = _Crew(1, lambda: ThreadVault(root, folders, sync=sync))

    async def read(self, work: Work[Result], caller: Caller) -> Result:
        """Return the result of `work` on the indexed vault."""
        return await asyncio.wrap_future(self.submit_read(work, caller))

    async def read_long(self, work: Work[Result], caller: Caller) -> Result:
        """Return the result of a `work` that can take minutes; one runs at a time.

        Other readers do not wait for it.
        """
        return await asyncio.wrap_future(self.submit_long(work, caller))

    async def write(self, work: Work[Result], caller: Caller) -> Result:
        """Return the result of a `work` that writes; one runs at a time, always to its end.

        Raises:
            RefusedError: this caller may only read.
        """
        return await asyncio.wrap_future(self.submit_write(work, caller))

    async def note_refusal(self, caller: Caller, operation: str, reason: str) -> None:
        """Do nothing: here, a rejected caller is the user's own program."""

    def submit_read(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Queue a read; the next free reader thread runs it."""
        return self._readers.submit(work, caller)

    def submit_long(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Queue a read that can take minutes, after earlier ones."""
        return self._patient.submit(work, caller)

    def submit_write(self, work: Work[Result], caller: Caller) -> Future[Result]:
        """Queue a write, after earlier ones.

        Raises:
            RefusedError: this caller may only read.
        """
        if not caller.may_write:
            raise RefusedError("this connection only reads; start it without --read-only to write")
        return self._writer.submit(work, caller)

    def submit_close(self, caller: Caller, interrupted: bool = False) -> Future[None] | None:
        """Queue closing the sessions of a caller's process; None if the caller has none.

        `interrupted` is set if the caller did not end normally.
        """
        if not caller.may_write:
            return None
        try:
            return self.submit_write(partial(_close_sessions, interrupted=interrupted), caller)
        except RefusedError:  # The workers are closed already.
            return None

    def close(self) -> None:
        """Finish the queued work and close the vault."""
        self._writer.close()
        self._readers.close()
        self._patient.close()


def _close_sessions(vault: Vault, interrupted: bool) -> None:
    from vaultmem.services.sessions.close import close_of_process

    close_of_process(vault, interrupted)


class _Crew:
    """Threads that run queued work in order; each is started on first need."""

    def __init__(self, size: int, make: Callable[[], ThreadVault]) -> None:
        self._size = size
        self._make = make
        self._jobs: SimpleQueue[tuple[Future[Any], Work[Any], Caller] | None] = SimpleQueue()
        self._pending = 0
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def submit(self, work: Work[Result], caller: Caller) -> Future[Result]:
        future: Future[Result] = Future()
        with self._lock:
            if self._is_closed:
                raise RefusedError("this server is ending; ask again when it has started anew")
            self._jobs.put((future, work, caller))
            self._pending += 1
            if len(self._threads) < min(self._pending, self._size):
                self._threads.append(threading.Thread(target=self._serve, daemon=True))
                self._threads[-1].start()
        return future

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        vault = self._make()
        while (job := self._jobs.get()) is not None:
            future, work, caller = job
            if future.set_running_or_notify_cancel():  # Otherwise the work was cancelled.
                try:
                    future.set_result(vault.run(work, caller))
                except BaseException as error:  # noqa: BLE001  The caller receives it.
                    future.set_exception(error)
            del job, future, work
            with self._lock:
                self._pending -= 1
        vault.discard()
