"""The actors of a fleet, one for each machine, and the cluster of Ray's in which they are."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import ray
from ray.util import list_named_actors
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from vaultmem import __version__
from vaultmem.errors import VaultError
from vaultmem.services.pools.clone import Source
from vaultmem.services.pools.clones import FRESH_FOR, Clones
from vaultmem.services.pools.pool import THREADS, Lane
from vaultmem.services.pools.question import Each, Opening
from vaultmem.services.pools.status import NodeVaults

Method = TypeVar("Method", bound=Callable[..., Any])

#: What the actors of a fleet and those who ask them have to agree on.
VERSION = f"{__version__}+3"

#: Where a fleet's actors are found in a cluster.
NAMESPACE = "vaultmem"

#: What of a CPU Ray counts for a node, so that it is on a machine that has one for work.
_SHARE = 0.01

#: Seconds within which a cluster has to be reached, and within which nodes have to end.
_REACHED_WITHIN, _ENDED_WITHIN = 5.0, 30.0

#: How often Ray repeats a read whose node is lost: without end, as each time that it does not reach
#: the node counts, and ten tries are used up before the node is there again.
_TRIES = -1


def _in_lane(lane: Lane, tries: int = _TRIES) -> Callable[[Method], Method]:
    """Have Ray run a method in threads of a lane, and again where its node is lost."""
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


class Node:
    """An actor that keeps clones on its machine, of the vaults that it is asked for.

    If its machine is lost, Ray starts it on another one, and it fetches them there.
    """

    def __init__(self, name: str, plan: Plan) -> None:
        self._name = name
        self._plan = plan
        machine = ray.get_runtime_context().get_node_id()[:12]
        folder = Path(plan.folder.replace("{node}", machine)).expanduser()
        self._clones = Clones(folder, plan.sources, plan.fresh_for)

    @ray.method(max_task_retries=_TRIES)  # type: ignore[untyped-decorator]
    def describe(self) -> Plan:
        """Return what the fleet is."""
        return self._plan

    @ray.method(max_task_retries=_TRIES)  # type: ignore[untyped-decorator]
    def answer(self) -> None:
        """Do nothing: a caller that waits for this learns that the node is there."""

    @_in_lane(Lane.READ)
    def read(self, name: str, work: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return what a function makes of the clone of a vault."""
        return work(self._clones, name, *args)

    @_in_lane(Lane.LONG)
    def long(self, name: str, work: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return what a function makes of the clone of a vault, which may take minutes."""
        return work(self._clones, name, *args)

    @_in_lane(Lane.WRITE, tries=0)
    def write(self, name: str, work: Callable[..., Any], args: Sequence[Any], _: None) -> Any:
        """Return what a function writes to a vault; it is not tried again.

        Ray sends it once the last argument is there, the node's `answer`.
        """
        return work(self._clones, name, *args)

    @_in_lane(Lane.READ)
    def call_part(
        self,
        given: Mapping[str, Sequence[Any]],
        work: Callable[..., Each[Any]],
        opening: Opening,
        args: Sequence[Any],
    ) -> Each[Any]:
        """Return what a function makes of the clones of some vaults together."""
        return work(self._clones, given, opening, *args)

    @_in_lane(Lane.LONG)
    def look(self) -> NodeVaults:
        """Return how the node is."""
        found = self._clones.describe()
        return found._replace(status=found.status._replace(name=self._name))


def name_node(number: int) -> str:
    """Return the name by which the cluster knows a node."""
    return f"node-{number}"


def start_nodes(plan: Plan) -> None:
    """Start a node on each machine that has a CPU for Ray's work.

    Ray moves a node to another machine if its own is lost. Calls may overtake each other: in order,
    those behind a write that waits for the lost node would wait for ever.

    Raises:
        VaultError: there is no such machine.
    """
    alive = [each for each in ray.nodes() if each["Alive"] and each["Resources"].get("CPU")]
    if not alive:
        raise VaultError("no machine of this cluster has a CPU to work with (`--num-cpus`)")
    plan = plan._replace(nodes=len(alive))
    lanes = {lane.value: count for lane, count in THREADS.items()}
    started = []
    for number, machine in enumerate(alive):
        made = ray.remote(concurrency_groups=lanes)(Node).options(
            name=name_node(number),
            lifetime="detached",
            max_restarts=-1,
            allow_out_of_order_execution=True,
            num_cpus=_SHARE,
            scheduling_strategy=NodeAffinitySchedulingStrategy(machine["NodeID"], soft=True),
        )
        started.append(made.remote(name_node(number), plan))
    ray.get([each.answer.remote() for each in started])


def stop_nodes() -> None:
    """End the nodes, and wait until their names are free; their folders stay."""
    for name in list_named_actors():
        with contextlib.suppress(ValueError):
            ray.kill(ray.get_actor(name))
    end = time.monotonic() + _ENDED_WITHIN
    while list_named_actors() and time.monotonic() < end:
        time.sleep(0.1)


def join_cluster(address: str) -> None:
    """Use the cluster at an address: HOST:PORT, or auto for the one of this machine.

    It is joined without Ray's words and without its handlers of signals.

    Raises:
        VaultError: there is none.
    """
    _check_reached(address)
    is_main = threading.current_thread() is threading.main_thread()
    kept = signal.getsignal(signal.SIGTERM) if is_main else None  # Ray takes it for itself.
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


def _check_reached(address: str) -> None:
    """Check that a process listens at HOST:PORT: Ray tries for minutes, and tells of each try.

    Raises:
        VaultError: none does.
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


def _keep_silent() -> None:
    """Keep what Ray tells of dead processes off standard output, where answers go.

    It prints that whatever `log_to_driver` says, and has no setting against it; a later Ray that
    names this differently prints it again.
    """
    from ray._private import worker

    worker.print_to_stdstream = lambda *given, **named: None
