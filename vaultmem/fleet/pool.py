"""A fleet as a pool: a node of a cluster answers for each vault; if it is lost, another does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, TypeVarTuple
from zlib import crc32

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util import list_named_actors

from vaultmem.errors import BusyError, FaultError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.fleet.node import VERSION, Plan, join_cluster, name_node, start_nodes, stop_nodes
from vaultmem.services.pools.clone import Source, check_sources
from vaultmem.services.pools.clones import FRESH_FOR, LATE, Clones
from vaultmem.services.pools.pool import Lane, Pool
from vaultmem.services.pools.question import Each, Opening
from vaultmem.services.pools.status import NodeStatus, NodeVaults, PoolStatus, describe_pool

T = TypeVar("T")
Args = TypeVarTuple("Args")

#: Seconds within which a node says what the fleet is, and how it is itself.
_ANSWERS_WITHIN = 30.0

#: Seconds more than the vaults have that a node has to answer for them.
_GRACE = 2.0

#: What is said of a vault whose node is not there, and of a write of which the end is not known.
AWAY = "its node is not there; it comes back on another machine, ask again in a few seconds"
UNKNOWN = (
    "its node died meanwhile, so it may be written or not; look at the vault before you write it "
    "again"
)


class RayPool(Pool):
    """The fleet of the cluster at an address; `close` leaves it as it is.

    A vault is asked of the node that its name chooses. If that node's machine is lost, Ray starts
    the node elsewhere and repeats what was only read; a write that was cut off is not repeated.

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
        """Have a function called on the node of a vault."""
        node = self._nodes[self._choose_node(name)]
        if lane is Lane.WRITE:
            return self._watch(node.write.remote(name, work, args, node.answer.remote()), UNKNOWN)
        return self._watch(getattr(node, lane.value).remote(name, work, args), AWAY)

    def call_parts(
        self,
        given: Mapping[str, Sequence[Any]],
        work: Callable[..., Each[T]],
        opening: Opening,
        *args: Any,
    ) -> Each[T]:
        """Call a function for some vaults, once on each node that has some."""
        divided: dict[int, dict[str, Sequence[Any]]] = {}
        for name, own in given.items():
            divided.setdefault(self._choose_node(name), {})[name] = own
        running = {
            self._nodes[number].call_part.remote(part, work, opening, args): part
            for number, part in divided.items()
        }
        seconds = None if opening.seconds is None else opening.seconds + _GRACE
        _, late = ray.wait([*running], num_returns=len(running), timeout=seconds)
        results: dict[str, T] = {}
        missing: dict[str, str] = {}
        for reference, part in running.items():
            if reference in late:
                ray.cancel(reference)
                missing |= dict.fromkeys(part, LATE)
                continue
            try:
                found = ray.get(reference)
                results |= found.results
                missing |= found.missing
            except RayError as error:
                cause = self._translate(error, AWAY)
                if not isinstance(cause, BusyError):
                    raise cause from None
                missing |= dict.fromkeys(part, str(cause))
        return Each(
            {name: results[name] for name in given if name in results},
            {name: missing[name] for name in given if name in missing},
        )

    def status(self) -> PoolStatus:
        """Return how the fleet is; a node that does not answer is named."""
        self._find_nodes()
        asked = [node.look.remote() for node in self._nodes]
        ray.wait(asked, num_returns=len(asked), timeout=_ANSWERS_WITHIN)
        found = []
        for number, reference in enumerate(asked):
            try:
                found.append(ray.get(reference, timeout=0))
            except (RayError, GetTimeoutError):
                silent = NodeStatus(name_node(number), problem="does not answer")
                found.append(NodeVaults(silent, {}, {}))
        return describe_pool(self._names, found)

    def stop(self) -> None:
        """End the fleet; its folders stay."""
        stop_nodes()

    def close(self) -> None:
        """Leave the cluster; the fleet stays."""
        ray.shutdown()

    def _choose_node(self, name: str) -> int:
        """Return the number of the node that a vault is asked of.

        Raises:
            NoteNotFoundError: there is no such vault.
        """
        self._find_nodes()
        if name not in self._names:
            raise NoteNotFoundError(f"{name}: no vault of that name")
        return crc32(name.encode()) % len(self._nodes)

    def _find_nodes(self) -> None:
        """Find the nodes and what they are to hold, if that may have changed."""
        with self._lock:
            if self._is_current:
                return
            plan = find_plan()
            try:
                self._nodes = [ray.get_actor(name_node(n)) for n in range(plan.nodes)]
            except ValueError:
                raise BusyError(AWAY) from None
            self._names = [each.name for each in plan.sources]
            self._is_current = True

    def _watch(self, reference: Any, lost: str) -> Future[Any]:
        """Return what a call comes to; `lost` is said where its node does not answer any more."""
        future: Future[Any] = Future()

        def finish(done: Future[Any]) -> None:
            error = done.exception()
            if not future.set_running_or_notify_cancel():
                return
            if error is None:
                future.set_result(done.result())
            else:
                future.set_exception(self._translate(error, lost))

        future.add_done_callback(lambda done: done.cancelled() and ray.cancel(reference))
        reference.future().add_done_callback(finish)
        return future

    def _translate(self, error: BaseException, lost: str) -> BaseException:
        """Return what was raised on the node; if it was lost, the fleet may be another by now."""
        if not isinstance(error, RayTaskError):
            self._is_current = False
            return BusyError(lost)
        cause = error.cause
        if isinstance(cause, VaultError | OSError):
            return cause
        return FaultError(str(cause or error).partition("\n")[0])


def find_plan() -> Plan:
    """Return what the fleet of the cluster is, as the first node says that answers.

    Raises:
        NoteNotFoundError: no fleet runs there.
        RefusedError: the fleet is another version's.
        VaultError: it does not answer.
    """
    try:
        asked = [ray.get_actor(name).describe.remote() for name in list_named_actors()]
        if not asked:
            raise NoteNotFoundError(
                "no fleet runs in this cluster; `vaultmem fleet start` starts one"
            )
        ready, _ = ray.wait(asked, timeout=_ANSWERS_WITHIN)
        plan: Plan = ray.get(ready[0] if ready else asked[0], timeout=0)
    except (RayError, GetTimeoutError, ValueError) as error:
        raise VaultError(f"the fleet does not answer ({type(error).__name__})") from None
    if plan.version != VERSION:
        raise RefusedError(f"the fleet is vaultmem {plan.version}, this is {VERSION}; use the same")
    return plan


def start_fleet(
    address: str, sources: Iterable[Source], folder: str, fresh_for: float = FRESH_FOR
) -> RayPool:
    """Start a fleet in a cluster, in place of the one that is there; it stays after `close`.

    Raises:
        VaultError: there is no such cluster, or no machine in it that may do work.
    """
    plan = Plan(tuple(check_sources(sources).values()), folder, fresh_for=fresh_for)
    join_cluster(address)
    stop_nodes()
    start_nodes(plan)
    return RayPool(address)
