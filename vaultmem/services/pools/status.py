"""How a pool is: its shards, how far they are, and which vaults are not there, with why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from vaultmem import __version__
from vaultmem.services.pools.pool import Pool


class ShardStatus(NamedTuple):
    """How a shard is: starting, filling (not all its vaults answer yet), ready, failing or refused.

    `backlog` are calls that wait or run; `stale` is for how many seconds that remote was not heard
    of which was not for longest. `restarts` counts its process's. `memory` is that process's,
    `disk` what its folder takes and `free` what is left beside it, in bytes; 0 where unknown.
    """

    name: str
    node: str
    state: str
    vaults: int = 0
    ready: int = 0
    backlog: int = 0
    stale: float = 0.0
    restarts: int = 0
    memory: int = 0
    disk: int = 0
    free: int = 0
    problem: str = ""


class PoolStatus(NamedTuple):
    """How a pool is; `problems` has, by vault, why it is not there or was not followed.

    `copied` are the vaults that two shards have, `lost` counts shards that went for good.
    """

    version: str
    vaults: int
    ready: int
    shards: tuple[ShardStatus, ...]
    problems: Mapping[str, str]
    copied: tuple[str, ...] = ()
    lost: int = 0


@runtime_checkable
class TellsStatus(Protocol):
    """An engine that knows more of its shards than their vaults' figures."""

    def status(self) -> PoolStatus:
        """Return how the pool is."""


def find_status(pool: Pool) -> PoolStatus:
    """Return how a pool is; one of this process as one shard, by what its folder has."""
    if isinstance(pool.engine, TellsStatus):
        return pool.engine.status()
    stats = pool.stats().results
    there = [each for each in stats.values() if each.commit]
    shard = ShardStatus(
        "here",
        "",
        "ready" if len(there) == len(stats) else "filling",
        vaults=len(stats),
        ready=len(there),
        stale=max((each.age for each in there), default=0.0),
        disk=sum(each.clone_bytes + each.index_bytes for each in there),
    )
    problems = {name: each.problem for name, each in stats.items() if each.problem}
    return PoolStatus(__version__, len(stats), len(there), (shard,), problems)
