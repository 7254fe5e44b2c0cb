"""Shards in this process, each of three threads: for what is read, what takes long, and writes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from vaultmem.errors import NoteNotFoundError
from vaultmem.services.pools.engine import Way
from vaultmem.services.pools.opened import choose_most_open
from vaultmem.services.pools.shard import FRESH_FOR, MOST_OPEN, Shard
from vaultmem.services.pools.source import Source, check_sources

T = TypeVar("T")
Args = TypeVarTuple("Args")

#: Vaults that a thread beside that which reads keeps open.
_MOST_BESIDE = 16


class LocalShards:
    """An engine of threads over clones in one folder."""

    def __init__(
        self,
        sources: Sequence[Source],
        folder: Path,
        shards: int = 1,
        most_open: int = MOST_OPEN,
        fresh_for: float = FRESH_FOR,
    ) -> None:
        self.shards = shards
        self._sources: dict[str, Source] = {}
        self._owners: dict[str, int] = {}
        most = max(1, choose_most_open(most_open) // shards)
        few = partial(Shard, folder, _MOST_BESIDE, fresh_for)
        make = {Way.WRITE: few, Way.LONG: few, Way.READ: partial(Shard, folder, most, fresh_for)}
        self._threads = [{way: ShardThread(make[way]) for way in make} for _ in range(shards)]
        self.hold(sources)

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; clones of others that it had are removed."""
        self._sources = check_sources(sources)
        self._owners = {name: choose_shard(name, self.shards) for name in self._sources}
        for number in range(self.shards):
            own = [each for each in self._sources.values() if self._owners[each.name] == number]
            for each in self._threads[number].values():
                each.hold(own)

    @property
    def names(self) -> Sequence[str]:
        """All vaults, in the order of their sources."""
        return list(self._sources)

    def place(self, names: Sequence[str]) -> list[tuple[int, list[str]]]:
        """Return which shard answers for which of these vaults, each named once."""
        found: dict[int, list[str]] = {}
        for name in dict.fromkeys(names):
            if name not in self._owners:
                raise NoteNotFoundError(f"{name}: no vault of that name")
            found.setdefault(self._owners[name], []).append(name)
        return sorted(found.items())

    def submit(
        self, shard: int, work: Callable[[Shard, *Args], T], *args: *Args, way: Way = Way.READ
    ) -> Future[T]:
        """Have a function run in a shard, after what was asked of it before in the same way."""
        return self._threads[shard][way].submit(work, *args)

    def close(self) -> None:
        """Wait for what runs, and close all vaults."""
        for way in reversed(Way):
            for each in self._threads:
                each[way].close()


def choose_shard(name: str, shards: int) -> int:
    """Return which of so many shards a vault belongs to: few move where one comes or goes."""

    def weigh(shard: int) -> bytes:
        return hashlib.sha256(f"{shard} {name}".encode()).digest()

    return max(range(shards), key=weigh)


class ShardThread:
    """A thread with a shard of its own, made in it when it is first needed."""

    def __init__(self, make: Callable[[], Shard]) -> None:
        self._make = make
        self._wanted: Sequence[Source] = ()
        self._held: Sequence[Source] = self._wanted
        self._runs = ThreadPoolExecutor(1, "vaultmem-shard")
        self.shard: Shard | None = None

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults before what is asked from now on; who asks is told where that fails."""
        self._wanted = sources
        self._runs.submit(self._find_shard)

    def submit(self, work: Callable[[Shard, *Args], T], *args: *Args) -> Future[T]:
        """Have a function run by the shard's `serve`, after what was asked before."""
        return self._runs.submit(lambda: self._find_shard().serve(work, *args))

    def close(self) -> None:
        """Wait for what runs, and close what is open."""
        with contextlib.suppress(RuntimeError):  # It was closed before.
            self._runs.submit(self._close_shard)
        self._runs.shutdown(cancel_futures=False)

    def _close_shard(self) -> None:
        if self.shard is not None:
            self.shard.close()

    def _find_shard(self) -> Shard:
        if self.shard is None:
            self.shard = self._make()
        if (wanted := self._wanted) is not self._held:
            self.shard.hold(wanted)
            self._held = wanted
        return self.shard
