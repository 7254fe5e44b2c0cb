"""The pool of a hub: of each of its repositories a clone, which follows it."""

from __future__ import annotations

import threading
import time

from vaultmem.services.hub.folder import Hub
from vaultmem.services.hub.repositories import list_repositories
from vaultmem.services.pools.local import LocalShards
from vaultmem.services.pools.pool import Pool
from vaultmem.services.pools.source import Source

#: Seconds for which it is not looked again whether there are other repositories.
_PAUSE = 1.0

#: Seconds for which a clone counts as fresh: what is pushed is found so soon.
_FRESH = 0.5


class HubPool:
    """Finds the pool of the repositories that there are now."""

    def __init__(self, hub: Hub, shards: int) -> None:
        self._hub = hub
        self._shards = shards
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._sources: list[Source] = []
        self._looked = 0.0

    def find(self) -> Pool:
        """Return the pool; vaults that were added or taken out since are so there."""
        with self._lock:
            if self._pool is None or time.monotonic() - self._looked > _PAUSE:
                self._look()
            assert self._pool is not None  # noqa: S101
            return self._pool

    def close(self) -> None:
        """Wait for what runs, and close all vaults."""
        with self._lock:
            if self._pool is not None:
                self._pool.close()

    def _look(self) -> None:
        found = list_repositories(self._hub)
        sources = [Source(name, str(place)) for name, place in found.items()]
        if self._pool is None or sources != self._sources:
            before = self._pool
            folder = self._hub.folder / "pool"
            self._pool = Pool(LocalShards(sources, folder, self._shards, fresh_for=_FRESH))
            self._sources = sources
            if before is not None:  # It still does what it was asked for.
                threading.Thread(target=before.close, daemon=True).start()
        self._looked = time.monotonic()
