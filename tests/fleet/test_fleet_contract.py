"""What every pool promises, by a fleet on several machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pool_contract import MakePool, PoolContract, WriteContract, remotes, three

from vaultmem.services.pools.clone import Source
from vaultmem.services.pools.pool import Pool

__all__ = ["remotes", "three"]

pytestmark = [pytest.mark.fleet, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def fleet(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start a fleet that asks the remote whenever a vault is asked."""
    from vaultmem.fleet.pool import start_fleet

    folder = tmp_path_factory.mktemp("nodes")
    made = start_fleet(cluster.address, [], str(folder / "{node}"), fresh_for=0.0)
    yield made
    made.stop()
    made.close()


class TestFleet(PoolContract, WriteContract):
    @pytest.fixture
    def make_pool(self, fleet: Any, monkeypatch: pytest.MonkeyPatch) -> MakePool:
        """Return what gives the fleet other vaults; it goes on when a test closes it."""

        def make(sources: Sequence[Source], folder: Path, fresh_for: float = 5.0) -> Pool:
            fleet.hold([])
            fleet.hold(sources)
            monkeypatch.setattr(fleet, "close", lambda: None)
            pool: Pool = fleet
            return pool

        return make
