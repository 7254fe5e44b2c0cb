"""A question to vaults of a pool: each step is a call where the clones are, for many at once.

What goes there and comes back are plain values. A vault that is lost or late in any step ends the
attempt, and the question is asked again of the rest, so an answer is of the same vaults from its
first figure to its last text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, TypeVar

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.finding.weights import Statistics, add_statistics
from vaultmem.core.packs.division import tell_missing
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError, name_failure
from vaultmem.services.finding.score import Depth, Scorer
from vaultmem.services.finding.search import SearchOfMany, count
from vaultmem.services.finding.vault_set import (
    Models,
    TellProgress,
    VaultSet,
    look,
)
from vaultmem.services.pools.clones import LATE, Clones
from vaultmem.vault import Vault, VaultSettings

if TYPE_CHECKING:
    from vaultmem.config import Config

_T = TypeVar("_T")

_NO_VECTORS = "vaults of a pool are asked by words alone"


class Each(NamedTuple, Generic[_T]):
    """What came of each vault, and of those of which nothing did, why."""

    results: dict[str, _T]
    missing: dict[str, str]


class LostVaultsError(VaultError):
    """Vaults did not answer; `missing` says why."""

    def __init__(self, missing: Mapping[str, str]) -> None:
        super().__init__(" ".join(tell_missing(missing)))
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
        call: Callable[..., Each[Any]],
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
        self.leave_out(call(dict.fromkeys(self._wanted, ()), bring_part, self._opening).missing)

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
    ) -> Models:
        """Return what scores besides the words: a reranker, which reads here what was found."""
        wanted = self.config.semantic != "off" if semantic is None else semantic
        problem = _NO_VECTORS if wanted else ""
        if not waits or self.config.rerank == "off":
            return Models(problem=problem)
        from vaultmem.services.finding.rerank import ModelReranker

        environment = self._opening.settings.get("environment", {})
        return Models(problem=problem, reranker=ModelReranker(self.config, environment))

    def heal(self, read: Callable[[], _T]) -> _T:
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
        self, given: Mapping[str, Sequence[Any]], work: Callable[..., Each[Any]], *args: Any
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
        self, given: Mapping[str, Sequence[Any]], work: Callable[..., Each[Any]], *args: Any
    ) -> Each[Any]:
        """Return what comes of some vaults in the order of all, and why nothing does of others."""
        if not given:
            return Each({}, {})
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
) -> Each[Any]:
    """Call a function for each of some vaults, several at once."""
    return Each(*clones.map(work, given, opening.seconds))


def bring_part(clones: Clones, given: Mapping[str, Sequence[Any]], opening: Opening) -> Each[Any]:
    """Follow the remotes of vaults that were not asked lately."""
    return Each({}, clones.bring_all(list(given), opening.seconds))


def search_part(
    clones: Clones,
    given: Mapping[str, Sequence[Any]],
    opening: Opening,
    query: RecallQuery,
    statistics: Statistics,
    depth: Depth,
) -> Each[list[Hit]]:
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
) -> Each[_T]:
    """Call a function of some vaults, each with arguments of its own, one after the other.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: what is asked cannot be answered.
    """
    end = None if opening.seconds is None else time.monotonic() + opening.seconds
    found = Each[_T]({}, {})

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
            found.missing[name] = str(name_failure(error))
    return found


def _describe_first(vault: Vault) -> _First:
    sources = vault.view.sources
    now = vault.now()
    return _First(vault.config, now, sources[0].at if sources else now)
