"""A pool: many vaults by name, queried and written wherever their clones are."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, TypeVar, TypeVarTuple, cast

from vaultmem.core.packs.vault_parts import describe_missing
from vaultmem.core.search.query import Hit, RecallQuery, Statistics, add_statistics
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError, wrap_os_error
from vaultmem.services.fleet.clone import PoolStatus, VaultSource, VaultStats, describe_pool
from vaultmem.services.fleet.clones import FRESH_SECONDS, TIMEOUT_REASON, Clones, Publish, Work
from vaultmem.services.packs.build import AskPack, PackAnswer, ask_pack
from vaultmem.services.search.run_query import Query, QueryResult, run_query
from vaultmem.services.search.score import Depth, Scorer
from vaultmem.services.search.search import MultiVaultSearch, count
from vaultmem.services.search.vault_set import ScoringModels, TellProgress, VaultSet, look
from vaultmem.vault import Vault, VaultSettings

if TYPE_CHECKING:
    from vaultmem.config import Config


# A query to vaults of a pool. Each step is one call to all vaults of a node, with plain values as
# arguments and results.
#
# If a vault is lost or late in any step, the query runs again without it. So all parts of an answer
# come from the same vaults.

_T = TypeVar("_T")

_NO_VECTORS = "vaults of a pool are asked by words alone"


class PerVaultResults(NamedTuple, Generic[_T]):
    """Results by vault, and the reasons why others have none."""

    results: dict[str, _T]
    missing: dict[str, str]


class LostVaultsError(VaultError):
    """Vaults did not answer; `missing` has the reasons."""

    def __init__(self, missing: Mapping[str, str]) -> None:
        super().__init__(" ".join(describe_missing(missing)))
        self.missing = missing


class Opening(NamedTuple):
    """Options for opening the vaults of a query: settings, time limit, commit and refs."""

    settings: VaultSettings
    seconds: float | None = None
    at: str = ""
    refs: tuple[str, ...] = ()


class _First(NamedTuple):
    """Settings and times of a query, from its first vault."""

    config: Config
    now: float
    viewed_at: float


class PoolVaults(VaultSet):
    """The vaults of a pool for one query; `missing` has the reasons why others are left out.

    `call` is the pool's `call_parts`. A single vault has the name "", as in any `VaultSet`.
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
        self._call, self._vault_names = call, list(names)
        self._opening = Opening(settings, seconds)
        self._first: _First | None = None
        self.leave_out(
            call(dict.fromkeys(self._vault_names, ()), fetch_part, self._opening).missing
        )

    @property
    def names(self) -> Sequence[str]:
        """The names of the vaults."""
        return [self._name(name) for name in self._vault_names if name not in self.missing]

    @property
    def config(self) -> Config:
        """The settings of the first vault."""
        return self._find_first().config

    def now(self) -> float:
        """Return the time by the first vault's clock."""
        return self._find_first().now

    @property
    def viewed_at(self) -> float:
        """The time of the viewed commit, else the present, in seconds since the epoch."""
        return self._find_first().viewed_at

    def view(
        self, at: str = "", refs: Sequence[str] = (), progress: TellProgress | None = None
    ) -> VaultSet:
        """View the vaults at a ref or date from now on."""
        self._opening = self._opening._replace(at=at, refs=tuple(refs))
        self._first = None
        return self

    def open_models(
        self, semantic: bool | None, waits: bool, progress: TellProgress | None = None
    ) -> ScoringModels:
        """Return the scoring models: only a reranker, which runs in this process."""
        is_semantic = self.config.semantic != "off" if semantic is None else semantic
        problem = _NO_VECTORS if is_semantic else ""
        if not waits or self.config.rerank == "off":
            return ScoringModels(problem=problem)
        from vaultmem.services.search.rerank import ModelReranker

        environment = self._opening.settings.get("environment", {})
        return ScoringModels(problem=problem, reranker=ModelReranker(self.config, environment))

    def read_with_rebuild(self, read: Callable[[], _T]) -> _T:
        """Return the result of a read; damaged clones are repaired by their node."""
        return read()

    def count(
        self, query: RecallQuery, misspelt: Sequence[str] = (), is_alone: bool = False
    ) -> Statistics:
        """Return the sum of the vaults' statistics."""
        arguments = dict.fromkeys(self.names, (query, misspelt, is_alone))
        return add_statistics(self.run(count, arguments).values())

    def search(
        self, query: RecallQuery, statistics: Statistics, depth: Depth, dense: Scorer | None = None
    ) -> list[tuple[str, list[Hit]]]:
        """Return the best hits of each vault."""
        arguments = dict.fromkeys(self.names, ())
        hits = self._ask(arguments, search_part, query, statistics, depth)
        return [*hits.items()]

    def run(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[str, Sequence[Any]]
    ) -> dict[str, _T]:
        """Return the result of a module-level function for each given vault."""
        return self._ask(given, run_part, work)

    def keep(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[str, Sequence[Any]]
    ) -> dict[str, _T]:
        """Store an answer's data in some vaults; vaults that do not answer are ignored."""
        return self._send(given, run_part, work).results

    def leave_out(self, missing: Mapping[str, str]) -> None:
        """Exclude some vaults from the query.

        Raises:
            LostVaultsError: none is left.
        """
        reasons = {**self.missing, **missing}
        self.missing = {name: reasons[name] for name in self._vault_names if name in reasons}
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
        arguments: Mapping[str, Sequence[Any]],
        work: Callable[..., PerVaultResults[Any]],
        *args: Any,
    ) -> dict[str, Any]:
        """Call `work` for some vaults, each with its own arguments.

        Raises:
            LostVaultsError: a vault did not answer.
        """
        answer = self._send(arguments, work, *args)
        if answer.missing:
            raise LostVaultsError(answer.missing)
        return answer.results

    def _send(
        self,
        arguments: Mapping[str, Sequence[Any]],
        work: Callable[..., PerVaultResults[Any]],
        *args: Any,
    ) -> PerVaultResults[Any]:
        """Return the results in the order of all vaults, and why others have none."""
        if not arguments:
            return PerVaultResults({}, {})
        requests = {
            name: arguments[label]
            for name in self._vault_names
            if (label := self._name(name)) in arguments
        }
        answer = self._call(requests, work, self._opening, *args)
        return answer._replace(
            results={self._name(name): each for name, each in answer.results.items()}
        )

    def _name(self, name: str) -> str:
        return name if len(self._vault_names) > 1 else ""


def map_part(
    clones: Clones,
    arguments: Mapping[str, Sequence[Any]],
    opening: Opening,
    work: Callable[Concatenate[Clones, str, ...], Any],
) -> PerVaultResults[Any]:
    """Call a function for each of some vaults, several at once."""
    return PerVaultResults(*clones.map(work, arguments, opening.seconds))


def fetch_part(
    clones: Clones, arguments: Mapping[str, Sequence[Any]], opening: Opening
) -> PerVaultResults[Any]:
    """Fetch from remotes that were not asked recently."""
    return PerVaultResults({}, clones.fetch_all(list(arguments), opening.seconds))


def search_part(
    clones: Clones,
    arguments: Mapping[str, Sequence[Any]],
    opening: Opening,
    query: RecallQuery,
    statistics: Statistics,
    depth: Depth,
) -> PerVaultResults[list[Hit]]:
    """Search some vaults; drop hits below the score floor of all."""
    search = MultiVaultSearch(query, statistics, depth)
    answer = run_part(clones, arguments, opening, search)
    best_hits = {
        name: [hit for hit in hits if hit.score >= search.floor]
        for name, hits in answer.results.items()
    }
    return answer._replace(results=best_hits)


def run_part(
    clones: Clones,
    arguments: Mapping[str, Sequence[Any]],
    opening: Opening,
    work: Callable[Concatenate[Vault, ...], _T],
) -> PerVaultResults[_T]:
    """Call a function for some vaults, each with its own arguments, one after the other.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: the query is invalid.
    """
    end = None if opening.seconds is None else time.monotonic() + opening.seconds
    answer = PerVaultResults[_T]({}, {})

    def run_one(vault: Vault) -> _T:
        return work(look(vault, opening.at, opening.refs), *arguments[vault.name])

    for name in arguments:
        if end is not None and time.monotonic() > end:
            answer.missing[name] = TIMEOUT_REASON
            continue
        try:
            answer.results[name] = clones.read(name, run_one, opening.settings, follows=False)
        except (NoteNotFoundError, RefusedError):
            raise
        except (VaultError, OSError) as error:
            answer.missing[name] = str(wrap_os_error(error))
    return answer


def _describe_first(vault: Vault) -> _First:
    sources = vault.view.sources
    now = vault.now()
    return _First(vault.config, now, sources[0].at if sources else now)


T = TypeVar("T")
Args = TypeVarTuple("Args")

_NO_SETTINGS: VaultSettings = {}


class Lane(StrEnum):
    """Thread pools for reads, long reads (minutes) and writes, so that none blocks another."""

    READ = "read"
    LONG = "long"
    WRITE = "write"


#: Threads of each lane. Only one computes at a time in Python; the others wait for remotes.
THREADS = {Lane.READ: 8, Lane.LONG: 2, Lane.WRITE: 8}


class PoolAnswer(NamedTuple, Generic[T]):
    """An answer or pack from several vaults, and the reasons why others are left out."""

    answer: T
    missing: dict[str, str]


class Pool(ABC):
    """Vaults by name; for a fleet, functions and their results must pickle.

    If a method takes several names, None means all vaults.
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
        """Call a module-level function on the node that has the clone of a vault.

        Raises:
            NoteNotFoundError: there is no such vault.
        """

    @abstractmethod
    def call_parts(
        self,
        arguments: Mapping[str, Sequence[Any]],
        work: Callable[..., PerVaultResults[T]],
        opening: Opening,
        *args: Any,
    ) -> PerVaultResults[T]:
        """Call a function for some vaults, once for each node that has some.

        It gets the clones, the arguments by vault, `opening` and `args`. Results have the order of
        `arguments`.

        Raises:
            NoteNotFoundError: there is no such vault.
        """

    @abstractmethod
    def status(self) -> PoolStatus:
        """Return the status of the pool, without asking remotes."""

    @abstractmethod
    def close(self) -> None:
        """Wait for running work, and close all vaults."""

    def map(
        self,
        work: Callable[Concatenate[Clones, str, ...], T],
        arguments: Mapping[str, Sequence[Any]],
        seconds: float | None = None,
    ) -> PerVaultResults[T]:
        """Call a function for each of some vaults with its arguments, within `seconds`.

        Raises:
            NoteNotFoundError: there is no such vault.
        """
        answer = self.call_parts(arguments, map_part, Opening(_NO_SETTINGS, seconds), work)
        return cast("PerVaultResults[T]", answer)

    def run(
        self,
        name: str,
        work: Work[T],
        settings: VaultSettings = _NO_SETTINGS,
        takes_long: bool = False,
    ) -> Future[T]:
        """Run a read on an up-to-date vault; one that `takes_long` (minutes) blocks no other."""
        lane = Lane.LONG if takes_long else Lane.READ
        return self.submit(name, Clones.read, work, settings, takes_long, lane=lane)

    def write(
        self,
        name: str,
        work: Work[T],
        settings: VaultSettings = _NO_SETTINGS,
        identity: str = "",
        branch: str = "",
        publish: Publish | None = None,
    ) -> Future[T]:
        """Run a write as `Clones.write` does; it is done when the vault's remote has it."""
        arguments = (work, settings, identity, branch, publish)
        return self.submit(name, Clones.write, *arguments, lane=Lane.WRITE)

    def each(
        self,
        names: Iterable[str] | None,
        work: Work[T],
        settings: VaultSettings = _NO_SETTINGS,
        seconds: float | None = None,
    ) -> PerVaultResults[T]:
        """Return the result of `work` for each of these vaults, within `seconds`."""
        arguments = dict.fromkeys(self._choose(names), (work, settings))
        return self.map(Clones.read, arguments, seconds)

    def refresh(
        self, names: Iterable[str] | None = None, seconds: float | None = None
    ) -> PerVaultResults[str]:
        """Fetch from the remotes now, and update indexes; the results are the vaults' commits."""
        return self.map(_refresh, dict.fromkeys(self._choose(names), ()), seconds)

    def stats(
        self, names: Iterable[str] | None = None, seconds: float | None = None
    ) -> PerVaultResults[VaultStats]:
        """Return the stats of each vault, without asking remotes."""
        return self.map(Clones.stats, dict.fromkeys(self._choose(names), ()), seconds)

    def recall(
        self,
        names: Iterable[str] | None,
        query: Query,
        settings: VaultSettings = _NO_SETTINGS,
        seconds: float | None = None,
    ) -> PoolAnswer[QueryResult]:
        """Return the hits of a query over these vaults.

        Raises:
            RefusedError: no vaults are named.
            VaultError: no vault answered in time.
        """
        vault_names = self._choose(names)
        vaults = PoolVaults(self.call_parts, vault_names, settings, seconds)
        answer = _ask_all(vaults, lambda: run_query(vaults, query))
        if len(vault_names) == 1:
            answer = answer._replace(
                hits=[hit._replace(vault=vault_names[0]) for hit in answer.hits],
                shown=[(hit._replace(vault=vault_names[0]), text) for hit, text in answer.shown],
            )
        return PoolAnswer(answer, vaults.missing)

    def pack(
        self,
        names: Iterable[str] | None,
        request: AskPack,
        settings: VaultSettings = _NO_SETTINGS,
        seconds: float | None = None,
    ) -> PoolAnswer[PackAnswer]:
        """Return a context pack from these vaults; it names those that are missing.

        Raises:
            RefusedError: no vaults are named.
            VaultError: no vault answered in time.
        """
        vaults = PoolVaults(self.call_parts, self._choose(names), settings, seconds)

        def ask() -> PackAnswer:
            messages = (*request.notices, *describe_missing(vaults.missing))
            return ask_pack(vaults, request._replace(notices=messages))

        return PoolAnswer(_ask_all(vaults, ask), vaults.missing)

    def _choose(self, names: Iterable[str] | None) -> list[str]:
        return list(self.names if names is None else dict.fromkeys(names))


class LocalPool(Pool):
    """A pool in this process: clones in a folder, and threads that use them."""

    def __init__(
        self, sources: Sequence[VaultSource], folder: Path, fresh_for: float = FRESH_SECONDS
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
        """Replace the vaults of the pool; clones of other vaults are removed."""
        self.clones.hold(sources)

    def submit(
        self,
        name: str,
        work: Callable[[Clones, str, *Args], T],
        *args: *Args,
        lane: Lane = Lane.READ,
    ) -> Future[T]:
        """Call a function in a thread, with the clones and the name of a vault."""
        self.clones.find(name)
        return self._lanes[lane].submit(work, self.clones, name, *args)

    def call_parts(
        self,
        arguments: Mapping[str, Sequence[Any]],
        work: Callable[..., PerVaultResults[T]],
        opening: Opening,
        *args: Any,
    ) -> PerVaultResults[T]:
        """Call a function for some vaults together, in this thread."""
        for name in arguments:
            self.clones.find(name)
        return work(self.clones, arguments, opening, *args)

    def status(self) -> PoolStatus:
        """Return the status of the pool, without asking remotes."""
        return describe_pool(self.names, [self.clones.describe()])

    def close(self) -> None:
        """Wait for running work, and close all vaults."""
        for each in self._lanes.values():
            each.shutdown()
        self.clones.close()


def _ask_all(vaults: PoolVaults, ask: Callable[[], T]) -> T:
    """Return the result of a query; repeat it without vaults that were lost."""
    while True:
        try:
            return ask()
        except LostVaultsError as error:
            vaults.leave_out(error.missing)


def _refresh(clones: Clones, name: str) -> str:
    record = clones.fetch_clone(name, anew=True)
    if record.problem:
        raise VaultError(record.problem)
    with clones.open(name):
        return record.commit
