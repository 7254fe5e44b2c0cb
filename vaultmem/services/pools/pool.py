"""A pool: many vaults by name, asked and written to wherever their clones are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Any, Concatenate, Generic, NamedTuple, TypeVar, TypeVarTuple, cast

from vaultmem.core.packs.division import tell_missing
from vaultmem.errors import VaultError
from vaultmem.services.finding.ask import Ask, QueryResult, run_query
from vaultmem.services.finding.pack import AskPack, PackAnswer, ask_pack
from vaultmem.services.pools.clone import Source
from vaultmem.services.pools.clones import FRESH_FOR, Clones, Publish, Work
from vaultmem.services.pools.question import (
    Each,
    LostVaultsError,
    Opening,
    PoolVaults,
    map_part,
)
from vaultmem.services.pools.status import PoolStatus, VaultStats, describe_pool
from vaultmem.vault import VaultSettings

T = TypeVar("T")
Args = TypeVarTuple("Args")

_NOTHING: VaultSettings = {}


class Lane(StrEnum):
    """Which threads run something: what is read, what takes minutes to read, and what is written.

    So neither keeps the others waiting.
    """

    READ = "read"
    LONG = "long"
    WRITE = "write"


#: Threads of each lane. Python computes in one of them at a time; the others wait for remotes.
THREADS = {Lane.READ: 8, Lane.LONG: 2, Lane.WRITE: 8}


class PoolAnswer(NamedTuple, Generic[T]):
    """An answer or a pack of several vaults, and why others have no part in it."""

    answer: T
    missing: dict[str, str]


class Pool(ABC):
    """Vaults by name; what is done with them, and what that returns, has to pickle for a fleet.

    Where several may be named, None stands for all.
    """

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """All vaults, in the order of their sources."""

    @abstractmethod
    def submit(
        self,
        name: str,
        work: Callable[[Clones, str, *Args], T],
        *args: *Args,
        lane: Lane = Lane.READ,
    ) -> Future[T]:
        """Have a function of a module called where the clone of a vault is.

        Raises:
            NoteNotFoundError: there is no such vault.
        """

    @abstractmethod
    def call_parts(
        self,
        given: Mapping[str, Sequence[Any]],
        work: Callable[..., Each[T]],
        opening: Opening,
        *args: Any,
    ) -> Each[T]:
        """Call a function for some vaults, once for all that are in one place.

        It is given the clones, the vaults by name with what is given for each, and the rest. What
        comes of them is in the order of the vaults.

        Raises:
            NoteNotFoundError: there is no such vault.
        """

    @abstractmethod
    def status(self) -> PoolStatus:
        """Return how the pool is; no remote is asked."""

    @abstractmethod
    def close(self) -> None:
        """Wait for what runs, and close all vaults."""

    def map(
        self,
        work: Callable[Concatenate[Clones, str, ...], T],
        given: Mapping[str, Sequence[Any]],
        seconds: float | None = None,
    ) -> Each[T]:
        """Call a function for each of some vaults with what is given for it, within some seconds.

        Raises:
            NoteNotFoundError: there is no such vault.
        """
        found = self.call_parts(given, map_part, Opening(_NOTHING, seconds), work)
        return cast("Each[T]", found)

    def run(
        self,
        name: str,
        work: Work[T],
        settings: VaultSettings = _NOTHING,
        takes_long: bool = False,
    ) -> Future[T]:
        """Have something read of a vault, in sync; nobody waits for what `takes_long` (minutes)."""
        lane = Lane.LONG if takes_long else Lane.READ
        return self.submit(name, Clones.read, work, settings, takes_long, lane=lane)

    def write(
        self,
        name: str,
        work: Work[T],
        settings: VaultSettings = _NOTHING,
        identity: str = "",
        branch: str = "",
        publish: Publish | None = None,
    ) -> Future[T]:
        """Have something written to a vault, as `Clones.write` does: until its remote has it."""
        given = (work, settings, identity, branch, None, publish)
        return self.submit(name, Clones.write, *given, lane=Lane.WRITE)

    def each(
        self,
        names: Iterable[str] | None,
        work: Work[T],
        settings: VaultSettings = _NOTHING,
        seconds: float | None = None,
    ) -> Each[T]:
        """Return what `work` makes of each of these vaults, within so many seconds."""
        given = dict.fromkeys(self._choose(names), (work, settings))
        return self.map(Clones.read, given, seconds)

    def refresh(
        self, names: Iterable[str] | None = None, seconds: float | None = None
    ) -> Each[str]:
        """Follow the remotes now, and index what is new; the results are commits of vaults."""
        return self.map(_refresh, dict.fromkeys(self._choose(names), ()), seconds)

    def stats(
        self, names: Iterable[str] | None = None, seconds: float | None = None
    ) -> Each[VaultStats]:
        """Return how each vault is; no remote is asked."""
        return self.map(Clones.stats, dict.fromkeys(self._choose(names), ()), seconds)

    def recall(
        self,
        names: Iterable[str] | None,
        asked: Ask,
        settings: VaultSettings = _NOTHING,
        seconds: float | None = None,
    ) -> PoolAnswer[QueryResult]:
        """Return what answers a question in these vaults.

        Raises:
            RefusedError: none are named.
            VaultError: none of them can be asked, or it is too late.
        """
        wanted = self._choose(names)
        vaults = PoolVaults(self.call_parts, wanted, settings, seconds)
        answer = _ask_all(vaults, lambda: run_query(vaults, asked))
        if len(wanted) == 1:
            answer = answer._replace(
                hits=[hit._replace(vault=wanted[0]) for hit in answer.hits],
                shown=[(hit._replace(vault=wanted[0]), text) for hit, text in answer.shown],
            )
        return PoolAnswer(answer, vaults.missing)

    def pack(
        self,
        names: Iterable[str] | None,
        asked: AskPack,
        settings: VaultSettings = _NOTHING,
        seconds: float | None = None,
    ) -> PoolAnswer[PackAnswer]:
        """Return a pack for a question, of these vaults; it names those that are missing.

        Raises:
            RefusedError: none are named.
            VaultError: none of them can be asked, or it is too late.
        """
        vaults = PoolVaults(self.call_parts, self._choose(names), settings, seconds)

        def ask() -> PackAnswer:
            told = (*asked.told, *tell_missing(vaults.missing))
            return ask_pack(vaults, asked._replace(told=told))

        return PoolAnswer(_ask_all(vaults, ask), vaults.missing)

    def _choose(self, names: Iterable[str] | None) -> list[str]:
        return list(self.names if names is None else dict.fromkeys(names))


class LocalPool(Pool):
    """A pool in this process: clones in a folder, and threads that use them."""

    def __init__(
        self, sources: Sequence[Source], folder: Path, fresh_for: float = FRESH_FOR
    ) -> None:
        self.clones = Clones(folder, sources, fresh_for)
        self._lanes = {
            lane: ThreadPoolExecutor(count, f"vaultmem-{lane}") for lane, count in THREADS.items()
        }

    @property
    def names(self) -> Sequence[str]:
        """All vaults, in the order of their sources."""
        return self.clones.names

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; clones of others that it had are removed."""
        self.clones.hold(sources)

    def submit(
        self,
        name: str,
        work: Callable[[Clones, str, *Args], T],
        *args: *Args,
        lane: Lane = Lane.READ,
    ) -> Future[T]:
        """Have a function called in a thread, with the clones and the name of a vault."""
        self.clones.find(name)
        return self._lanes[lane].submit(work, self.clones, name, *args)

    def call_parts(
        self,
        given: Mapping[str, Sequence[Any]],
        work: Callable[..., Each[T]],
        opening: Opening,
        *args: Any,
    ) -> Each[T]:
        """Call a function for some vaults together, in this thread."""
        for name in given:
            self.clones.find(name)
        return work(self.clones, given, opening, *args)

    def status(self) -> PoolStatus:
        """Return how the pool is; no remote is asked."""
        return describe_pool(self.names, [self.clones.describe()])

    def close(self) -> None:
        """Wait for what runs, and close all vaults."""
        for each in self._lanes.values():
            each.shutdown()
        self.clones.close()


def _ask_all(vaults: PoolVaults, ask: Callable[[], T]) -> T:
    """Return what is asked of some vaults; again of the rest, where some of them are lost."""
    while True:
        try:
            return ask()
        except LostVaultsError as lost:
            vaults.leave_out(lost.missing)


def _refresh(clones: Clones, name: str) -> str:
    fresh = clones.bring(name, anew=True)
    if fresh.problem:
        raise VaultError(fresh.problem)
    with clones.open(name):
        return fresh.commit
