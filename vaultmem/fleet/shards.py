"""Shards in processes of their own, on any machine of a cluster of Ray's: an engine of a pool."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, TypeVarTuple

import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from vaultmem.errors import BusyError, FaultError, NoteNotFoundError, VaultError
from vaultmem.fleet.attaching import ask_keeper, find_keeper
from vaultmem.fleet.placement import group_vaults
from vaultmem.fleet.plan import (
    NAMESPACE,
    NOT_YET,
    News,
    Plan,
    Table,
    find_alone,
    name_actor,
)
from vaultmem.services.pools.engine import Way
from vaultmem.services.pools.shard import Shard
from vaultmem.services.pools.source import Source, check_sources
from vaultmem.services.pools.status import PoolStatus

T = TypeVar("T")
Args = TypeVarTuple("Args")

#: Seconds between two looks at what the keeper has to tell.
_PERIOD = 0.5

#: How often a read is sent again, and for how many seconds that is tried.
_TRIES, _TRIED_FOR = 4, 30.0

#: For how many seconds a vault that was written to is read where that was, not from its copy.
_WRITTEN = 10.0

#: Stands for the shard of a vault that none has.
_NOBODY = -1

#: What is said of a vault whose shard is not there, and of a write of which nobody knows.
AWAY = "its shard is not there; others take its vaults, ask again in a few seconds"
UNKNOWN = (
    "its shard died meanwhile, so it may be written or not; look at the vault before you write it "
    "again"
)


class _Call:
    """One call of a shard, and what whoever made it waits for."""

    def __init__(self, shard: int, way: Way, work: Any, args: tuple[Any, ...]) -> None:
        self.shard, self.way, self.work, self.args = shard, way, work, args
        self.future: Future[Any] = Future()
        self.alone = find_alone(way, work, args)
        self.tries = 0
        self.queued = time.monotonic()

    def end(self, value: Any = None, error: BaseException | None = None) -> None:
        """Tell what came of it, unless nobody waits any more."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error) if error else self.future.set_result(value)


class RayShards:
    """An engine of actors, found in a cluster by their names; whoever attaches has the same.

    Give `sources` to start a fleet, or to change which vaults it has; a `plan` counts where it is
    started. A read is sent again where its shard dies; of a write it is said that nobody knows.

    Raises:
        NoteNotFoundError: no fleet is there, and no sources are given.
        RefusedError: the fleet is another version's.
    """

    def __init__(self, sources: Sequence[Source] | None = None, plan: Plan | None = None) -> None:
        checked = None if sources is None else list(check_sources(sources).values())
        self._keeper = find_keeper(checked, plan)
        self._order: list[str] = []
        self._actors: dict[str, Any] = {}
        self._running: dict[str, int] = {}
        self._written: dict[str, float] = {}
        self._again: deque[_Call] = deque()
        self._lock = threading.Lock()
        self._table = Table(-1, (), {}, {})
        self._news = News({}, frozenset(), None)
        self._closing = threading.Event()
        if checked is not None:
            self.hold(checked)
        self._hear()
        self._listener = threading.Thread(target=self._listen, name="vaultmem-hear", daemon=True)
        self._listener.start()

    @property
    def names(self) -> Sequence[str]:
        """All vaults, in the order of their sources."""
        return list(self._table.names)

    @property
    def shards(self) -> int:
        """How many shards have vaults."""
        return len({each for homes in self._table.homes.values() for each in homes})

    def place(self, names: Sequence[str]) -> list[tuple[int, list[str]]]:
        """Return which shard answers for which of these vaults, each named once.

        Raises:
            NoteNotFoundError: there is no such vault.
        """
        table, news = self._table, self._news
        asked = list(dict.fromkeys(names))
        there: dict[str, Sequence[str]] = {}
        for name in asked:
            if name not in table.homes:
                raise NoteNotFoundError(f"{name}: no vault of that name")
            own = table.serving[name]
            if self._written.get(name, 0.0) > time.monotonic() - _WRITTEN:
                own = own[:1]
            there[name] = [each for each in own if each not in news.failing] or own[:1]
        with self._lock:
            load = {each: news.load.get(each, 0.0) + more for each, more in self._running.items()}
        groups = group_vaults(asked, there, load)
        placed = [(self._number(shard), own) for shard, own in groups.items()]
        left = [name for name in asked if not there[name]]
        return [*placed, (_NOBODY, left)] if left else placed

    def submit(
        self, shard: int, work: Callable[[Shard, *Args], T], *args: *Args, way: Way = Way.READ
    ) -> Future[T]:
        """Have a function run in a shard; what only reads again, where that dies meanwhile.

        What writes runs in the first shard of its vault.
        """
        call = _Call(shard, way, work, args)
        if way is not Way.WRITE:
            return self._send(call)
        if call.alone:
            self._written[call.alone] = time.monotonic()
        return self._send(self._place(call))

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; clones of others are removed."""
        ask_keeper(self._keeper.take.remote(list(check_sources(sources).values())))
        self._hear()

    def status(self) -> PoolStatus:
        """Return how the fleet is."""
        found: PoolStatus = ask_keeper(self._keeper.status.remote())
        return found

    def wait_ready(self, seconds: float) -> PoolStatus:
        """Wait until all vaults are there or have failed to be; return how the fleet is then."""
        end = time.monotonic() + seconds
        found = self.status()
        while time.monotonic() < end and not _is_settled(found):
            time.sleep(_PERIOD / 2)
            found = self.status()
        self._hear()
        return found

    def stop(self) -> None:
        """End the fleet: its shards and its keeper; their folders stay."""
        with contextlib.suppress(VaultError):
            ask_keeper(self._keeper.stop.remote())
        ray.kill(self._keeper)

    def close(self) -> None:
        """Leave the fleet to itself; what was asked and is not answered is told so."""
        self._closing.set()
        self._listener.join()
        for call in self._again:
            call.end(error=BusyError(AWAY))

    def _number(self, shard: str) -> int:
        with self._lock:
            if shard not in self._running:
                self._order.append(shard)
                self._running[shard] = 0
            return self._order.index(shard)

    def _send(self, call: _Call) -> Future[Any]:
        name = "" if call.shard == _NOBODY else self._order[call.shard]
        actor = self._find_actor(name) if name and name not in self._news.failing else None
        if actor is None:
            self._again.append(call)
            return call.future
        call.tries += 1
        with self._lock:
            self._running[name] += 1
        reference = actor.run.remote(call.way, call.work, call.args)
        call.future.add_done_callback(lambda done: done.cancelled() and ray.cancel(reference))
        reference.future().add_done_callback(lambda done: self._finish(call, name, done))
        return call.future

    def _find_actor(self, name: str) -> Any:
        """Return the actor that is a shard, None where there is none now."""
        if name not in self._actors:
            with contextlib.suppress(ValueError):
                self._actors[name] = ray.get_actor(name_actor(name), NAMESPACE)
        return self._actors.get(name)

    def _finish(self, call: _Call, name: str, done: Future[Any]) -> None:
        with self._lock:
            self._running[name] -= 1
        try:
            went_well, value = done.result()
        except TaskCancelledError:
            return
        except RayTaskError as error:  # What was made could not be brought here.
            call.end(error=FaultError(str(error.cause or error).partition("\n")[0]))
        except RayError:
            self._actors.pop(name, None)  # Another one may have its name by now.
            call.queued = time.monotonic()
            if call.way is Way.WRITE:
                call.end(error=BusyError(UNKNOWN))
            else:
                self._again.append(call)
        else:
            if went_well is None:
                self._again.append(call)
            else:
                call.end(value) if went_well else call.end(error=value)

    def _listen(self) -> None:
        while not self._closing.wait(_PERIOD):
            with contextlib.suppress(VaultError):  # It may be back in a moment.
                self._hear()
            for _ in range(len(self._again)):
                call = self._again.popleft()
                try:
                    self._repeat(call)
                except Exception as error:  # noqa: BLE001  Whoever asked is told.
                    call.end(error=error)

    def _hear(self) -> None:
        news: News = ask_keeper(self._keeper.tell.remote(self._table.epoch))
        self._news = news
        if news.table is not None:
            self._table = news.table

    def _place(self, call: _Call) -> _Call:
        """Have a call of one vault go to whoever has that now; a write to the first of these."""
        homes = self._table.homes.get(call.alone, ())
        if homes and call.way is Way.WRITE:
            call.shard = self._number(homes[0])
        elif homes:
            call.shard = self.place([call.alone])[0][0]
        return call

    def _repeat(self, call: _Call) -> None:
        """Send a call again that was not answered, and did nothing that counts."""
        name = "" if self._place(call).shard == _NOBODY else self._order[call.shard]
        there = {each for homes in self._table.homes.values() for each in homes}
        is_late = time.monotonic() - call.queued > _TRIED_FOR
        if call.future.cancelled():
            return
        if call.tries >= _TRIES or is_late or not (call.alone or name in there):
            call.end(error=BusyError(f"not written: {AWAY}" if call.way is Way.WRITE else AWAY))
        else:
            self._send(call)


def _is_settled(status: PoolStatus) -> bool:
    """Tell whether nothing is on the way to being there."""
    coming = any(each.state in {"starting", "failing"} for each in status.shards)
    return bool(status.shards) and not coming and NOT_YET not in status.problems.values()
