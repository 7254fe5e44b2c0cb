"""Ray actors with clones of a fleet's vaults, one for each node, and a pool of them."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, TypeVarTuple
from zlib import crc32

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util import list_named_actors
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from vaultmem import __version__
from vaultmem.errors import (
    LockTimeoutError,
    NoteNotFoundError,
    RefusedError,
    SystemFailureError,
    VaultError,
)
from vaultmem.services.fleet.clone import (
    NodeStatus,
    NodeVaults,
    PoolStatus,
    VaultSource,
    check_sources,
    describe_pool,
)
from vaultmem.services.fleet.clones import FRESH_SECONDS, TIMEOUT_REASON, Clones
from vaultmem.services.fleet.pool import THREADS, Lane, Opening, PerVaultResults, Pool

Method = TypeVar("Method", bound=Callable[..., Any])

#: The version that a fleet's actors and its clients must share.
VERSION = f"{__version__}+3"

#: Ray's namespace for a fleet's actors.
NAMESPACE = "vaultmem"

#: Share of a CPU that Ray counts for a node, so that it runs on a machine with CPUs for work.
_SHARE = 0.01

#: Seconds to reach a cluster, and for nodes to end.
_CONNECT_SECONDS, _NODE_END_SECONDS = 5.0, 30.0

#: Ray's retries of a read whose node is lost: unlimited, because ten are used up before the node
#: has restarted.
_TRIES = -1


def _in_lane(lane: Lane, tries: int = _TRIES) -> Callable[[Method], Method]:
    """Run a method in threads of a lane, and retry it if its node is lost."""
    decorator: Callable[[Method], Method]
    decorator = ray.method(concurrency_group=lane.value, max_task_retries=tries)
    return decorator


class FleetPlan(NamedTuple):
    """A fleet's plan: its vaults, number of nodes, and the folder of clones on each machine.

    `{node}` in `folder` is replaced by Ray's id of the machine, for several nodes on one machine. A
    remote is not asked again for `fresh_for` seconds.
    """

    sources: Sequence[VaultSource]
    folder: str
    nodes: int = 0
    fresh_for: float = FRESH_SECONDS
    version: str = VERSION


class FleetNode:
    """An actor with clones of the vaults that it was asked for, on its machine.

    If its machine is lost, Ray starts it on another one, and it fetches them there.
    """

    def __init__(self, name: str, plan: FleetPlan) -> None:
        self._name = name
        self._plan = plan
        machine = ray.get_runtime_context().get_node_id()[:12]
        folder = Path(plan.folder.replace("{node}", machine)).expanduser()
        self._clones = Clones(folder, plan.sources, plan.fresh_for)

    @ray.method(max_task_retries=_TRIES)  # type: ignore[untyped-decorator]
    def describe(self) -> FleetPlan:
        """Return the plan of the fleet."""
        return self._plan

    @ray.method(max_task_retries=_TRIES)  # type: ignore[untyped-decorator]
    def answer(self) -> None:
        """Do nothing: a result shows that the node runs."""

    @_in_lane(Lane.READ)
    def read(self, name: str, work: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return a function's result for the clone of a vault."""
        return work(self._clones, name, *args)

    @_in_lane(Lane.LONG)
    def long(self, name: str, work: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return a function's result for the clone of a vault; it can take minutes."""
        return work(self._clones, name, *args)

    @_in_lane(Lane.WRITE, tries=0)
    def write(self, name: str, work: Callable[..., Any], args: Sequence[Any], _: None) -> Any:
        """Return the result of a function that writes to a vault; never retried.

        Ray sends it once the last argument, the node's `answer`, is there.
        """
        return work(self._clones, name, *args)

    @_in_lane(Lane.READ)
    def call_part(
        self,
        vault_arguments: Mapping[str, Sequence[Any]],
        work: Callable[..., PerVaultResults[Any]],
        opening: Opening,
        args: Sequence[Any],
    ) -> PerVaultResults[Any]:
        """Return a function's result for the clones of some vaults together."""
        return work(self._clones, vault_arguments, opening, *args)

    @_in_lane(Lane.LONG)
    def look(self) -> NodeVaults:
        """Return the node's status and its vaults."""
        vaults = self._clones.describe()
        return vaults._replace(status=vaults.status._replace(name=self._name))


def name_node(number: int) -> str:
    """Return a node's actor name in the cluster."""
    return f"node-{number}"


def start_nodes(plan: FleetPlan) -> None:
    """Start a node on each machine that has a CPU for Ray's work.

    Ray moves a node to another machine if its own is lost. Calls can overtake each other. In order,
    calls after a write that waits for the lost node would wait forever.

    Raises:
        VaultError: there is no such machine.
    """
    alive = [each for each in ray.nodes() if each["Alive"] and each["Resources"].get("CPU")]
    if not alive:
        raise VaultError("no machine of this cluster has a CPU to work with (`--num-cpus`)")
    plan = plan._replace(nodes=len(alive))
    lanes = {lane.value: count for lane, count in THREADS.items()}
    actors = []
    for number, machine in enumerate(alive):
        actor_class = ray.remote(concurrency_groups=lanes)(FleetNode).options(
            name=name_node(number),
            lifetime="detached",
            max_restarts=-1,
            allow_out_of_order_execution=True,
            num_cpus=_SHARE,
            scheduling_strategy=NodeAffinitySchedulingStrategy(machine["NodeID"], soft=True),
        )
        actors.append(actor_class.remote(name_node(number), plan))
    ray.get([each.answer.remote() for each in actors])


def stop_nodes() -> None:
    """End the nodes, and wait until their names are free; their folders stay."""
    for name in list_named_actors():
        with contextlib.suppress(ValueError):
            ray.kill(ray.get_actor(name))
    end = time.monotonic() + _NODE_END_SECONDS
    while list_named_actors() and time.monotonic() < end:
        time.sleep(0.1)


def join_cluster(address: str) -> None:
    """Connect to the cluster at an address: HOST:PORT, or "auto" for this machine's.

    Ray's log output and signal handlers are disabled.

    Raises:
        VaultError: there is no such cluster.
    """
    _check_reached(address)
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if is_main else None  # Ray replaces it.
    options = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(namespace=NAMESPACE, ignore_reinit_error=True, **options)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        hint = "if it asks for Ray's token, set RAY_AUTH_MODE=token"
        raise VaultError(f"{address}: no cluster could be used: {reason}; {hint}") from None
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)
    _silence_output()


def _check_reached(address: str) -> None:
    """Check that a process listens at HOST:PORT: Ray tries for minutes, and prints each try.

    Raises:
        VaultError: none does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise VaultError(
            f"{address}: no cluster is reached there ({error.strerror or error}); "
            "`ray start --head` prints its address"
        ) from None


def _silence_output() -> None:
    """Keep Ray's messages about dead processes off standard output, which is for results.

    Ray prints them whatever `log_to_driver` is. If a later Ray renames this function, they are
    printed again.
    """
    from ray._private import worker

    worker.print_to_stdstream = lambda *values, **options: None


# A fleet as a pool: the node of each vault answers; if it is lost, Ray restarts it elsewhere.

T = TypeVar("T")
Args = TypeVarTuple("Args")

#: Seconds for a node to return the plan and its status.
_STATUS_SECONDS = 30.0

#: Seconds more than the vaults' time limit that a node has to answer.
_NODE_MARGIN_SECONDS = 2.0

#: The error for a vault whose node is missing, and for a write with unknown outcome.
MISSING_NODE_TEXT = (
    "its node is not there; it comes back on another machine, ask again in a few seconds"
)
UNKNOWN_OUTCOME_TEXT = (
    "its node died meanwhile, so it may be written or not; look at the vault before you write it "
    "again"
)


class RayPool(Pool):
    """The fleet of the cluster at an address; `close` leaves it running.

    The name of a vault determines its node. If that node's machine is lost, Ray starts the node
    elsewhere and repeats reads, but no interrupted writes.

    Raises:
        VaultError: there is no such cluster.
        NoteNotFoundError: no fleet runs there.
        RefusedError: the fleet is another version's.
    """

    def __init__(self, address: str) -> None:
        join_cluster(address)
        self._lock = threading.Lock()
        self._is_current = False
        self._names: list[str] = []
        self._nodes: list[Any] = []
        self._find_nodes()

    @property
    def names(self) -> Sequence[str]:
        """All vaults, in the order of their sources."""
        self._find_nodes()
        return self._names

    def submit(
        self,
        name: str,
        work: Callable[[Clones, str, *Args], T],
        *args: *Args,
        lane: Lane = Lane.READ,
    ) -> Future[T]:
        """Call a function on the node of a vault."""
        node = self._nodes[self._choose_node(name)]
        if lane is Lane.WRITE:
            return self._watch(
                node.write.remote(name, work, args, node.answer.remote()), UNKNOWN_OUTCOME_TEXT
            )
        return self._watch(getattr(node, lane.value).remote(name, work, args), MISSING_NODE_TEXT)

    def call_parts(
        self,
        vault_arguments: Mapping[str, Sequence[Any]],
        work: Callable[..., PerVaultResults[T]],
        opening: Opening,
        *args: Any,
    ) -> PerVaultResults[T]:
        """Call a function for some vaults, once on each node that has some."""
        divided: dict[int, dict[str, Sequence[Any]]] = {}
        for name, own in vault_arguments.items():
            divided.setdefault(self._choose_node(name), {})[name] = own
        calls = {
            self._nodes[number].call_part.remote(part, work, opening, args): part
            for number, part in divided.items()
        }
        seconds = None if opening.seconds is None else opening.seconds + _NODE_MARGIN_SECONDS
        _, late_calls = ray.wait([*calls], num_returns=len(calls), timeout=seconds)
        results: dict[str, T] = {}
        missing: dict[str, str] = {}
        for reference, part in calls.items():
            if reference in late_calls:
                ray.cancel(reference)
                missing |= dict.fromkeys(part, TIMEOUT_REASON)
                continue
            try:
                part_results = ray.get(reference)
                results |= part_results.results
                missing |= part_results.missing
            except RayError as error:
                cause = self._translate(error, MISSING_NODE_TEXT)
                if not isinstance(cause, LockTimeoutError):
                    raise cause from None
                missing |= dict.fromkeys(part, str(cause))
        return PerVaultResults(
            {name: results[name] for name in vault_arguments if name in results},
            {name: missing[name] for name in vault_arguments if name in missing},
        )

    def status(self) -> PoolStatus:
        """Return the status of the fleet, including nodes that do not answer."""
        self._find_nodes()
        calls = [node.look.remote() for node in self._nodes]
        ray.wait(calls, num_returns=len(calls), timeout=_STATUS_SECONDS)
        nodes = []
        for number, reference in enumerate(calls):
            try:
                nodes.append(ray.get(reference, timeout=0))
            except (RayError, GetTimeoutError):
                silent = NodeStatus(name_node(number), problem="does not answer")
                nodes.append(NodeVaults(silent, {}, {}))
        return describe_pool(self._names, nodes)

    def stop(self) -> None:
        """End the fleet; its folders stay."""
        stop_nodes()

    def close(self) -> None:
        """Leave the cluster; the fleet stays."""
        ray.shutdown()

    def _choose_node(self, name: str) -> int:
        """Return the number of a vault's node.

        Raises:
            NoteNotFoundError: there is no such vault.
        """
        self._find_nodes()
        if name not in self._names:
            raise NoteNotFoundError(f"{name}: no vault of that name")
        return crc32(name.encode()) % len(self._nodes)

    def _find_nodes(self) -> None:
        """Find the nodes and the vaults, if they might have changed."""
        with self._lock:
            if self._is_current:
                return
            plan = find_plan()
            try:
                self._nodes = [ray.get_actor(name_node(n)) for n in range(plan.nodes)]
            except ValueError:
                raise LockTimeoutError(MISSING_NODE_TEXT) from None
            self._names = [each.name for each in plan.sources]
            self._is_current = True

    def _watch(self, reference: Any, lost: str) -> Future[Any]:
        """Return a call's result as a future; `lost` is the error message if its node is gone."""
        future: Future[Any] = Future()

        def finish(call: Future[Any]) -> None:
            error = call.exception()
            if not future.set_running_or_notify_cancel():
                return
            if error is None:
                future.set_result(call.result())
            else:
                future.set_exception(self._translate(error, lost))

        future.add_done_callback(lambda call: call.cancelled() and ray.cancel(reference))
        reference.future().add_done_callback(finish)
        return future

    def _translate(self, error: BaseException, lost: str) -> BaseException:
        """Return the error to raise here; after a lost node, look up the fleet again."""
        if not isinstance(error, RayTaskError):
            self._is_current = False
            return LockTimeoutError(lost)
        cause = error.cause
        if isinstance(cause, VaultError | OSError):
            return cause
        return SystemFailureError(str(cause or error).partition("\n")[0])


def find_plan() -> FleetPlan:
    """Return the plan of the cluster's fleet, from the first node that answers.

    Raises:
        NoteNotFoundError: no fleet runs there.
        RefusedError: the fleet is another version's.
        VaultError: it does not answer.
    """
    try:
        calls = [ray.get_actor(name).describe.remote() for name in list_named_actors()]
        if not calls:
            raise NoteNotFoundError(
                "no fleet runs in this cluster; `vaultmem fleet start` starts one"
            )
        ready, _ = ray.wait(calls, timeout=_STATUS_SECONDS)
        plan: FleetPlan = ray.get(ready[0] if ready else calls[0], timeout=0)
    except (RayError, GetTimeoutError, ValueError) as error:
        raise VaultError(f"the fleet does not answer ({type(error).__name__})") from None
    if plan.version != VERSION:
        raise RefusedError(f"the fleet is vaultmem {plan.version}, this is {VERSION}; use the same")
    return plan


def start_fleet(
    address: str, sources: Iterable[VaultSource], folder: str, fresh_for: float = FRESH_SECONDS
) -> RayPool:
    """Start a fleet in a cluster, replacing a running one; it continues after `close`.

    Raises:
        VaultError: there is no such cluster, or no machine in it that can work.
    """
    plan = FleetPlan(tuple(check_sources(sources).values()), folder, fresh_for=fresh_for)
    join_cluster(address)
    stop_nodes()
    start_nodes(plan)
    return RayPool(address)
