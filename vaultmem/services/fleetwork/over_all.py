"""Do something with each of many vaults: a few at a time, and what is done is kept as it comes."""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from types import MappingProxyType
from typing import Any, NamedTuple

import vaultmem
from vaultmem.core.json_values import as_plain
from vaultmem.errors import VaultError, name_failure
from vaultmem.services.pools.engine import LATE, Way
from vaultmem.services.pools.pool import Pool
from vaultmem.services.pools.shard import Shard
from vaultmem.storage.kept_work import KeptWork
from vaultmem.vault import Vault, VaultSettings

#: Changes whenever a work returns something else, as this package's version does.
_FORMAT = 1

#: Vaults that a shard is asked for at once, the one at work among them: it is never idle, and what
#: waits is never much.
_AHEAD = 2

#: What is said of a vault to which its shard does not get.
_BEHIND = "not asked: its shard is still busy with "

_NOTHING: VaultSettings = {}
_NOWHERE: Mapping[str, str] = MappingProxyType({})


class Work(NamedTuple):
    """What is to be done with many vaults.

    `make` returns for each a function that pickles, and returns what JSON has. `given` is what all
    results hang on besides the vaults, `own` what that of each does, where they are asked for
    different things.
    """

    name: str
    make: Callable[[str], Callable[[Vault], Any]]
    given: object = ()
    own: Callable[[str], object] = lambda _: ()

    @property
    def key(self) -> str:
        """What names it with all that its results hang on, this version's rules among it."""
        return f"{self.name} {_digest([vaultmem.__version__, _FORMAT, self.given])}"


def do_same(name: str, run: Callable[[Vault], Any], *given: object) -> Work:
    """Return a work that asks all vaults for the same."""
    return Work(name, lambda _: run, given)


class Terms(NamedTuple):
    """How work over many vaults is done: where it is kept, how long a vault may take (seconds).

    With `again`, what was kept does not count. `tell` makes what is told how many are done, of how
    many, given what is done.
    """

    kept: KeptWork
    seconds: float = 120.0
    again: bool = False
    settings: VaultSettings = _NOTHING
    tell: Callable[[str], Callable[[int, int], None]] = lambda _: lambda done, total: None


class Gathered(NamedTuple):
    """Which vaults are done, at which commit, how many of them only now, and why others are not.

    `behind` says why some may be older than their remotes are.
    """

    key: str
    kept: KeptWork
    done: dict[str, str]
    asked: int
    missing: dict[str, str]
    behind: dict[str, str]

    def read(self, name: str) -> Any:
        """Return what was made of a vault."""
        return self.kept.read(self.key, name)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the vaults that are done with what was made of each, one after the other."""
        for name in self.done:
            yield name, self.read(name)


class Ran(NamedTuple):
    """At which commit a vault is, and what was made of it; nothing where that is known."""

    commit: str
    problem: str
    is_known: bool
    value: Any = None


def over_all(
    pool: Pool,
    names: Iterable[str],
    terms: Terms,
    work: Work,
    commits: Mapping[str, str] = _NOWHERE,
) -> Gathered:
    """Do a work with each of these vaults, or with all.

    What is at the commit at which that was done before is not asked for it; where `commits` say
    where a vault is, not even for that. A vault that takes too long is named, and so are those
    behind it where its shard does not get to them in as long again. What is done stays done,
    however this ends.

    Raises:
        NoteNotFoundError: there is no such vault.
    """
    wanted = list(dict.fromkeys(names)) or list(pool.names)
    if terms.again:
        terms.kept.forget(work.key)
    return _Round(pool, wanted, terms, work, commits).run()


class _Asked(NamedTuple):
    """A vault that a shard was asked for: since when it may be at work."""

    name: str
    mark: str
    future: Future[Ran]


class _Round:
    """One work over all: what waits for each shard, what it has, and what came of it."""

    def __init__(
        self,
        pool: Pool,
        names: list[str],
        terms: Terms,
        work: Work,
        commits: Mapping[str, str],
    ) -> None:
        self._pool, self._names, self._terms, self._work = pool, names, terms, work
        self._stands = terms.kept.list_stands(work.key)
        self._done = {name: commits[name] for name in names if self._is_known(name, commits)}
        placed = pool.engine.place([name for name in names if name not in self._done])
        self._waiting = {shard: deque(own) for shard, own in placed}
        self._asked: dict[int, deque[_Asked]] = {shard: deque() for shard, _ in placed}
        self._since: dict[int, float] = {}
        self._fresh = 0
        self._missing: dict[str, str] = {}
        self._behind: dict[str, str] = {}
        self._tell = terms.tell(work.name)

    def run(self) -> Gathered:
        if not self._waiting:
            self._tell(len(self._names), len(self._names))
        try:
            while any(self._waiting.values()) or any(self._asked.values()):
                self._fill()
                self._wait()
        finally:
            for each in self._list_asked():
                each.future.cancel()
        done = {name: self._done[name] for name in self._names if name in self._done}
        lacking = {name: self._missing[name] for name in self._names if name in self._missing}
        parts = (self._fresh, lacking, self._behind)
        return Gathered(self._work.key, self._terms.kept, done, *parts)

    def _list_asked(self) -> list[_Asked]:
        return [each for asked in self._asked.values() for each in asked]

    def _fill(self) -> None:
        for shard, waiting in self._waiting.items():
            asked = self._asked[shard]
            while waiting and len(asked) < _AHEAD:
                if not asked:
                    self._since[shard] = time.monotonic()
                asked.append(self._ask(shard, waiting.popleft()))

    def _mark(self, name: str) -> str:
        own = self._work.own(name)
        return _digest(own) if own else ""

    def _is_known(self, name: str, commits: Mapping[str, str]) -> bool:
        return self._stands.get(name) == f"{commits.get(name)} {self._mark(name)}"

    def _ask(self, shard: int, name: str) -> _Asked:
        mark = self._mark(name)
        commit, _, kept = self._stands.get(name, "").partition(" ")
        known = commit if kept == mark else ""
        given = (name, self._work.make(name), known, self._terms.settings)
        done = self._pool.engine.submit(shard, run_unless_known, *given, way=Way.LONG)
        return _Asked(name, mark, done)

    def _wait(self) -> None:
        now = time.monotonic()
        ends = [self._since[shard] + self._terms.seconds for shard, a in self._asked.items() if a]
        futures = [each.future for each in self._list_asked()]
        wait(futures, max(0.0, min(ends) - now), FIRST_COMPLETED)
        for shard, asked in self._asked.items():
            while asked and asked[0].future.done():
                self._take(asked.popleft())
                self._since[shard] = time.monotonic()
            if asked and time.monotonic() - self._since[shard] >= self._terms.seconds:
                self._give_up(shard, asked)
        self._tell(len(self._done) + len(self._missing), len(self._names))

    def _take(self, asked: _Asked) -> None:
        kept = self._terms.kept
        try:
            ran = asked.future.result()
            if not ran.is_known:
                kept.keep(self._work.key, asked.name, f"{ran.commit} {asked.mark}", ran.value)
        except (VaultError, OSError) as error:
            self._missing[asked.name] = str(name_failure(error))
            return
        self._missing.pop(asked.name, None)  # Late, and here all the same.
        self._fresh += not ran.is_known
        self._done[asked.name] = ran.commit
        if ran.problem:
            self._behind[asked.name] = ran.problem

    def _give_up(self, shard: int, asked: deque[_Asked]) -> None:
        """Name the vault at work, or where that does not end at all what waits behind it too."""
        late = asked[0]
        if late.name not in self._missing:
            self._missing[late.name] = f"{LATE} ({self._terms.seconds:g} s)"
            self._since[shard] = time.monotonic()
            if len(asked) > 1 or self._waiting[shard]:
                return
        rest = [*(each.name for each in asked), *self._waiting[shard]]
        for name in rest:
            self._missing.setdefault(name, f"{_BEHIND}{late.name}")
        for each in asked:
            each.future.cancel()
        asked.clear()
        self._waiting[shard].clear()


def run_unless_known(
    shard: Shard, name: str, run: Callable[[Vault], Any], known: str, settings: VaultSettings
) -> Ran:
    """Return what a function makes of a vault, unless it is still at the commit that is known.

    Raises:
        VaultError: it cannot be had, or not be read.
    """
    fresh = shard.bring(name)
    if fresh.commit == known:
        return Ran(fresh.commit, fresh.problem, True)
    return Ran(fresh.commit, fresh.problem, False, as_plain(shard.read(name, run, settings)))


def _digest(value: object) -> str:
    told = json.dumps(as_plain(value), separators=(",", ":"))
    return hashlib.sha256(told.encode()).hexdigest()[:16]
