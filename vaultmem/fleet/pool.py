"""A pool whose shards are in a cluster of Ray's."""

from __future__ import annotations

import os
from collections.abc import Sequence

from vaultmem.fleet.cluster import Cluster
from vaultmem.fleet.plan import Plan
from vaultmem.fleet.shards import RayShards
from vaultmem.services.pools.pool import Pool
from vaultmem.services.pools.source import Source


class RayPool(Pool):
    """A fleet: one that runs at an `address`, else one of this machine alone.

    What this starts ends with `close`: processes here, and a fleet in a cluster that had none,
    unless it `stays`. `shards` are so many on each machine at most.
    """

    def __init__(
        self,
        plan: Plan,
        sources: Sequence[Source] | None = None,
        address: str = "",
        stays: bool = False,
    ) -> None:
        self._cluster = Cluster(address, plan.most or os.cpu_count() or 1)
        try:
            self._ends = not stays and not _is_there()
            self.shards = RayShards(sources, plan)
        except BaseException:
            self._cluster.close()
            raise
        super().__init__(self.shards)

    def close(self) -> None:
        """Leave the fleet, or end it if it was started here."""
        try:
            self.shards.close()
            if self._ends:
                self.shards.stop()
        finally:
            self._cluster.close()


def _is_there() -> bool:
    import ray

    from vaultmem.fleet.plan import KEEPER, NAMESPACE

    named = ray.util.list_named_actors(all_namespaces=True)
    return {"name": KEEPER, "namespace": NAMESPACE} in named
