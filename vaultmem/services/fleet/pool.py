"""A pool: many vaults by name, queried and written wherever their clones are."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, TypeVar, TypeVarTuple, cast

from vaultmem.core.packs.division import describe_missing
from vaultmem.core.search.query import Hit, RecallQuery, Statistics, add_statistics
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError, wrap_os_error
from vaultmem.services.fleet.clone import PoolStatus, VaultSource, VaultStats, describe_pool
from vaultmem.services.fleet.clones import FRESH_FOR, LATE, Clones, Publish, Work
from vaultmem.services.packs.build import AskPack, PackAnswer, ask_pack
from vaultmem.services.search.run_query import Query, QueryResult, run_query
from vaultmem.services.search.score import Depth, Scorer
from vaultmem.services.search.search import SearchOfMany, count
from vaultmem.services.search.vault_set import ScoringModels, TellProgress, VaultSet, look
from vaultmem.vault import Vault, VaultSettings

if TYPE_CHECKING:
    from vaultmem.config import Config


# A question to vaults of a pool: each step is a call where the clones are, for many at once.
#
# What goes there and comes back are plain values. A vault that is lost or late in any step ends
# the attempt, and the question is asked again of the rest, so an answer is of the same vaults
# from its first figure to its last text.

_T = TypeVar("_T")

_NO_VECTORS = "vaults of a pool are asked by words alone"


class PerVaultResults(NamedTuple, Generic[_T]):
    """What came of each vault, and of those of which nothing did, why."""

    results: dict[str, _T]
    missing: dict[str, str]


class LostVaultsError(VaultError):
    """Vaults did not answer; `missing` says why."""

    def __init__(self, missing: Mapping[str, str]) -> None:
        super().__init__(" ".join(describe_missing(missing)))
        self.missing = missing


class Opening(NamedTuple):
    """How the vaults of a question are opened: for whom, at what, and within how many seconds."""

    settings: VaultSettings
    seconds: float | None = None
    at: str = ""
    refs: tuple[str, ...] = ()


class _First(NamedTuple):
    """What the first vault of a question says for all."""

    config: Config
    now: float
    viewed_at: float


class PoolVaults(VaultSet):
    """Some vaults of a pool, for one question; `missing` says why others have no part in it.

    `call` is the pool's `call_parts`. The one vault of a set is called "", as in any set.
    """

    def __init__(
        self,
        call: Callable[..., PerVaultResults[Any]],
        names: Sequence[str],
        settings: VaultSettings,
        seconds: float | None,
    ) -> None:
        super().__init__(())
        if not names:
            raise RefusedError("there is no vault to be asked")
        self.missing: dict[str, str] = {}
        self._call, self._wanted = call, list(names)
        self._opening = Opening(settings, seconds)
        self._first: _First | None = None
        self.leave_out(call(dict.fromkeys(self._wanted, ()), fetch_part, self._opening).missing)

    @property
    def names(self) -> Sequence[str]:
        """The names of the vaults."""
        return [self._name(name) for name in self._wanted if name not in self.missing]

    @property
    def config(self) -> Config:
        """The settings of the first vault."""
        return self._find_first().config

    def now(self) -> float:
        """Return the time by the first vault's clock."""
        return self._find_first().now

    @property
    def viewed_at(self) -> float:
        """The time of the commit that is viewed, else the present, in seconds since the epoch."""
        return self._find_first().viewed_at

    def view(
        self, at: str = "", refs: Sequence[str] = (), progress: TellProgress | None = None
    ) -> VaultSet:
        """Have the vaults looked at as a ref or date has them, from now on."""
        self._opening = self._opening._replace(at=at, refs=tuple(refs))
        self._first = None
        return self

    def open_models(
        self, semantic: bool | None, waits: bool, progress: TellProgress | None = None
    ) -> ScoringModels:
        """Return what scores besides the words: a reranker, which reads here what was found."""
        wanted = self.config.semantic != "off" if semantic is None else semantic
        problem = _NO_VECTORS if wanted else ""
        if not waits or self.config.rerank == "off":
            return ScoringModels(problem=problem)
        from vaultmem.services.search.rerank import ModelReranker

        environment = self._opening.settings.get("environment", {})
        return ScoringModels(problem=problem, reranker=ModelReranker(self.config, environment))

    def read_with_rebuild(self, read: Callable[[], _T]) -> _T:
        """Return the result of a read: each clone is repaired where it is."""
        return read()

    def count(
        self, query: RecallQuery, misspelt: Sequence[str] = (), is_alone: bool = False
    ) -> Statistics:
        """Return the sum of the vaults' figures."""
        given = dict.fromkeys(self.names, (query, misspelt, is_alone))
        return add_statistics(self.run(count, given).values())

    def search(
        self, query: RecallQuery, statistics: Statistics, depth: Depth, dense: Scorer | None = None
    ) -> list[tuple[str, list[Hit]]]:
        """Return the best hits of each vault."""
        given = dict.fromkeys(self.names, ())
        found = self._ask(given, search_part, query, statistics, depth)
        return [*found.items()]

    def run(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[str, Sequence[Any]]
    ) -> dict[str, _T]:
        """Return the result of a function of a module for some vaults."""
        return self._ask(given, run_part, work)

    def keep(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[str, Sequence[Any]]
    ) -> dict[str, _T]:
        """Have some vaults store what was answered; one that is lost is left out."""
        return self._send(given, run_part, work).results

    def leave_out(self, missing: Mapping[str, str]) -> None:
        """Ask some vaults no more.

        Raises:
            LostVaultsError: none is left.
        """
        told = {**self.missing, **missing}
        self.missing = {name: told[name] for name in self._wanted if name in told}
        self._first = None
        if not self.names:
            raise LostVaultsError(self.missing)

    def _find_first(self) -> _First:
        if self._first is None:
            name = self.names[0]
            self._first = self.run(_describe_first, {name: ()})[name]
        return self._first

    def _ask(
        self,
        given: Mapping[str, Sequence[Any]],
        work: Callable[..., PerVaultResults[Any]],
        *args: Any,
    ) -> dict[str, Any]:
        """Return what comes of some vaults, each with what is given for it.

        Raises:
            LostVaultsError: one did not answer.
        """
        found = self._send(given, work, *args)
        if found.missing:
            raise LostVaultsError(found.missing)
        return found.results

    def _send(
        self,
        given: Mapping[str, Sequence[Any]],
        work: Callable[..., PerVaultResults[Any]],
        *args: Any,
    ) -> PerVaultResults[Any]:
        """Return what comes of some vaults in the order of all, and why nothing does of others."""
        if not given:
            return PerVaultResults({}, {})
        asked = {name: given[own] for name in self._wanted if (own := self._name(name)) in given}
        found = self._call(asked, work, self._opening, *args)
        return found._replace(
            results={self._name(name): each for name, each in found.results.items()}
        )

    def _name(self, name: str) -> str:
        return name if len(self._wanted) > 1 else ""


def map_part(
    clones: Clones,
    given: Mapping[str, Sequence[Any]],
    opening: Opening,
    work: Callable[Concatenate[Clones, str, ...], Any],
) -> PerVaultResults[Any]:
    """Call a function for each of some vaults, several at once."""
    return PerVaultResults(*clones.map(work, given, opening.seconds))


def fetch_part(
    clones: Clones, given: Mapping[str, Sequence[Any]], opening: Opening
) -> PerVaultResults[Any]:
    """Follow the remotes of vaults that were not asked lately."""
    return PerVaultResults({}, clones.fetch_all(list(given), opening.seconds))


def search_part(
    clones: Clones,
    given: Mapping[str, Sequence[Any]],
    opening: Opening,
    query: RecallQuery,
    statistics: Statistics,
    depth: Depth,
) -> PerVaultResults[list[Hit]]:
    """Search some vaults; a hit below so many others that were found already is not read."""
    search = SearchOfMany(query, statistics, depth)
    found = run_part(clones, given, opening, search)
    kept = {
        name: [hit for hit in own if hit.score >= search.floor]
        for name, own in found.results.items()
    }
    return found._replace(results=kept)


def run_part(
    clones: Clones,
    given: Mapping[str, Sequence[Any]],
    opening: Opening,
    work: Callable[Concatenate[Vault, ...], _T],
) -> PerVaultResults[_T]:
    """Call a function of some vaults, each with arguments of its own, one after the other.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: what is asked cannot be answered.
    """
    end = None if opening.seconds is None else time.monotonic() + opening.seconds
    found = PerVaultResults[_T]({}, {})

    def run_one(vault: Vault) -> _T:
        return work(look(vault, opening.at, opening.refs), *given[vault.name])

    for name in given:
        if end is not None and time.monotonic() > end:
            found.missing[name] = LATE
            continue
        try:
            found.results[name] = clones.read(name, run_one, opening.settings, follows=False)
        except (NoteNotFoundError, RefusedError):
            raise
        except (VaultError, OSError) as error:
            found.missing[name] = str(wrap_os_error(error))
    return found


def _describe_first(vault: Vault) -> _First:
    sources = vault.view.sources
    now = vault.now()
    return _First(vault.config, now, sources[0].at if sources else now)


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
        work: Callable[..., PerVaultResults[T]],
        opening: Opening,
        *args: Any,
    ) -> PerVaultResults[T]:
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
    ) -> PerVaultResults[T]:
        """Call a function for each of some vaults with what is given for it, within some seconds.

        Raises:
            NoteNotFoundError: there is no such vault.
        """
        found = self.call_parts(given, map_part, Opening(_NOTHING, seconds), work)
        return cast("PerVaultResults[T]", found)

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
        given = (work, settings, identity, branch, publish)
        return self.submit(name, Clones.write, *given, lane=Lane.WRITE)

    def each(
        self,
        names: Iterable[str] | None,
        work: Work[T],
        settings: VaultSettings = _NOTHING,
        seconds: float | None = None,
    ) -> PerVaultResults[T]:
        """Return what `work` makes of each of these vaults, within so many seconds."""
        given = dict.fromkeys(self._choose(names), (work, settings))
        return self.map(Clones.read, given, seconds)

    def refresh(
        self, names: Iterable[str] | None = None, seconds: float | None = None
    ) -> PerVaultResults[str]:
        """Follow the remotes now, and index what is new; the results are commits of vaults."""
        return self.map(_refresh, dict.fromkeys(self._choose(names), ()), seconds)

    def stats(
        self, names: Iterable[str] | None = None, seconds: float | None = None
    ) -> PerVaultResults[VaultStats]:
        """Return how each vault is; no remote is asked."""
        return self.map(Clones.stats, dict.fromkeys(self._choose(names), ()), seconds)

    def recall(
        self,
        names: Iterable[str] | None,
        asked: Query,
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
            told = (*asked.told, *describe_missing(vaults.missing))
            return ask_pack(vaults, asked._replace(told=told))

        return PoolAnswer(_ask_all(vaults, ask), vaults.missing)

    def _choose(self, names: Iterable[str] | None) -> list[str]:
        return list(self.names if names is None else dict.fromkeys(names))


class LocalPool(Pool):
    """A pool in this process: clones in a folder, and threads that use them."""

    def __init__(
        self, sources: Sequence[VaultSource], folder: Path, fresh_for: float = FRESH_FOR
    ) -> None:
        self.clones = Clones(folder, sources, fresh_for)
        self._lanes = {
            lane: ThreadPoolExecutor(count, f"vaultmem-{lane}") for lane, count in THREADS.items()
        }

    @property
    def names(self) -> Sequence[str]:
        """All vaults, in the order of their sources."""
        return self.clones.names

    def hold(self, sources: Sequence[VaultSource]) -> None:
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
        work: Callable[..., PerVaultResults[T]],
        opening: Opening,
        *args: Any,
    ) -> PerVaultResults[T]:
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
    fresh = clones.fetch_clone(name, anew=True)
    if fresh.problem:
        raise VaultError(fresh.problem)
    with clones.open(name):
        return fresh.commit
