"""What every pool promises, by a fleet on several machines."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pool_contract import MakePool, PoolContract, WriteContract, remotes, three
from remote_vaults import Remotes, Told

from vaultmem.services.pools.pool import Pool
from vaultmem.services.pools.source import Source

__all__ = ["remotes", "three"]

pytestmark = [pytest.mark.fleet, pytest.mark.filterwarnings("default")]


#: How many notes each vault has that is not a test's own.
_EACH = 100


class OwnVaults(Pool):
    """The vaults of a test, of all that a fleet holds."""

    def __init__(self, shards: Any, own: Sequence[str]) -> None:
        super().__init__(shards)
        self._own = own

    @property
    def names(self) -> Sequence[str]:
        """The vaults that are asked if none is named."""
        return self._own


@pytest.fixture(scope="module", params=[0, pytest.param(1000, marks=pytest.mark.long)])
def others(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Source]:
    """Make the remotes of so many vaults that the fleet holds beside those of a test."""
    made, rng = Remotes(tmp_path_factory.mktemp("others") / "remotes"), random.Random(7)
    words = [f"word{number}" for number in range(2000)]
    for number in range(request.param):
        notes = {}
        for each in range(_EACH):
            text = " ".join(rng.choices(words, k=100))
            notes[f"notes/{each}.md"] = f"# Note {each}\n\n{text}\n"
        made.make(f"agent-{number:04}", Told("", notes, 1_800_000_000))
    return made.sources


@pytest.fixture(scope="module")
def fleet(
    cluster: Any, others: list[Source], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Start a fleet that asks the remote whenever a vault is asked alone."""
    from vaultmem.fleet.plan import Plan

    from vaultmem.fleet.pool import RayPool

    plan = Plan(str(tmp_path_factory.mktemp("shards")), fresh_for=0.0)
    made = RayPool(plan, others, cluster.address)
    made.shards.wait_ready(30 + len(others))
    yield made
    made.close()


class TestFleet(PoolContract, WriteContract):
    @pytest.fixture
    def make_pool(self, fleet: Any, others: list[Source]) -> MakePool:
        """Return what gives the fleet other vaults, as a second process would."""
        from vaultmem.fleet.shards import RayShards

        def make(sources: Sequence[Source], folder: Path, fresh_for: float = 5.0) -> Pool:
            shards = RayShards([*sources, *others])
            shards.wait_ready(30)
            return OwnVaults(shards, [source.name for source in sources])

        return make
