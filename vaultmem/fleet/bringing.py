"""Has a shard's vaults cloned, indexed and followed, by threads of its own; what is asked first.

And the shard that reads what is brought to its folder, and knows what it is asked.
"""

from __future__ import annotations

import contextlib
import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from vaultmem.errors import VaultError, name_failure
from vaultmem.fleet.plan import NOT_YET, Plan
from vaultmem.services.pools.clone import Clone, Freshness
from vaultmem.services.pools.clones import Clones
from vaultmem.services.pools.opened import choose_most_open
from vaultmem.services.pools.shard import Shard
from vaultmem.services.pools.source import Source, check_sources
from vaultmem.vault import UserFolders, Vault, VaultSettings

T = TypeVar("T")
Args = TypeVarTuple("Args")

#: Seconds before what failed is tried again: twice as many each time, up to the second.
_PAUSE, _LONGEST_PAUSE = 2.0, 120.0

#: Seconds in which what was asked counts half.
_HALF = 120.0


class SharedClones(Clones):
    """Clones that another one removes when they are another shard's."""

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these from now on; clones of others stay."""
        wanted = check_sources(sources)
        for name in self._clones.keys() - wanted.keys():
            del self._clones[name]
            self._fresh.pop(name, None)
        super().hold(sources)


class SharedShard(Shard):
    """A shard in a folder of which another one removes clones."""

    def __init__(self, folder: Path, most_open: int) -> None:
        super().__init__(folder, most_open, 0.0)
        self.clones = SharedClones(self.folder, self._folders, 0.0, time.time)


class Bringer:
    """Brings the vaults that a shard holds; `ready` are those that were opened since, in sync.

    `tried` says when each was last brought, by `time.monotonic`, or failed to be (`problems`), and
    `contacted` when its remote was last heard of. `mark` is another one whenever `ready` is.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.ready: set[str] = set()
        self.mark = 0
        self.problems: dict[str, str] = {}
        self.tried: dict[str, float] = {}
        self.contacted: dict[str, float] = {}
        self._follow_every = plan.follow_every
        self._changed = threading.Condition()
        self._sources: dict[str, Source] = {}
        self._lists = 0
        self._due: list[tuple[float, str]] = []
        self._urgent: deque[str] = deque()
        self._busy: set[str] = set()
        self._pauses: dict[str, float] = {}
        for number in range(plan.bringers):
            shard = SharedShard(folder, 1) if number else Shard(folder, 1, 0.0)
            name = f"vaultmem-bring-{number}"
            threading.Thread(target=self._run, args=(shard,), name=name, daemon=True).start()

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; clones of all others are removed."""
        with self._changed:
            wanted = {each.name: each for each in sources}
            new = {name for name, each in wanted.items() if self._sources.get(name) != each}
            left = self.ready.difference(wanted) | self.ready.intersection(new)
            self.ready -= left
            self.mark += bool(left)
            self._sources = wanted
            self._lists += 1
            for kept in (self.problems, self.tried, self.contacted, self._pauses):
                for name in [name for name in kept if name not in wanted or name in new]:
                    del kept[name]
            self._due = [each for each in self._due if each[1] in wanted and each[1] not in new]
            self._due += [(0.0, name) for name in wanted if name in new]
            heapq.heapify(self._due)
            self._changed.notify_all()

    def holds(self, name: str) -> bool:
        """Tell whether it is to have a vault."""
        return name in self._sources

    def urge(self, names: Collection[str]) -> None:
        """Have vaults brought before all others."""
        with self._changed:
            self._urgent.extend(name for name in names if name not in self._urgent)
            self._changed.notify_all()

    def _run(self, shard: Shard) -> None:
        lists = 0
        while True:
            with self._changed:
                name = ""
                while lists == self._lists and not (name := self._choose()):
                    self._changed.wait(self._find_pause())
                held = None if name else list(self._sources.values())
                lists = self._lists
            if held is None:
                self._bring(shard, name, lists)
            else:
                _hold(shard, held)

    def _choose(self) -> str:
        """Return what is to be brought next, empty if nothing is due."""
        while self._urgent:
            if (name := self._urgent.popleft()) in self._sources and name not in self._busy:
                self._busy.add(name)
                return name
        while self._due and self._due[0][0] <= time.monotonic():
            if (name := heapq.heappop(self._due)[1]) in self._sources and name not in self._busy:
                self._busy.add(name)
                return name
        return ""

    def _find_pause(self) -> float | None:
        return max(0.0, self._due[0][0] - time.monotonic()) if self._due else None

    def _bring(self, shard: Shard, name: str, lists: int) -> None:
        problem, contacted = "", 0.0
        try:
            fresh = shard.serve(_bring, name)
            problem, contacted = fresh.problem, fresh.contacted
        except (VaultError, OSError) as error:
            problem = str(name_failure(error))
        with self._changed:
            self._busy.discard(name)
            if lists == self._lists:
                self._note(name, problem, contacted)
            else:  # What was brought may be another one's.
                self._urgent.appendleft(name)
            self._changed.notify_all()

    def _note(self, name: str, problem: str, contacted: float) -> None:
        """Keep what came of bringing a vault, and when it is to be brought again."""
        pause = self._follow_every
        self.problems.pop(name, None)
        if problem:
            self.problems[name] = problem
            pause = min(_LONGEST_PAUSE, self._pauses.get(name, _PAUSE / 2) * 2)
            self._pauses[name] = pause
        else:
            self._pauses.pop(name, None)
        if contacted:
            self.contacted[name] = contacted
            self.mark += name not in self.ready
            self.ready.add(name)
        self.tried[name] = time.monotonic()
        heapq.heappush(self._due, (self.tried[name] + pause, name))


def _bring(shard: Shard, name: str) -> Freshness:
    fresh = shard.bring(name, anew=True)
    shard.open(name, {})
    return fresh


def _hold(shard: Shard, sources: Sequence[Source]) -> None:
    """Have a shard hold these; if it removes others, then also those of a process before it."""
    wanted = {each.name for each in sources}
    if not isinstance(shard, SharedShard):
        with contextlib.suppress(OSError, VaultError):
            left = [Source(each.name, "gone") for each in (shard.folder / "clones").iterdir()]
            shard.hold([*sources, *(each for each in left if each.name not in wanted)])
    shard.hold(sources)


class BroughtClones(SharedClones):
    """Clones that a Bringer brings: read as they are, so that nobody waits for another's remote."""

    def __init__(
        self, folder: Path, folders: UserFolders, fresh_for: float, bringer: Bringer
    ) -> None:
        super().__init__(folder, folders, fresh_for, time.time)
        self._bringer = bringer

    def find(self, name: str) -> Clone:
        """Return a vault's clone.

        Raises:
            VaultError: it is not there yet.
        """
        if name not in self._clones:
            raise VaultError(NOT_YET)
        return super().find(name)

    def tell_problem(self, name: str) -> str:
        """Return why a vault has no clone."""
        return self._bringer.problems.get(name, NOT_YET)

    def bring(self, name: str, anew: bool = False) -> Freshness:
        """Return how fresh a clone is; follow its remote only `anew`.

        Raises:
            VaultError: it is not there.
        """
        if (record := self.find(name).record) is None:
            raise VaultError(self.tell_problem(name))
        return super().bring(name, anew) if anew else record.freshness

    def bring_all(self, names: Collection[str], anew: bool = False) -> None:
        """Leave that to who does it all the while; follow remotes `anew` where that is wanted."""
        if anew:
            super().bring_all([name for name in names if name in self._clones], anew)


class AskedShard(Shard):
    """Reads what is there, and counts which vaults are asked."""

    def __init__(self, folder: Path, plan: Plan, bringer: Bringer) -> None:
        super().__init__(folder, choose_most_open(plan.most_open), plan.fresh_for)
        self.clones = BroughtClones(self.folder, self._folders, plan.fresh_for, bringer)
        self._asked: list[str] = []
        self.heat: dict[str, tuple[float, float]] = {}

    def serve(self, work: Callable[[Shard, *Args], T], *args: *Args) -> T:
        """Return what a function makes of the shard, and count which vaults it asked."""
        self._asked = []
        try:
            return super().serve(work, *args)
        finally:
            now = time.monotonic()
            for name in self._asked:
                self.heat[name] = find_heat(self.heat.get(name), now) + 1 / len(self._asked), now

    def open(self, name: str, settings: VaultSettings) -> Vault:
        """Return a vault, in sync with its clone."""
        self._asked.append(name)
        return super().open(name, settings)


def find_heat(known: tuple[float, float] | None, now: float) -> float:
    """Return what is left at a time of how often a vault was asked."""
    return known[0] * 0.5 ** ((now - known[1]) / _HALF) if known else 0.0
