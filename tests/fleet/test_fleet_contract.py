"""What every pool promises, by a fleet on several machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pool_contract import MakePool, PoolContract, WriteContract, remotes, three

from vaultmem.services.pools.pool import Pool
from vaultmem.services.pools.source import Source

__all__ = ["remotes", "three"]

pytestmark = [pytest.mark.fleet, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def fleet(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start a fleet that asks the remote whenever a vault is asked alone."""
    from vaultmem.fleet.plan import Plan
    from vaultmem.fleet.pool import RayPool

    made = RayPool(Plan(str(tmp_path_factory.mktemp("shards")), fresh_for=0.0), [], cluster.address)
    yield made
    made.close()


class TestFleet(PoolContract, WriteContract):
    @pytest.fixture
    def make_pool(self, fleet: Any) -> MakePool:
        """Return what gives the fleet other vaults, as a second process would."""
        from vaultmem.fleet.shards import RayShards

        def make(sources: Sequence[Source], folder: Path, fresh_for: float = 5.0) -> Pool:
            shards = RayShards(sources)
            shards.wait_ready(30)
            return Pool(shards)

        return make
