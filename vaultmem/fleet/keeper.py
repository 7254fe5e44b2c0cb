"""Who keeps a fleet: starts its shards, sees which answer, and says which have which vaults.

A shard belongs to its machine. Ray starts its process anew there, which finds its clones. Where
the machine is lost, its vaults go to all other shards, which are told at once: nothing has to
start. Ray takes some 13 s to say that a machine is gone, so who does not answer is asked here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import count, islice
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from vaultmem.core.json_values import as_named
from vaultmem.fleet.actor import ShardActor
from vaultmem.fleet.kept_shard import GRACE, KeptShard
from vaultmem.fleet.placement import Member, find_homes
from vaultmem.fleet.plan import NAMESPACE, NOT_YET, PREFIX, VERSION, News, Plan, Table, name_actor
from vaultmem.services.pools.source import Source
from vaultmem.services.pools.status import PoolStatus, ShardStatus
from vaultmem.storage.atomic import write_atomically

#: Seconds between two rounds, and for how long an answer is waited for in one.
PERIOD = 0.5

#: For how many seconds a fleet that begins waits for its shards, before the first gets vaults.
GATHERING = 20.0

#: For how many seconds a shard keeps a vault that another one answers for now.
LINGER = 5.0

#: How often a vault has to be asked, of late, to get a second copy, and to keep it.
HOT, WARM = 60.0, 20.0


class Keeper:
    """What Ray runs, once in a fleet: the rounds, and what front doors ask of them."""

    def __init__(self, plan: Plan, sources: Sequence[Source]) -> None:
        self._plan = plan
        self._file = Path(plan.folder).expanduser() / "keeper.json"
        if ray.get_runtime_context().was_current_actor_reconstructed:
            sources = _read_kept(self._file) or sources
        self._sources = {each.name: each for each in sources}
        self._shards: dict[str, KeptShard] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._copied: tuple[str, ...] = ()
        self._lost = 0
        self._began = time.monotonic()
        self._table = Table(0, tuple(self._sources), {}, {})
        self._known: tuple[object, ...] = ()
        self._served: list[tuple[float, Mapping[str, tuple[str, ...]]]] = []
        self._lists: dict[str, tuple[str, list[Source]]] = {}
        self._adopt()
        self._keep()
        self._rounds = asyncio.get_running_loop().create_task(self._go_round())

    async def describe(self) -> tuple[str, Plan]:
        """Return what it and its front doors have to agree on, and the plan."""
        return VERSION, self._plan

    async def take(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on."""
        wanted = {each.name: each for each in sources}
        if wanted != self._sources:
            known = {name for name, each in wanted.items() if self._sources.get(name) == each}
            for kept in self._shards.values():
                kept.ready &= known  # Another remote's is none of this one.
            self._sources = wanted
            self._keep()
            if not self._is_gathering():
                self._arrange()

    async def tell(self, epoch: int) -> News:
        """Return what is new since a table, and how busy shards are."""
        known = self._shards.values()
        load = {each.name: float(each.health.backlog) for each in known if each.health}
        failing = frozenset(each.name for each in known if each.is_failing)
        is_new = self._table.epoch not in {0, epoch}
        return News(load, failing, self._table if is_new else None)

    async def status(self) -> PoolStatus:
        """Return how the fleet is."""
        ready: set[str] = set()
        problems: dict[str, str] = {}
        for each in self._shards.values():
            if each.is_in and not each.is_failing:
                ready |= each.ready
                problems |= each.health.problems if each.health else {}
        for name in self._sources:
            if name not in ready:
                problems.setdefault(name, NOT_YET)
        return PoolStatus(
            VERSION,
            len(self._sources),
            len(ready.intersection(self._sources)),
            tuple(self._describe(each) for _, each in sorted(self._shards.items())),
            {name: problems[name] for name in self._sources if name in problems},
            self._copied,
            self._lost,
        )

    async def stop(self) -> None:
        """End all shards."""
        self._rounds.cancel()
        for each in self._shards.values():
            ray.kill(each.actor)

    def _describe(self, kept: KeptShard) -> ShardStatus:
        health = kept.health
        if health is None:
            return ShardStatus(kept.name, kept.node, "starting", problem=kept.problem)
        state = "filling" if len(kept.ready) < health.vaults else "ready"
        if not kept.is_in or health.held != self._lists.get(kept.name, ("",))[0]:
            state = "starting"  # It does not know yet what it is to have.
        if kept.is_failing:
            state = "failing"
        return ShardStatus(
            kept.name,
            kept.node,
            state if health.version == VERSION else "refused",
            vaults=health.vaults,
            ready=len(kept.ready),
            backlog=health.backlog,
            stale=health.stale,
            restarts=kept.restarts,
            memory=health.memory,
            disk=health.disk,
            free=health.free,
            problem=kept.problem,
        )

    async def _go_round(self) -> None:
        while True:
            with contextlib.suppress(RayError, OSError):
                self._start_missing()
                await self._look()
                if not self._is_gathering():
                    self._arrange()
            await asyncio.sleep(PERIOD)

    def _is_gathering(self) -> bool:
        """Tell whether shards are on their way at the start, which others would give vaults to."""
        if self._table.epoch or time.monotonic() - self._began > GATHERING:
            return False
        late = time.monotonic() - GRACE
        waiting = (not (each.health or 0 < each.failed < late) for each in self._shards.values())
        return not self._shards or any(waiting)

    def _adopt(self) -> None:
        """Find the shards of a keeper before this one."""
        for each in ray.util.list_named_actors(all_namespaces=True):
            if each["namespace"] == NAMESPACE and each["name"].startswith(PREFIX):
                name = each["name"].removeprefix(PREFIX)
                with contextlib.suppress(ValueError):
                    self._shards[name] = KeptShard(name, "", ray.get_actor(each["name"], NAMESPACE))

    def _start_missing(self) -> None:
        """Start a shard wherever a machine has room for one more."""
        plan = self._plan
        if not all(each.node for each in self._shards.values()):
            return  # Those of a keeper before this one have not said yet where they are.
        for node in ray.nodes():
            room = int(node["Resources"].get(plan.resource, 0.0) / plan.amount + 1e-9)
            most = min(room, plan.most or room) if node["Alive"] else 0
            has = sum(each.node == node["NodeID"] for each in self._shards.values())
            label = str(node["NodeName"] or node["NodeManagerHostname"]).replace(":", "-")
            free = (name for n in count() if (name := f"{label}-{n}") not in self._shards)
            for name in list(islice(free, max(0, most - has))):
                actor = self._start(name, node["NodeID"])
                self._shards[name] = KeptShard(name, node["NodeID"], actor)

    def _start(self, name: str, node_id: str) -> Any:
        plan = self._plan
        takes: dict[str, Any] = {"num_cpus": 0, "resources": {plan.resource: plan.amount}}
        if plan.resource == "CPU":
            takes = {"num_cpus": plan.amount}
        actor = ray.remote(ShardActor).options(
            name=name_actor(name),
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=-1,
            max_concurrency=10_000,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            **takes,
        )
        return actor.remote(name, plan, node_id)

    async def _look(self) -> None:
        """Ask all shards how they are; who is slow is heard in a later round."""
        for name, each in self._shards.items():
            if name not in self._looking:
                self._looking[name] = asyncio.create_task(each.look())
        if self._looking:
            await asyncio.wait(self._looking.values(), timeout=PERIOD)
        for name, task in list(self._looking.items()):
            if not task.done():
                continue
            del self._looking[name]
            if task.exception():  # With its machine: for good.
                del self._shards[name]
                self._lost += 1

    def _arrange(self) -> None:
        """Decide which shard has what, and tell those of which it is another than they know."""
        for each in self._shards.values():
            each.is_in = each.can_be_in()
        inside = {name: each for name, each in sorted(self._shards.items()) if each.is_in}
        members = tuple(Member(name, each.node) for name, each in inside.items())
        self._copied = self._choose_hot(inside)
        ready = [(each.restarts, each.ready_mark) for each in inside.values()]
        self._served = [each for each in self._served if each[0] > time.monotonic() - LINGER]
        known = members, tuple(self._sources.values()), self._copied, ready, len(self._served)
        if known != self._known:
            homes = find_homes(list(self._sources), members, self._copied)
            serving = {name: self._find_serving(name, own, inside) for name, own in homes.items()}
            if serving != self._table.serving:
                self._served.append((time.monotonic(), self._table.serving))
            self._table = Table(self._table.epoch + 1, tuple(self._sources), homes, serving)
            self._lists = self._make_lists(inside)
            self._known = known
        for name, (mark, sources) in self._lists.items():
            health = inside[name].health
            if health and health.held != mark:
                inside[name].actor.hold.remote(mark, sources)

    def _make_lists(self, inside: Mapping[str, KeptShard]) -> dict[str, tuple[str, list[Source]]]:
        """Return what each shard is to have, and what tells that list from others."""
        own: dict[str, list[Source]] = {name: [] for name in inside}
        tables = [self._table.homes, self._table.serving, *(each for _, each in self._served)]
        for vault, source in self._sources.items():
            for name in {shard for each in tables for shard in each.get(vault, ())}:
                if name in own:
                    own[name].append(source)
        return {
            name: (blake2b(repr(sources).encode(), digest_size=8).hexdigest(), sources)
            for name, sources in own.items()
        }

    def _find_serving(
        self, vault: str, homes: tuple[str, ...], inside: Mapping[str, KeptShard]
    ) -> tuple[str, ...]:
        """Return the shards that answer for a vault: those it has just left, until it is there."""
        there = tuple(each for each in homes if vault in inside[each].ready)
        if there:
            return there
        before = self._table.serving.get(vault, ())
        left = (each for each in before if each in inside and vault in inside[each].ready)
        return tuple(left) or homes[:1]

    def _choose_hot(self, inside: Mapping[str, KeptShard]) -> tuple[str, ...]:
        heat: dict[str, float] = {}
        for each in inside.values():
            for name, value in (each.health.heat if each.health else {}).items():
                heat[name] = heat.get(name, 0.0) + value
        hot = [
            name
            for name, value in heat.items()
            if name in self._sources and value >= (WARM if name in self._copied else HOT)
        ]
        return tuple(sorted(sorted(hot, key=lambda name: -heat[name])[: self._plan.copies]))

    def _keep(self) -> None:
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            kept = [as_named(each) for each in self._sources.values()]
            write_atomically(self._file, json.dumps(kept).encode())


def _read_kept(file: Path) -> list[Source]:
    """Return the vaults that a keeper before this one had; nothing where there was none."""
    try:
        return [Source(**each) for each in json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []
