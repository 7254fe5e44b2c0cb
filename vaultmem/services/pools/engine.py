"""What runs a pool's work where its vaults are: threads of this process, or another engine's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from vaultmem.services.pools.shard import Shard
from vaultmem.services.pools.source import Source

T = TypeVar("T")
P = ParamSpec("P")

#: What is said of a vault whose answer was not there in time.
LATE = "no answer in time"


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
        self,
        shard: int,
        work: Callable[Concatenate[Shard, P], T],
        *args: P.args,
        **given: P.kwargs,
    ) -> Future[T]:
        """Have a function run in a shard, after what was asked of it before."""

    def submit_long(
        self,
        shard: int,
        work: Callable[Concatenate[Shard, P], T],
        *args: P.args,
        **given: P.kwargs,
    ) -> Future[T]:
        """Have a function run that may take minutes; what is asked otherwise does not wait."""

    def submit_write(
        self,
        shard: int,
        work: Callable[Concatenate[Shard, P], T],
        *args: P.args,
        **given: P.kwargs,
    ) -> Future[T]:
        """Have a function run that writes, after earlier writes of that shard; none read waits."""

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; clones of others that it had are removed."""

    def close(self) -> None:
        """End what runs, and close all vaults."""
