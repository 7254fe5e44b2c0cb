"""A fleet as a pool: a node of a cluster answers for each vault; if it is lost, another does."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, TypeVarTuple
from zlib import crc32

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError, TaskCancelledError

from vaultmem.errors import BusyError, FaultError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.fleet.node import (
    VERSION,
    Plan,
    Registry,
    join_cluster,
    leave_cluster,
    name_node,
    start_nodes,
    stop_nodes,
)
from vaultmem.services.pools.clone import Source, check_sources
from vaultmem.services.pools.clones import FRESH_FOR, LATE, Clones
from vaultmem.services.pools.pool import Lane, Pool
from vaultmem.services.pools.question import Opening, Part
from vaultmem.services.pools.status import NodeStatus, NodeVaults, PoolStatus, describe_pool

T = TypeVar("T")
Args = TypeVarTuple("Args")

_REGISTRY = "registry"

#: Seconds within which the registry answers, and after which it is asked again.
_ANSWERS_WITHIN, _ASK_AGAIN = 30.0, 5.0

#: For how many seconds a read is sent again whose node is being restarted, and how often.
_TRIED_FOR, _PAUSE = 60.0, 0.5

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
    the node elsewhere and repeats what was only read; of a write it is said that nobody knows.

    Raises:
        VaultError: there is no such cluster.
        NoteNotFoundError: no fleet runs there.
        RefusedError: the fleet is another version's.
    """

    def __init__(self, address: str) -> None:
        join_cluster(address)
        self._lock = threading.Lock()
        self._looked = 0.0
        self._plan = Plan((), "")
        self._sources: dict[str, Source] = {}
        self._nodes: list[Any] = []
        self._look()

    @property
    def names(self) -> Sequence[str]:
        """All vaults, in the order of their sources."""
        self._look_again()
        return list(self._sources)

    def hold(self, sources: Sequence[Source]) -> None:
        """Have these vaults from now on; clones of others that the nodes had are removed."""
        plan = self._plan._replace(sources=tuple(check_sources(sources).values()))
        _publish(plan)
        for each in [each.hold.remote(plan.sources) for each in self._nodes]:
            with contextlib.suppress(RayError):  # Who is away begins with nothing.
                ray.get(each, timeout=_ANSWERS_WITHIN)
        self._look()

    def submit(
        self,
        name: str,
        work: Callable[[Clones, str, *Args], T],
        *args: *Args,
        lane: Lane = Lane.READ,
    ) -> Future[T]:
        """Have a function called on the node of a vault."""
        source = self._find(name)

        def send() -> Any:
            method = getattr(self._nodes[self._choose_node(name)], lane.value)
            return method.remote(source, work, args)

        return self._write(name, send) if lane is Lane.WRITE else self._call(send)

    def call_parts(
        self,
        given: Mapping[str, Sequence[Any]],
        work: Callable[..., Part],
        opening: Opening,
        *args: Any,
    ) -> list[Part]:
        """Call a function for some vaults, once on each node that has some."""
        divided: dict[int, dict[str, Sequence[Any]]] = {}
        for name, own in given.items():
            self._find(name)
            divided.setdefault(self._choose_node(name), {})[name] = own
        running = []
        for number, part in divided.items():
            sources = [self._sources[name] for name in part]
            asked = partial(self._send_part, number, sources, part, work, opening, args)
            running.append((part, self._call(asked)))
        end = None if opening.seconds is None else time.monotonic() + opening.seconds + _GRACE
        return [_await_part(part, future, end) for part, future in running]

    def status(self) -> PoolStatus:
        """Return how the fleet is; a node that does not answer is named."""
        self._look_again()
        asked = [(name_node(n), node.look.remote()) for n, node in enumerate(self._nodes)]
        end = time.monotonic() + _ANSWERS_WITHIN
        found = []
        for name, reference in asked:
            try:
                found.append(ray.get(reference, timeout=max(0.0, end - time.monotonic())))
            except (RayError, GetTimeoutError):
                found.append(NodeVaults(NodeStatus(name, problem="does not answer"), {}, {}))
        return describe_pool(self.names, found)

    def stop(self) -> None:
        """End the fleet; its folders stay."""
        _stop()

    def close(self) -> None:
        """Leave the cluster; the fleet stays."""
        leave_cluster()

    def _send_part(self, number: int, *given: Any) -> Any:
        return self._nodes[number].call_part.remote(*given)

    def _send_ready(self, number: int) -> Any:
        return self._nodes[number].answer.remote()

    def _find(self, name: str) -> Source:
        self._look_again()
        if name not in self._sources:
            raise NoteNotFoundError(f"{name}: no vault of that name")
        return self._sources[name]

    def _choose_node(self, name: str) -> int:
        return crc32(name.encode()) % len(self._nodes)

    def _look_again(self) -> None:
        """Learn what the fleet is by now, if that was not asked lately."""
        if time.monotonic() - self._looked > _ASK_AGAIN:
            with contextlib.suppress(VaultError):  # It may be back in a moment.
                self._look()

    def _look(self) -> None:
        with self._lock:
            plan = find_plan()
            if plan is None:
                raise NoteNotFoundError(
                    "no fleet runs in this cluster; `vaultmem fleet start` starts one"
                )
            if plan.version != VERSION:
                raise RefusedError(
                    f"the fleet is vaultmem {plan.version}, this is {VERSION}; use the same"
                )
            try:
                self._nodes = [ray.get_actor(name_node(n)) for n in range(plan.nodes)]
            except ValueError:
                raise BusyError(AWAY) from None
            self._plan = plan
            self._sources = {each.name: each for each in plan.sources}
            self._looked = time.monotonic()

    def _write(self, name: str, send: Callable[[], Any]) -> Future[Any]:
        """Return what a write comes to; it is sent once its node answers, and not again."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def finish(done: Future[Any]) -> None:
            if error := done.exception():
                future.set_exception(error)
            else:
                future.set_result(done.result())

        def begin(ready: Future[Any]) -> None:
            if ready.exception():
                future.set_exception(BusyError(f"not written: {AWAY}"))
            else:
                self._call(send, is_write=True).add_done_callback(finish)

        ask = partial(self._send_ready, self._choose_node(name))
        self._call(ask).add_done_callback(begin)
        return future

    def _call(self, send: Callable[[], Any], is_write: bool = False) -> Future[Any]:
        """Return what a call comes to; a read is sent again while its node is being restarted."""
        future: Future[Any] = Future()
        end = time.monotonic() + _TRIED_FOR

        def start() -> None:
            try:
                reference = send()
            except Exception as error:  # noqa: BLE001  Whoever asked is told.
                _set(future, error=error)
                return
            future.add_done_callback(lambda done: done.cancelled() and ray.cancel(reference))
            reference.future().add_done_callback(finish)

        def finish(done: Future[Any]) -> None:
            error = done.exception()
            if future.cancelled() or isinstance(error, TaskCancelledError):
                return
            if error is None:
                _set(future, done.result())
            elif isinstance(error, RayTaskError):
                _set(future, error=_read_cause(error))
            elif is_write or time.monotonic() > end:
                _set(future, error=BusyError(UNKNOWN if is_write else AWAY))
            else:
                self._looked = 0.0
                threading.Timer(_PAUSE, start).start()

        start()
        return future


def _set(future: Future[Any], value: object = None, error: Exception | None = None) -> None:
    """Tell who waits what came of a call, unless they have left."""
    if future.set_running_or_notify_cancel():
        future.set_exception(error) if error else future.set_result(value)


def start_fleet(
    address: str, sources: Iterable[Source], folder: str, fresh_for: float = FRESH_FOR
) -> RayPool:
    """Start a fleet in a cluster, or start it anew with other vaults; it stays after `close`.

    Raises:
        VaultError: there is no such cluster, or no machine in it that may do work.
    """
    join_cluster(address)
    _start(Plan(tuple(check_sources(sources).values()), folder, fresh_for=fresh_for))
    return RayPool(address)


def _start(plan: Plan) -> None:
    """Start a node for each machine that has a CPU for Ray's work, in place of those there were."""
    _stop()
    alive = [each for each in ray.nodes() if each["Alive"] and each["Resources"].get("CPU")]
    plan = plan._replace(nodes=max(1, len(alive)))
    ray.get([each.hold.remote(plan.sources) for each in start_nodes(plan)])
    _publish(plan)


def _publish(plan: Plan) -> None:
    """Let all who ask know what the fleet is."""
    with contextlib.suppress(ValueError):
        ray.kill(ray.get_actor(_REGISTRY))
    made = ray.remote(Registry).options(
        name=_REGISTRY, lifetime="detached", max_restarts=-1, max_task_retries=-1, num_cpus=0
    )
    end = time.monotonic() + _ANSWERS_WITHIN
    while True:
        try:
            ray.get(made.remote(plan).describe.remote(), timeout=_ANSWERS_WITHIN)
        except ValueError:  # The name of the one before is given back in a moment.
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def _stop() -> None:
    """End all nodes; their folders stay."""
    if plan := find_plan():
        with contextlib.suppress(ValueError):
            ray.kill(ray.get_actor(_REGISTRY))
        stop_nodes(plan)


def find_plan() -> Plan | None:
    """Return what the fleet of the cluster is, None if there is none.

    Raises:
        VaultError: it does not answer.
    """
    try:
        found: Plan = ray.get(ray.get_actor(_REGISTRY).describe.remote(), timeout=_ANSWERS_WITHIN)
    except ValueError:
        return None
    except (RayError, GetTimeoutError) as error:
        raise VaultError(f"the fleet does not answer ({type(error).__name__})") from None
    return found


def _await_part(own: Mapping[str, object], future: Future[Part], end: float | None) -> Part:
    """Return what comes of a node's vaults in time, else why nothing does."""
    try:
        return future.result(None if end is None else max(0.0, end - time.monotonic()))
    except TimeoutError:
        future.cancel()
        return Part({}, dict.fromkeys(own, LATE))
    except BusyError as error:
        return Part({}, dict.fromkeys(own, str(error)))


def _read_cause(error: RayTaskError) -> Exception:
    """Return what was raised on the node."""
    cause = error.cause
    if isinstance(cause, VaultError | OSError):
        return cause
    return FaultError(str(cause or error).partition("\n")[0])
