"""The process of a hub: a port, the pool of its vaults, and an orderly end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from vaultmem.errors import BusyError, RefusedError
from vaultmem.hub.front import Front
from vaultmem.hub.gate import HubSite
from vaultmem.hub.pool_workers import HubPool
from vaultmem.hub.sweeping import Sweeper
from vaultmem.serve.async_thread import AsyncThread
from vaultmem.serve.http import Place, Port
from vaultmem.services.hub.folder import Hub
from vaultmem.services.pools.pool import Pool
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
