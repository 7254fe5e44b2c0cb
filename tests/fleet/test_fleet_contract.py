"""What every pool promises, by a fleet on several machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pool_contract import MakePool, PoolContract, WriteContract, remotes, three

from vaultmem.services.fleet.clone import VaultSource
from vaultmem.services.fleet.pool import Pool

__all__ = ["remotes", "three"]

pytestmark = [pytest.mark.fleet, pytest.mark.filterwarnings("default")]


class TestFleet(PoolContract, WriteContract):
    @pytest.fixture
    def make_pool(self, cluster: Any) -> MakePool:
        """Return what starts a fleet of some vaults, in place of the one before."""
        from vaultmem.ray_fleet.ray_pool import start_fleet

        def make(sources: Sequence[VaultSource], folder: Path, fresh_for: float = 5.0) -> Pool:
            return start_fleet(cluster.address, sources, str(folder / "{node}"), fresh_for)

        return make
