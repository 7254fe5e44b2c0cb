"""What a keeper knows of a shard: how it was when it last answered, and whether it fails."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ray.exceptions import ActorDiedError, ActorUnschedulableError, RayError

from vaultmem.fleet.plan import VERSION, Health

#: For how many seconds a shard that fails keeps its vaults (a process is back after 2), and one
#: that is silent, which may be busy.
GRACE = 4.0
PATIENCE = 30.0


class KeptShard:
    """A shard, and what is known of it."""

    def __init__(self, name: str, node: str, actor: Any) -> None:
        self.name, self.node, self.actor = name, node, actor
        self.health: Health | None = None
        self.ready: frozenset[str] = frozenset()
        self.ready_mark = -1
        self.heard = time.monotonic()
        self.failed = 0.0
        self.restarts = 0
        self.is_in = False
        self.problem = ""

    async def look(self) -> None:
        """Ask how it is."""
        try:
            health = await asyncio.wait_for(self.actor.look.remote(self.ready_mark), PATIENCE)
        except (ActorDiedError, ActorUnschedulableError):
            raise
        except (RayError, TimeoutError) as error:
            self.failed = self.failed or time.monotonic()
            self.problem = type(error).__name__
            return
        if self.health and self.health.began != health.began:
            self.restarts += 1
            self.ready_mark, self.ready = -1, frozenset()
        if health.ready is not None:
            self.ready, self.ready_mark = health.ready, health.ready_mark
        self.node = health.node
        self.health, self.heard, self.failed = health, time.monotonic(), 0.0
        refused = "" if health.version == VERSION else f"it is vaultmem {health.version}"
        self.problem = refused

    @property
    def is_failing(self) -> bool:
        """Tell whether calls to it fail now."""
        return bool(self.failed)

    def can_be_in(self) -> bool:
        """Tell whether it is to have vaults."""
        if self.health is None or self.health.version != VERSION:
            return False
        if self.failed:
            return self.is_in and time.monotonic() - self.failed < GRACE
        return time.monotonic() - self.heard < PATIENCE
