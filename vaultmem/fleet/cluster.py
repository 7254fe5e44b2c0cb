"""Join a cluster of Ray's, without its words and without its handlers of signals."""

from __future__ import annotations

import signal
import socket
import threading
from typing import Any

import ray

from vaultmem.errors import VaultError

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
