"""The actors of a fleet: a node on each machine, and the list of the fleet's vaults."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import ray
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from vaultmem import __version__
from vaultmem.errors import VaultError
from vaultmem.services.pools.clone import Source
from vaultmem.services.pools.clones import FRESH_FOR
from vaultmem.services.pools.pool import THREADS, Lane, LocalPool
from vaultmem.services.pools.question import Opening, Part
from vaultmem.services.pools.status import NodeVaults

Method = TypeVar("Method", bound=Callable[..., Any])

#: What the actors of a fleet and those who ask them have to agree on.
VERSION = f"{__version__}+2"

#: What of a CPU Ray counts for a node, so that it is on a machine that has one for work.
_SHARE = 0.01

#: The name of the nodes' places in a cluster, and seconds within which these are found.
_GROUP, _READY_WITHIN = "vaultmem", 60.0

#: How often a read is tried again whose node is lost.
_TRIES = 5


def _in_lane(lane: Lane, tries: int = _TRIES) -> Callable[[Method], Method]:
    """Have Ray run a method in threads of a lane, and so often again where its node is lost."""
    marked: Callable[[Method], Method]
    marked = ray.method(concurrency_group=lane.value, max_task_retries=tries)
    return marked


class Plan(NamedTuple):
    """What a fleet is: its vaults, how many nodes, and where each machine has its clones.

    `{node}` in the `folder` is Ray's id of the machine, where several are one. A remote that was
    asked is not asked again for `fresh_for` seconds.
    """

    sources: Sequence[Source]
    folder: str
    nodes: int = 0
    fresh_for: float = FRESH_FOR
    version: str = VERSION


class Registry:
    """An actor that knows what the fleet is, for all who ask the fleet."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def describe(self) -> Plan:
        """Return what the fleet is."""
        return self._plan


class Node:
    """An actor that keeps clones on its machine, of the vaults that it is asked for.

    Where its machine is lost, Ray starts it on another one, and it fetches them there.
    """

    def __init__(self, name: str, plan: Plan) -> None:
        self._name = name
        machine = ray.get_runtime_context().get_node_id()[:12]
        folder = Path(plan.folder.replace("{node}", machine)).expanduser()
        self._pool = LocalPool([], folder, plan.fresh_for)

    @_in_lane(Lane.LONG)
    def hold(self, sources: Sequence[Source]) -> None:
        """Remove the clones of all other vaults."""
        self._pool.hold(sources)

    @_in_lane(Lane.READ)
    def answer(self) -> None:
        """Do nothing: who waits for this learns that the node is there."""

    @_in_lane(Lane.READ)
    def read(self, source: Source, work: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return what a function makes of the clone of a vault."""
        return self._call(source, work, args)

    @_in_lane(Lane.LONG)
    def long(self, source: Source, work: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return what a function makes of the clone of a vault, which may take minutes."""
        return self._call(source, work, args)

    @_in_lane(Lane.WRITE, tries=0)
    def write(self, source: Source, work: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return what a function writes to a vault; it is not tried again."""
        return self._call(source, work, args)

    @_in_lane(Lane.READ)
    def call_part(
        self,
        sources: Sequence[Source],
        given: Mapping[str, Sequence[Any]],
        work: Callable[..., Part],
        opening: Opening,
        args: Sequence[Any],
    ) -> Part:
        """Return what a function makes of the clones of some vaults together."""
        for source in sources:
            self._pool.clones.take(source)
        return work(self._pool.clones, given, opening, *args)

    @_in_lane(Lane.LONG)
    def look(self) -> NodeVaults:
        """Return how the node is."""
        found = self._pool.clones.describe()
        return found._replace(status=found.status._replace(name=self._name))

    def _call(self, source: Source, work: Callable[..., Any], args: Sequence[Any]) -> Any:
        self._pool.clones.take(source)
        return work(self._pool.clones, source.name, *args)


def start_nodes(plan: Plan) -> list[Any]:
    """Start the nodes, spread over machines; Ray moves those of a lost machine to another one.

    Raises:
        VaultError: there is no room for them.
    """
    group = placement_group([{"CPU": _SHARE}] * plan.nodes, "SPREAD", _GROUP, lifetime="detached")
    if not group.wait(_READY_WITHIN):
        raise VaultError("no machine of this cluster has a CPU to work with (`--num-cpus`)")
    return [_start_node(number, group, plan) for number in range(plan.nodes)]


def _start_node(number: int, group: PlacementGroup, plan: Plan) -> Any:
    lanes = {lane.value: count for lane, count in THREADS.items()}
    made = ray.remote(concurrency_groups=lanes)(Node).options(
        name=name_node(number),
        lifetime="detached",
        max_restarts=-1,
        num_cpus=_SHARE,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, number),
    )
    return made.remote(name_node(number), plan)


def stop_nodes(plan: Plan) -> None:
    """End the nodes; their folders stay."""
    for number in range(plan.nodes):
        with contextlib.suppress(ValueError):
            ray.kill(ray.get_actor(name_node(number)))
    with contextlib.suppress(ValueError):
        remove_placement_group(get_placement_group(_GROUP))


def name_node(number: int) -> str:
    """Return the name by which the cluster knows a node."""
    return f"node-{number}"


#: Where a fleet's actors are found in a cluster.
NAMESPACE = "vaultmem"

#: Seconds within which a cluster has to be reached.
_REACHED_WITHIN = 5.0


def join_cluster(address: str) -> None:
    """Use the cluster at an address: HOST:PORT, or auto for the one of this machine.

    Raises:
        VaultError: there is none.
    """
    _check_reached(address)
    kept = _read_handler()
    given = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(namespace=NAMESPACE, ignore_reinit_error=True, **given)
    except (OSError, RuntimeError, ValueError) as error:
        why = str(error).strip().splitlines()[0]
        also = "if it asks for Ray's token, set RAY_AUTH_MODE=token"
        raise VaultError(f"{address}: no cluster could be used: {why}; {also}") from None
    finally:
        if kept is not None:
            signal.signal(signal.SIGTERM, kept)
    _keep_silent()


def leave_cluster() -> None:
    """Leave the cluster as it is."""
    ray.shutdown()


def _check_reached(address: str) -> None:
    """See that somebody listens at HOST:PORT: Ray tries that for minutes, and tells of each try.

    Raises:
        VaultError: nobody does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return
    try:
        socket.create_connection((host, int(port)), _REACHED_WITHIN).close()
    except OSError as error:
        raise VaultError(
            f"{address}: no cluster is reached there ({error.strerror or error}); "
            "`ray start --head` says the address of its own"
        ) from None


def _read_handler() -> Any:
    """Return what answers SIGTERM, which `ray.init` takes for itself."""
    is_main = threading.current_thread() is threading.main_thread()
    return signal.getsignal(signal.SIGTERM) if is_main else None


def _keep_silent() -> None:
    """Keep what Ray tells of dead processes off standard output, where answers go.

    It prints that whatever `log_to_driver` says, and has no setting against it; a later Ray that
    names this differently prints it again.
    """
    from ray._private import worker

    worker.print_to_stdstream = lambda *given, **named: None
