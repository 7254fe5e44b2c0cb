"""A shard in a process of its own: threads that read, write, and fetch what is not there yet."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vaultmem.errors import FaultError, VaultError, name_failure
from vaultmem.fleet.bringing import AskedShard, Bringer, SharedShard, find_heat
from vaultmem.fleet.plan import VERSION, Health, Plan, find_alone, find_names
from vaultmem.services.pools.engine import Way
from vaultmem.services.pools.local import ShardThread
from vaultmem.services.pools.source import Source
from vaultmem.services.pools.stats import weigh_folder

#: For how many seconds a vault that is asked alone is waited for where it is not there yet, and its
#: remote where it is.
_BRINGING = 60.0
_FOLLOWING = 5.0

#: Seconds within which a shard learns that it has a vault, and between two looks at what is waited
#: for.
_LEARNING = 1.0
_TICK = 0.02

#: How many of the vaults asked most are told of, and are kept open beside those that are read.
_HOTTEST = 64
_MOST_BESIDE = 16

#: Seconds between two looks at the disk, at least.
_WEIGH_EVERY = 5.0


class ShardActor:
    """What Ray runs: a shard with a thread that reads, one that writes, and one that brings."""

    def __init__(self, name: str, plan: Plan, node: str) -> None:
        self._node, self._fresh_for = node, plan.fresh_for
        self._folder = Path(plan.folder).expanduser() / name
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._began = time.time()
        self._held = ""
        self._backlog = 0
        self._disk, self._weighed_next = 0, 0.0
        self._bringer = Bringer(self._folder, plan)
        few = plan._replace(most_open=_MOST_BESIDE)
        self._threads = {
            Way.READ: ShardThread(lambda: AskedShard(self._folder, plan, self._bringer)),
            Way.LONG: ShardThread(lambda: AskedShard(self._folder, few, self._bringer)),
            Way.WRITE: ShardThread(lambda: SharedShard(self._folder, _MOST_BESIDE)),
        }
        self._vaults = 0

    async def hold(self, mark: str, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; `mark` tells this list from others."""
        self._bringer.hold(sources)
        for each in self._threads.values():
            each.hold(sources)
        self._held, self._vaults = mark, len(sources)

    async def run(
        self, way: Way, work: Callable[..., Any], args: Sequence[Any]
    ) -> tuple[bool | None, Any]:
        """Return True and what a function makes of the shard, or False and what it raised.

        None, where nothing was done, for it is of a vault that is another shard's.
        """
        self._backlog += 1
        try:
            if (alone := find_alone(way, work, args)) and not await self._wait_for(alone):
                return None, None
            if way is not Way.WRITE:
                await self._see_to(find_names(way, work, args))
            return True, await asyncio.wrap_future(self._threads[way].submit(work, *args))
        except Exception as error:  # noqa: BLE001  Whoever asked is told.
            return False, _make_portable(error)
        finally:
            self._backlog -= 1

    async def _wait_for(self, name: str) -> bool:
        """Tell whether this shard has a vault; who asks may know of it before this does."""
        end = time.monotonic() + _LEARNING
        while not self._bringer.holds(name) and time.monotonic() < end:
            await asyncio.sleep(_TICK)
        return self._bringer.holds(name)

    async def _see_to(self, asked: Sequence[str]) -> None:
        """Have vaults brought first that are asked, and one that is asked alone waited for."""
        bringer, now = self._bringer, time.monotonic()
        if len(asked) != 1:
            bringer.urge([each for each in asked if each not in bringer.tried])
            return
        name, late = asked[0], now - self._fresh_for
        end = now + (_FOLLOWING if name in bringer.ready else _BRINGING)
        if bringer.tried.get(name, 0.0) <= late:
            bringer.urge(asked)
        while bringer.tried.get(name, 0.0) <= late and time.monotonic() < end:
            await asyncio.sleep(_TICK)

    async def look(self, ready_mark: int = -1) -> Health:
        """Return how the shard is, with what is ready unless that is as it was at a mark."""
        bringer = self._bringer
        mark, ready = bringer.mark, frozenset(bringer.ready.copy())
        contacted = list(bringer.contacted.values())
        free, disk = self._weigh()
        return Health(
            version=VERSION,
            node=self._node,
            began=self._began,
            held=self._held,
            vaults=self._vaults,
            problems=dict(bringer.problems),
            ready=None if mark == ready_mark else ready,
            ready_mark=mark,
            backlog=self._backlog,
            stale=max(0.0, time.time() - min(contacted)) if contacted else 0.0,
            memory=_read_memory(),
            disk=disk,
            free=free,
            heat=self._find_hottest(),
        )

    def _find_hottest(self) -> dict[str, float]:
        shard, now = self._threads[Way.READ].shard, time.monotonic()
        kept = list(shard.heat.items()) if isinstance(shard, AskedShard) else []
        heat = sorted(((find_heat(each, now), name) for name, each in kept), reverse=True)
        return {name: value for value, name in heat[:_HOTTEST]}

    def _weigh(self) -> tuple[int, int]:
        """Return the bytes that are free on the disk, and those that the folder takes."""
        if time.monotonic() > self._weighed_next:
            self._weighed_next = float("inf")
            threading.Thread(target=self._weigh_folder, daemon=True).start()
        return shutil.disk_usage(self._folder).free, self._disk

    def _weigh_folder(self) -> None:
        began = time.monotonic()
        self._disk = weigh_folder(self._folder)
        took = time.monotonic() - began
        self._weighed_next = began + max(_WEIGH_EVERY, 50 * took)


def _make_portable(error: Exception) -> Exception:
    """Return an error that can go to another process: itself, else one that says the same."""
    with contextlib.suppress(Exception):
        pickle.loads(pickle.dumps(error))  # noqa: S301  Our own.
        return error
    if isinstance(error, VaultError | OSError):
        return FaultError(str(name_failure(error)))
    return FaultError(f"{type(error).__name__}: {error}")


def _read_memory() -> int:
    """Return the bytes of this process's memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
