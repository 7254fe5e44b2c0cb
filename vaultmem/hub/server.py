"""The process of a hub: a port, the pool of its vaults, removal of left locks, an orderly end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from vaultmem.errors import BusyError, RefusedError
from vaultmem.hub.front import Front
from vaultmem.hub.gate import HubSite
from vaultmem.hub.pool_workers import HubPool
from vaultmem.serve.async_thread import AsyncThread
from vaultmem.serve.http import Place, Port
from vaultmem.services.hub.folder import Hub
from vaultmem.services.hub.repositories import list_repositories
from vaultmem.services.pools.pool import Pool
from vaultmem.storage.atomic import drop_file
from vaultmem.storage.git.locks import PATIENCE, find_locks, is_git_at_work
from vaultmem.storage.git.locks import Place as GitPlace
from vaultmem.storage.lock import hold_lock
from vaultmem.web.site import Site, choose_shared

#: Seconds that pushes and answers that are under way have when the process ends.
_GRACE = 20

#: Seconds between two looks whether a signal came.
_LOOK = 1.0

#: Seconds for which a connection stays open between two requests: git thinks between them.
_KEEP_ALIVE = 75


class Served(NamedTuple):
    """How a hub or a fleet is served.

    Behind a proxy (`by_proxy`), browsers come by HTTPS, and what it says of addresses counts.
    """

    place: Place
    by_proxy: bool = False
    environment: Mapping[str, str] = {}


class HubServer:
    """A port at which a hub is served; nobody is answered before `start`."""

    def __init__(self, hub: Hub, served: Served) -> None:
        """Take the port.

        Raises:
            RefusedError: as `Port` does.
        """
        self._hub = hub
        self._ends = contextlib.ExitStack()
        self._asked = threading.Event()
        self._port = Port(served.place)
        names = frozenset({*self._port.hosts, *served.place.names})
        scheme = "https" if served.by_proxy else "http"
        shared = choose_shared(served.environment)
        site = Site(hub.folder, names, "", hub.folder, environment=shared, scheme=scheme)
        self._site = HubSite(site, served.by_proxy)
        self.port = self._port.port
        named = served.place.names[:1]
        self.address = f"{scheme}://{named[0]}" if named and served.by_proxy else self._port.address

    def start(
        self,
        find_pool: Callable[[], Pool] | None = None,
    ) -> None:
        """Begin to answer.

        Without `find_pool`, it is the pool of the hub's own repositories, and git is served too.

        Raises:
            RefusedError: another process serves this hub.
        """
        try:
            self._ends.enter_context(hold_lock(self._hub.folder / "serve.lock", 0.0))
        except BusyError:
            told = "another process serves this hub; end that one first"
            raise RefusedError(f"{self._hub.folder}: {told}") from None
        with_git = find_pool is None
        if find_pool is None:
            self._ends.callback(Sweeper(self._hub).stop)
            own = HubPool(self._hub)
            self._ends.callback(own.close)
            find_pool = own.find
        front = Front(self._hub, self._site, find_pool, with_git)
        talks = AsyncThread()
        self._ends.callback(talks.close)
        settings = {"timeout_graceful_shutdown": _GRACE, "timeout_keep_alive": _KEEP_ALIVE}
        self._port.answer_by(front, talks, **settings)
        self._ends.callback(self._port.close, _GRACE)
        self._ends.callback(lambda: talks.run(front.close()).result(_GRACE))

    def close(self) -> None:
        """Bring what is under way to its end, and answer nobody any more."""
        self._ends.close()

    def heed_signals(self) -> None:
        """Let SIGINT and SIGTERM end the wait, from now on; called in the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._asked.set())

    def wait(self) -> None:
        """Serve until a signal, and close."""
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            del os.environ[name]  # No thread may find another's git settings.
        self.heed_signals()
        try:
            while not self._asked.wait(_LOOK):  # A signal that another thread got wakes nobody.
                pass
        finally:
            self.close()


#: Seconds between two looks, or as many times as long as one takes, if that is more.
_PAUSE, _REST = 10.0, 100

#: What a push brings, while it is checked.
_INCOMING = "objects/*incoming-*"


class Sweeper:
    """Looks from time to time, in a thread of its own, until it is stopped."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            begun = time.monotonic()
            for repository in list_repositories(self._hub).values():
                sweep(repository, time.time())
            if self._ended.wait(max(_PAUSE, _REST * (time.monotonic() - begun))):
                return


def sweep(repository: Path, now: float) -> None:
    """Remove locks and half pushes of gits that are gone; of one that works, nothing is."""
    left = [file for file, age in find_locks(repository, now).items() if age > PATIENCE]
    incoming = [each for each in repository.glob(_INCOMING) if _age_of(each, now) > PATIENCE]
    if not (left or incoming) or is_git_at_work(GitPlace(repository, repository)):
        return
    for file in left:
        drop_file(file)
    for folder in incoming:
        shutil.rmtree(folder, ignore_errors=True)


def _age_of(folder: Path, now: float) -> float:
    try:
        return now - folder.lstat().st_mtime
    except OSError:
        return 0.0
