"""A question to vaults of a pool: each step is a call where the clones are, for many at once.

What goes there and comes back are plain values. A vault that is lost or late in any step ends the
attempt, and the question is asked again of the rest, so an answer is of the same vaults from its
first figure to its last text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, Protocol, TypeVar

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


class Part(NamedTuple):
    """What came of the vaults on one node, by name, and why others are missing."""

    found: dict[str, Any]
    missing: dict[str, str]


class CallsParts(Protocol):
    """What a pool does for a question."""

    def call_parts(
        self,
        given: Mapping[str, Sequence[Any]],
        work: Callable[..., Part],
        opening: Opening,
        *args: Any,
    ) -> list[Part]:
        """Call a function for some vaults, once for all that are in one place."""


class _First(NamedTuple):
    """What the first vault of a question says for all."""

    config: Config
    now: float
    viewed_at: float


class PoolVaults(VaultSet):
    """Some vaults of a pool, for one question; `missing` says why others have no part in it.

    The one vault of a set is called "", as in any set.
    """

    def __init__(
        self, pool: CallsParts, names: Sequence[str], settings: VaultSettings, seconds: float | None
    ) -> None:
        super().__init__(())
        if not names:
            raise RefusedError("there is no vault to be asked")
        self.missing: dict[str, str] = {}
        self._pool, self._wanted = pool, list(names)
        self._opening = Opening(settings, seconds)
        self._first: _First | None = None
        parts = pool.call_parts(dict.fromkeys(self._wanted, ()), bring_part, self._opening)
        self.leave_out({name: why for part in parts for name, why in part.missing.items()})

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
        given = (query, misspelt, is_alone)
        parts = self._ask(self._each(), count_part, *given)
        return add_statistics(each for part in parts for each in part.found.values())

    def search(
        self, query: RecallQuery, statistics: Statistics, depth: Depth, dense: Scorer | None = None
    ) -> list[tuple[str, list[Hit]]]:
        """Return the best hits of each vault."""
        found: dict[str, list[Hit]] = {}
        for part in self._ask(self._each(), search_part, query, statistics, depth):
            found |= part.found
        return [(name, found[name]) for name in self.names]

    def run(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[str, Sequence[Any]]
    ) -> dict[str, _T]:
        """Return the result of a function of a module for some vaults."""
        return self._order(self._ask(given, run_part, work))

    def keep(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[str, Sequence[Any]]
    ) -> dict[str, _T]:
        """Have some vaults store what was answered; one that is lost is left out."""
        return self._order(self._send(given, run_part, work))

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

    def _each(self) -> dict[str, Sequence[Any]]:
        return dict.fromkeys(self.names, ())

    def _order(self, parts: Sequence[Part]) -> dict[str, Any]:
        found = {name: each for part in parts for name, each in part.found.items()}
        return {name: found[name] for name in self.names if name in found}

    def _find_first(self) -> _First:
        if self._first is None:
            name = self.names[0]
            self._first = self.run(_describe_first, {name: ()})[name]
        return self._first

    def _ask(
        self, given: Mapping[str, Sequence[Any]], work: Callable[..., Part], *args: Any
    ) -> list[Part]:
        """Return what comes of some vaults, each with what is given for it.

        Raises:
            LostVaultsError: one did not answer.
        """
        parts = self._send(given, work, *args)
        if missing := {name: why for part in parts for name, why in part.missing.items()}:
            raise LostVaultsError(missing)
        return parts

    def _send(
        self, given: Mapping[str, Sequence[Any]], work: Callable[..., Part], *args: Any
    ) -> list[Part]:
        """Return what comes of some vaults, and why nothing does of others."""
        if not given:
            return []
        if len(self._wanted) == 1:
            given = dict(zip(self._wanted, given.values(), strict=True))
        parts = self._pool.call_parts(given, work, self._opening, *args)
        return [
            part._replace(found={self._name(name): each for name, each in part.found.items()})
            for part in parts
        ]

    def _name(self, name: str) -> str:
        return name if len(self._wanted) > 1 else ""


def map_part(
    clones: Clones,
    given: Mapping[str, Sequence[Any]],
    opening: Opening,
    work: Callable[Concatenate[Clones, str, ...], Any],
) -> Part:
    """Call a function for each of some vaults, several at once."""
    return Part(*clones.map(work, given, opening.seconds))


def bring_part(clones: Clones, given: Mapping[str, Sequence[Any]], opening: Opening) -> Part:
    """Follow the remotes of vaults that were not asked lately."""
    return Part({}, clones.bring_all(list(given), opening.seconds))


def count_part(
    clones: Clones,
    given: Mapping[str, Sequence[Any]],
    opening: Opening,
    query: RecallQuery,
    misspelt: Sequence[str],
    is_alone: bool,
) -> Part:
    """Count in some vaults; the figures of all are those of the first."""

    def work(vault: Vault, _: str) -> Statistics:
        return count(vault, query, misspelt, is_alone)

    part = _do_each(clones, given, opening, work)
    names = list(part.found)
    return part._replace(found={names[0]: add_statistics(part.found.values())} if names else {})


def search_part(
    clones: Clones,
    given: Mapping[str, Sequence[Any]],
    opening: Opening,
    query: RecallQuery,
    statistics: Statistics,
    depth: Depth,
) -> Part:
    """Search some vaults; a hit below so many others that were found already is not read."""
    search = SearchOfMany(query, statistics, depth)
    part = _do_each(clones, given, opening, lambda vault, _: search(vault))
    found = {
        name: [hit for hit in own if hit.score >= search.floor] for name, own in part.found.items()
    }
    return part._replace(found=found)


def run_part(
    clones: Clones,
    given: Mapping[str, Sequence[Any]],
    opening: Opening,
    work: Callable[Concatenate[Vault, ...], Any],
) -> Part:
    """Call a function of some vaults, each with arguments of its own."""
    return _do_each(clones, given, opening, lambda vault, name: work(vault, *given[name]))


def _do_each(
    clones: Clones,
    given: Mapping[str, Sequence[Any]],
    opening: Opening,
    work: Callable[[Vault, str], _T],
) -> Part:
    """Do something with some vaults, one after the other, within the time that there is.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: what is asked cannot be answered.
    """
    end = None if opening.seconds is None else time.monotonic() + opening.seconds
    part = Part({}, {})
    for name in given:
        if end is not None and time.monotonic() > end:
            part.missing[name] = LATE
            continue
        run = partial(_do_one, work=work, name=name, opening=opening)
        try:
            part.found[name] = clones.read(name, run, opening.settings, follows=False)
        except (NoteNotFoundError, RefusedError):
            raise
        except (VaultError, OSError) as error:
            part.missing[name] = str(name_failure(error))
    return part


def _do_one(vault: Vault, work: Callable[[Vault, str], _T], name: str, opening: Opening) -> _T:
    return work(look(vault, opening.at, opening.refs), name)


def _describe_first(vault: Vault) -> _First:
    sources = vault.view.sources
    now = vault.now()
    return _First(vault.config, now, sources[0].at if sources else now)
