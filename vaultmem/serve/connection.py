"""Find the process that serves a vault, for a session of an agent; where none is alive, start one.

One that was started here ends when its last client has been gone for some minutes. The standard
library alone is imported, and as little of it as can be.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from time import monotonic, sleep

import vaultmem
from vaultmem.storage.watch_socket import SENT, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from subprocess import Popen
    from typing import Any

#: Minutes for which a process that was started here stays without clients.
_IDLE = "5"

#: Seconds that a process may take to start; to say who it is; and to end.
_START = 20.0
_PATIENCE = 2.0


def reach(place: str, root: str, hello: bytes, again: bool) -> socket | None:
    """Return a connection to the process that serves a vault, started if there is none.

    None where it has to be done without. A newer or older one is taken only to go on (`again`).
    """
    end = monotonic() + _START
    started: Popen[bytes] | None = None
    while monotonic() < end:
        connection = _connect(place)
        if connection is not None:
            told = _greet(connection, hello)
            if told and not told["refused"]:
                if again or told["version"] == vaultmem.__version__:
                    return connection
                if told["passing"] and not told["clients"]:
                    connection.close()
                    os.kill(told["pid"], signal.SIGTERM)
                    while os.path.exists(place) and monotonic() < end:
                        sleep(0.01)
                    continue
            connection.close()
            if told or (told is None and started is None):
                return None
        elif started is None:
            started = _start(place, root)
            if started is None:
                return None
        elif started.poll() and not _is_watched(place):
            return None
        sleep(0.01)
    return None


def _connect(place: str) -> socket | None:
    from _socket import AF_UNIX, SOCK_STREAM, socket

    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        with short_path(place) as short:
            connection.connect(short)
    except OSError:
        connection.close()
        return None
    return connection


def _greet(connection: socket, hello: bytes) -> dict[str, Any] | None:
    """Say who this is; return what the process says of itself.

    That is nothing if it is just ending, and None if it does not say it in time.
    """
    try:
        connection.settimeout(_PATIENCE)
        connection.sendall(hello)
        data = b""
        while not data.endswith(b"\n"):  # It says nothing more before it is asked.
            part = connection.recv(65_536)
            if not part:
                return {}
            data = (data + part).lstrip(b"\n")  # An empty line says that it is there.
        connection.settimeout(None)
        if data == b"-\n":  # One that admits no agents.
            return None
        return json.loads(data)  # type: ignore[no-any-return]
    except TimeoutError:
        return None
    except (OSError, ValueError):
        return {}


def _start(place: str, root: str) -> Popen[bytes] | None:
    """Start the process that serves a vault; it belongs to nobody."""
    from importlib.util import find_spec

    if not os.path.isdir(root) or find_spec("mcp") is None:
        return None
    import subprocess

    folder = os.path.dirname(place)
    idle = os.environ.get("VAULTMEM_IDLE", _IDLE)
    words = ["watch", "--json", "--idle-timeout", idle, "--vault", root]
    own = {k: v for k, v in os.environ.items() if not k.startswith("VAULTMEM_") and k not in SENT}
    named = os.path.join(folder, "watch.log")
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        log = os.open(named, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError:  # A sandbox: this process serves alone.
        return None
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "vaultmem", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",  # No folder is kept busy by it.
            env=own,
            start_new_session=True,
        )
    except OSError:
        return None
    finally:
        os.close(log)


def _is_watched(place: str) -> bool:
    """Tell whether a process holds the vault's watch, or is about to."""
    import fcntl

    try:
        held = os.open(os.path.join(os.path.dirname(place), "watch.lock"), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(held)
    return False
