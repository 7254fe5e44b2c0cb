"""The pool of a hub: of each of its repositories a clone, which follows it."""

from __future__ import annotations

import threading
import time

from vaultmem.services.hub.folder import Hub
from vaultmem.services.hub.repositories import list_repositories
from vaultmem.services.pools.pool import LocalPool, Pool
from vaultmem.services.pools.source import Source

#: Seconds for which it is not looked again whether there are other repositories.
_PAUSE = 1.0

#: Seconds for which a clone counts as fresh: what is pushed is found so soon.
_FRESH = 0.5


class HubPool:
    """Finds the pool of the repositories that there are now."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._sources = self._list()
        self._looked = time.monotonic()
        self._pool = LocalPool(self._sources, hub.folder / "pool", _FRESH)

    def find(self) -> Pool:
        """Return the pool; vaults that were added or taken out are soon so there."""
        with self._lock:
            if time.monotonic() - self._looked > _PAUSE:
                self._looked = time.monotonic()
                found = self._list()
                if found != self._sources:
                    self._sources = found
                    self._pool.hold(found)
        return self._pool

    def close(self) -> None:
        """Wait for what runs, and close all vaults."""
        self._pool.close()

    def _list(self) -> list[Source]:
        found = list_repositories(self._hub)
        return [Source(name, str(place)) for name, place in found.items()]
