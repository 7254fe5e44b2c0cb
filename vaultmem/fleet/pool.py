"""A pool whose shards are in a cluster of Ray's, started here without its words, or attached to."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

import ray

from vaultmem.errors import VaultError
from vaultmem.fleet.plan import NAMESPACE, Plan
from vaultmem.fleet.shards import RayShards
from vaultmem.services.pools.pool import Pool
from vaultmem.services.pools.source import Source

#: Seconds within which a cluster has to be reached.
_REACHED_WITHIN = 5.0

#: Bytes of memory that machines share objects in; answers are small.
_STORE = 100 << 20


class Cluster:
    """Ray in this process: of this machine alone where no `address` is given.

    `close` ends what was started here, and leaves a cluster that was there.
    """

    def __init__(self, address: str = "", cpus: int = 0) -> None:
        self.is_own = not address
        self._folder = ""
        given: dict[str, Any] = {"address": address}
        if self.is_own:
            # Paths of sockets in it have to stay below 108 bytes.
            self._folder = tempfile.mkdtemp(prefix="vaultmem-ray-")
            given = {
                "address": "local",
                "num_cpus": cpus or os.cpu_count() or 1,
                "include_dashboard": False,
                "object_store_memory": _STORE,
                "_temp_dir": self._folder,
            }
        else:
            _check_reached(address)
        kept = _read_handlers()
        try:
            ray.init(namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR", **given)
        except (OSError, RuntimeError, ValueError) as error:
            self.close()
            why = str(error).strip().splitlines()[0]
            also = "; if it asks for Ray's token, set RAY_AUTH_MODE=token" if address else ""
            raise VaultError(f"{address or 'Ray'}: no cluster could be used: {why}{also}") from None
        except BaseException:
            self.close()
            raise
        finally:
            _restore_handlers(kept)
        _keep_silent()

    def close(self) -> None:
        """Leave the cluster; what was started here ends."""
        ray.shutdown()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


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


def _keep_silent() -> None:
    """Keep what Ray tells of dead processes off standard output, where answers go.

    It prints that whatever `log_to_driver` says, and has no setting against it; a later Ray that
    names this differently prints it again.
    """
    from ray._private import worker

    worker.print_to_stdstream = lambda *given, **named: None


def _read_handlers() -> Any:
    """Return what answers SIGTERM, which `ray.init` takes for itself."""
    return (
        signal.getsignal(signal.SIGTERM)
        if threading.current_thread() is threading.main_thread()
        else None
    )


def _restore_handlers(kept: Any) -> None:
    if kept is not None:
        signal.signal(signal.SIGTERM, kept)


class RayPool(Pool):
    """A fleet: one that runs at an `address`, else one of this machine alone.

    What this starts ends with `close`: processes here, and a fleet in a cluster that had none,
    unless it `stays`. `shards` are so many on each machine at most.
    """

    def __init__(
        self,
        plan: Plan,
        sources: Sequence[Source] | None = None,
        address: str = "",
        stays: bool = False,
    ) -> None:
        self._cluster = Cluster(address, plan.most or os.cpu_count() or 1)
        try:
            self._ends = not stays and not _is_there()
            self.shards = RayShards(sources, plan)
        except BaseException:
            self._cluster.close()
            raise
        super().__init__(self.shards)

    def close(self) -> None:
        """Leave the fleet, or end it if it was started here."""
        try:
            self.shards.close()
            if self._ends:
                self.shards.stop()
        finally:
            self._cluster.close()


def _is_there() -> bool:
    import ray

    from vaultmem.fleet.plan import KEEPER, NAMESPACE

    named = ray.util.list_named_actors(all_namespaces=True)
    return {"name": KEEPER, "namespace": NAMESPACE} in named
