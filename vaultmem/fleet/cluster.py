"""Start Ray on this machine or attach to a cluster, without its words on the terminal."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
from typing import Any

import ray

from vaultmem.errors import VaultError
from vaultmem.fleet.plan import NAMESPACE

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
