"""What runs a pool's work where its vaults are: threads of this process, or another engine's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import Protocol, TypeVar, TypeVarTuple

from vaultmem.services.pools.shard import Shard
from vaultmem.services.pools.source import Source

T = TypeVar("T")
Args = TypeVarTuple("Args")

#: What is said of a vault whose answer was not there in time.
LATE = "no answer in time"


class Way(Enum):
    """How a call runs: with other reads, beside them for it may take minutes, or as a write."""

    READ = 0
    LONG = 1
    WRITE = 2


class Engine(Protocol):
    """Shards by number, and what is to run in each.

    What goes to a shard and comes back from it has to pickle; a function is one of a module. It is
    run by `Shard.serve`.
    """

    @property
    def names(self) -> Sequence[str]:
        """All vaults, in the order of their sources."""

    @property
    def shards(self) -> int:
        """How many shards there are."""

    def place(self, names: Sequence[str]) -> list[tuple[int, list[str]]]:
        """Return which shard answers for which of these vaults, each named once.

        Raises:
            NoteNotFoundError: there is no such vault.
        """

    def submit(
        self, shard: int, work: Callable[[Shard, *Args], T], *args: *Args, way: Way = Way.READ
    ) -> Future[T]:
        """Have a function run in a shard, after what was asked of it before in the same way.

        Of what is written, the first of `args` is the vault's name.
        """

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; clones of others that it had are removed."""

    def close(self) -> None:
        """End what runs, and close all vaults."""
