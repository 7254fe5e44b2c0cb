"""A shard that reads what is brought to its folder, and knows what it is asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from vaultmem.errors import VaultError
from vaultmem.fleet.bringing import Bringer, SharedClones
from vaultmem.fleet.plan import NOT_YET, Plan
from vaultmem.services.pools.clone import Clone, Freshness
from vaultmem.services.pools.opened import choose_most_open
from vaultmem.services.pools.shard import Shard
from vaultmem.vault import UserFolders, Vault, VaultSettings

T = TypeVar("T")
Args = TypeVarTuple("Args")

#: Seconds in which what was asked counts half.
_HALF = 120.0


class BroughtClones(SharedClones):
    """Clones that a Bringer brings: read as they are, so that nobody waits for another's remote."""

    def __init__(
        self, folder: Path, folders: UserFolders, fresh_for: float, bringer: Bringer
    ) -> None:
        super().__init__(folder, folders, fresh_for, time.time)
        self._bringer = bringer

    def find(self, name: str) -> Clone:
        """Return a vault's clone.

        Raises:
            VaultError: it is not there yet.
        """
        if name not in self._clones:
            raise VaultError(NOT_YET)
        return super().find(name)

    def tell_problem(self, name: str) -> str:
        """Return why a vault has no clone."""
        return self._bringer.problems.get(name, NOT_YET)

    def bring(self, name: str, anew: bool = False) -> Freshness:
        """Return how fresh a clone is; follow its remote only `anew`.

        Raises:
            VaultError: it is not there.
        """
        if (record := self.find(name).record) is None:
            raise VaultError(self.tell_problem(name))
        return super().bring(name, anew) if anew else record.freshness

    def bring_all(self, names: Collection[str], anew: bool = False) -> None:
        """Leave that to who does it all the while; follow remotes `anew` where that is wanted."""
        if anew:
            super().bring_all([name for name in names if name in self._clones], anew)


class AskedShard(Shard):
    """Reads what is there, and counts which vaults are asked."""

    def __init__(self, folder: Path, plan: Plan, bringer: Bringer) -> None:
        super().__init__(folder, choose_most_open(plan.most_open), plan.fresh_for)
        self.clones = BroughtClones(self.folder, self._folders, plan.fresh_for, bringer)
        self._asked: list[str] = []
        self.heat: dict[str, tuple[float, float]] = {}

    def serve(self, work: Callable[[Shard, *Args], T], *args: *Args) -> T:
        """Return what a function makes of the shard, and count which vaults it asked."""
        self._asked = []
        try:
            return super().serve(work, *args)
        finally:
            now = time.monotonic()
            for name in self._asked:
                self.heat[name] = find_heat(self.heat.get(name), now) + 1 / len(self._asked), now

    def open(self, name: str, settings: VaultSettings) -> Vault:
        """Return a vault, in sync with its clone."""
        self._asked.append(name)
        return super().open(name, settings)


def find_heat(known: tuple[float, float] | None, now: float) -> float:
    """Return what is left at a time of how often a vault was asked."""
    return known[0] * 0.5 ** ((now - known[1]) / _HALF) if known else 0.0
