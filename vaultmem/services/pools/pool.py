"""A pool: many vaults by name, asked and written to wherever an engine has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar, TypeVarTuple

from vaultmem.core.packs.expectation import Expectation
from vaultmem.errors import RefusedError, VaultError, name_failure
from vaultmem.services.finding.ask import Answer, Ask, ask
from vaultmem.services.finding.ask_pack import AskPack, PackAnswer, ask_pack
from vaultmem.services.finding.judge import judge_vault
from vaultmem.services.pools.engine import LATE, Engine, Way
from vaultmem.services.pools.local import LocalShards
from vaultmem.services.pools.scatter import (
    Scattered,
    ask_scattered,
    pack_scattered,
    recall_scattered,
    tell_left_out,
)
from vaultmem.services.pools.shard import Shard, Work
from vaultmem.services.pools.source import Source
from vaultmem.services.pools.stats import VaultStats
from vaultmem.vault import Vault, VaultSettings

T = TypeVar("T")
Args = TypeVarTuple("Args")

#: Vaults that a shard is asked of at once, so that what is done counts where the rest is late.
_AT_ONCE = 25

_NOTHING: VaultSettings = {}

#: What came of some vaults of a shard, and of those of which nothing did, why.
_Some = tuple[dict[str, T], dict[str, str]]


class Each(NamedTuple, Generic[T]):
    """What came of each vault, and of those of which nothing did, why."""

    results: dict[str, T]
    missing: dict[str, str]


class PoolAnswer(NamedTuple):
    """An answer of several vaults, and why others have no part in it."""

    answer: Answer
    missing: dict[str, str]


class PoolPack(NamedTuple):
    """A pack of several vaults, and why others have no part in it."""

    answer: PackAnswer
    missing: dict[str, str]


class Pool:
    """Vaults by name, over an engine; works and settings have to pickle where the engine's do.

    Where several may be named, None stands for all.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def names(self) -> Sequence[str]:
        """All vaults, in the order of their sources."""
        return self.engine.names

    def run(
        self,
        name: str,
        work: Work[T],
        settings: VaultSettings = _NOTHING,
        takes_long: bool = False,
    ) -> Future[T]:
        """Have something read of a vault, in sync; nobody waits for what `takes_long` (minutes)."""
        shard = self.engine.place([name])[0][0]
        way = Way.LONG if takes_long else Way.READ
        return self.engine.submit(shard, Shard.read, name, work, settings, way=way)

    def write(
        self,
        name: str,
        work: Work[T],
        settings: VaultSettings = _NOTHING,
        identity: str = "",
        branch: str = "",
    ) -> Future[T]:
        """Have something written to a vault, as `Shard.write` does: done once its remote has it."""
        return self.write_by(Shard.write, name, work, settings, identity, branch, None)

    def write_by(
        self,
        write: Callable[[Shard, str, *Args], T],
        name: str,
        *args: *Args,
    ) -> Future[T]:
        """Have a function of a module do what `Shard.write` does, in the shard of a vault."""
        shard = self.engine.place([name])[0][0]
        return self.engine.submit(shard, write, name, *args, way=Way.WRITE)

    def refresh(
        self, names: Iterable[str] | None = None, seconds: float | None = None
    ) -> Each[str]:
        """Follow the remotes now, and index what is new; the results are commits of vaults."""
        return self._gather(names, _bring_each, (), seconds)

    def each(
        self,
        names: Iterable[str] | None,
        work: Work[T],
        settings: VaultSettings = _NOTHING,
        seconds: float | None = None,
    ) -> Each[T]:
        """Return what `work` makes of each of these vaults, within so many seconds."""
        return self._gather(names, _read_each, (work, settings), seconds)

    def recall(
        self,
        names: Iterable[str] | None,
        asked: Ask,
        settings: VaultSettings = _NOTHING,
        seconds: float | None = None,
    ) -> PoolAnswer:
        """Return what answers a question, of these vaults as of one.

        Raises:
            RefusedError: none are named.
            VaultError: none of them can be asked, or it is too late.
        """
        wanted = self._choose(names)
        over = partial(recall_scattered, asked=asked, settings=settings)
        alone = partial(_recall, asked=asked)
        answer, missing = self._ask(wanted, alone, over, asked, settings, seconds)
        return PoolAnswer(_name_vault(answer, wanted), missing)

    def pack(
        self,
        names: Iterable[str] | None,
        asked: AskPack,
        settings: VaultSettings = _NOTHING,
        seconds: float | None = None,
    ) -> PoolPack:
        """Return a pack for a question, of these vaults as of one.

        Raises:
            RefusedError: none are named.
            VaultError: none of them can be asked, or it is too late.
        """
        over = partial(pack_scattered, asked=asked, settings=settings)
        return PoolPack(
            *self._ask(names, partial(_pack, asked=asked), over, asked, settings, seconds)
        )

    def stats(
        self, names: Iterable[str] | None = None, seconds: float | None = None
    ) -> Each[VaultStats]:
        """Return how each vault is; no remote is asked."""
        return self._gather(names, _count_each, (), seconds)

    def check(
        self,
        names: Iterable[str] | None,
        expected: Expectation,
        settings: VaultSettings = _NOTHING,
        seconds: float | None = None,
    ) -> Each[list[str]]:
        """Return of each vault why its pack is not as expected, nothing if it is."""
        return self.each(names, partial(judge_vault, expected=expected), settings, seconds)

    def close(self) -> None:
        """Wait for what runs, and close all vaults."""
        self.engine.close()

    def _choose(self, names: Iterable[str] | None) -> list[str]:
        return list(self.names if names is None else dict.fromkeys(names))

    def _ask(
        self,
        names: Iterable[str] | None,
        alone: Callable[[Vault, Mapping[str, str]], T],
        over: Callable[[Scattered], T],
        asked: Ask | AskPack,
        settings: VaultSettings,
        seconds: float | None,
    ) -> tuple[T, dict[str, str]]:
        """Ask the shard that has all of these vaults, else the shards that do."""
        wanted = self._choose(names)
        if not wanted:
            raise RefusedError("there is no vault to be asked")
        placed = self.engine.place(wanted)
        if len(placed) > 1:
            look = asked.at, asked.refs
            return ask_scattered(self.engine, wanted, over, settings, seconds, *look)
        done = self.engine.submit(placed[0][0], _read_group, placed[0][1], alone, settings)
        try:
            return done.result(seconds)
        except TimeoutError:
            done.cancel()
            raise VaultError(LATE) from None

    def _gather(
        self,
        names: Iterable[str] | None,
        work: Callable[..., _Some[T]],
        given: tuple[object, ...],
        seconds: float | None,
    ) -> Each[T]:
        """Run something in each shard, for a few of its vaults at once."""
        asked = self._choose(names)
        end = None if seconds is None else time.monotonic() + seconds
        running = {
            self.engine.submit(shard, work, some, *given): some
            for shard, own in self.engine.place(asked)
            for some in _divide(own)
        }
        results: dict[str, T] = {}
        missing: dict[str, str] = {}
        wait(running, None if end is None else max(0.0, end - time.monotonic()))
        for done, some in running.items():
            if not done.done():
                done.cancel()
                missing |= dict.fromkeys(some, LATE)
                continue
            try:
                found, told = done.result()
            except (VaultError, OSError) as error:
                found, told = {}, dict.fromkeys(some, str(name_failure(error)))
            results |= found
            missing |= told
        return Each(_sort(results, asked), _sort(missing, asked))


class LocalPool(Pool):
    """A pool in this process: clones in a folder, and threads that have them open."""

    def __init__(self, sources: Sequence[Source], folder: Path, shards: int = 1) -> None:
        super().__init__(LocalShards(sources, folder, shards))


def _read_each(
    shard: Shard, names: Sequence[str], work: Work[T], settings: VaultSettings
) -> _Some[T]:
    shard.clones.bring_all(names)
    return _try_each(names, lambda name: shard.read(name, work, settings))


def _bring_each(shard: Shard, names: Sequence[str]) -> _Some[str]:
    def bring(name: str) -> str:
        fresh = shard.bring(name)
        if fresh.problem:
            raise VaultError(fresh.problem)
        return shard.read(name, lambda _: fresh.commit, _NOTHING)

    shard.clones.bring_all(names, anew=True)
    return _try_each(names, bring)


def _count_each(shard: Shard, names: Sequence[str]) -> _Some[VaultStats]:
    return shard.stats(names), {}


def _read_group(
    shard: Shard,
    names: Sequence[str],
    work: Callable[[Vault, Mapping[str, str]], T],
    settings: VaultSettings,
) -> tuple[T, dict[str, str]]:
    missing: dict[str, str] = {}
    vault = shard.group(names, settings, missing)
    return work(vault, missing), missing


def _recall(vault: Vault, _: Mapping[str, str], asked: Ask) -> Answer:
    return ask(vault, asked)


def _name_vault(answer: Answer, names: Sequence[str]) -> Answer:
    """Return an answer whose hits name their vault, also where one vault alone was asked."""
    if len(names) > 1:
        return answer
    hits = [hit._replace(vault=names[0]) for hit in answer.hits]
    shown = [(hit._replace(vault=names[0]), text) for hit, text in answer.shown]
    return answer._replace(hits=hits, shown=shown)


def _pack(vault: Vault, missing: Mapping[str, str], asked: AskPack) -> PackAnswer:
    return ask_pack(vault, tell_left_out(asked, missing))


def _try_each(names: Sequence[str], work: Callable[[str], T]) -> _Some[T]:
    results: dict[str, T] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            results[name] = work(name)
        except (VaultError, OSError) as error:
            missing[name] = str(name_failure(error))
    return results, missing


def _divide(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _AT_ONCE):
        yield names[start : start + _AT_ONCE]


def _sort(found: Mapping[str, T], names: Sequence[str]) -> dict[str, T]:
    return {name: found[name] for name in names if name in found}
