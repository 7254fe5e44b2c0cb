"""Connections to the process that serves a vault, which is started if needed.

A process started here ends some minutes after its last client. Only the standard library is
imported, and as little of it as possible.
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

#: Minutes without clients after which a process started here ends.
_IDLE = "5"

#: Timeouts in seconds, for starting a process and for its greeting.
_START = 20.0
_GREETING_SECONDS = 2.0


def reach(path: str, root: str, hello: bytes, is_resumed: bool) -> socket | None:
    """Return a connection to the process that serves a vault, started if needed.

    Return None if the caller has to serve alone. A process of another version is accepted only when
    a session is resumed (`is_resumed`).
    """
    end = monotonic() + _START
    process: Popen[bytes] | None = None
    while monotonic() < end:
        connection = _connect(path)
        if connection is not None:
            greeting = _greet(connection, hello)
            if greeting and not greeting["refused"]:
                if is_resumed or greeting["version"] == vaultmem.__version__:
                    return connection
                if greeting["passing"] and not greeting["clients"]:
                    connection.close()
                    os.kill(greeting["pid"], signal.SIGTERM)
                    while os.path.exists(path) and monotonic() < end:
                        sleep(0.01)
                    continue
            connection.close()
            if greeting or (greeting is None and process is None):
                return None
        elif process is None:
            process = _start(path, root)
            if process is None:
                return None
        elif process.poll() and not _is_watched(path):
            return None
        sleep(0.01)
    return None


def _connect(path: str) -> socket | None:
    from _socket import AF_UNIX, SOCK_STREAM, socket

    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        with short_path(path) as short_name:
            connection.connect(short_name)
    except OSError:
        connection.close()
        return None
    return connection


def _greet(connection: socket, hello: bytes) -> dict[str, Any] | None:
    """Send the greeting and return the process's reply.

    The reply is {} if the process is ending, and None on a timeout or if it admits no agents.
    """
    try:
        connection.settimeout(_GREETING_SECONDS)
        connection.sendall(hello)
        data = b""
        while not data.endswith(b"\n"):  # Nothing follows before the first request.
            part = connection.recv(65_536)
            if not part:
                return {}
            data = (data + part).lstrip(b"\n")  # Empty lines are heartbeats.
        connection.settimeout(None)
        if data == b"-\n":  # This process admits no agents.
            return None
        return json.loads(data)  # type: ignore[no-any-return]
    except TimeoutError:
        return None
    except (OSError, ValueError):
        return {}


def _start(path: str, root: str) -> Popen[bytes] | None:
    """Start the process that serves a vault, detached from this one."""
    from importlib.util import find_spec

    if not os.path.isdir(root) or find_spec("mcp") is None:
        return None
    import subprocess

    folder = os.path.dirname(path)
    idle = os.environ.get("VAULTMEM_IDLE", _IDLE)
    words = ["watch", "--json", "--idle-timeout", idle, "--vault", root]
    own = {k: v for k, v in os.environ.items() if not k.startswith("VAULTMEM_") and k not in SENT}
    log_path = os.path.join(folder, "watch.log")
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError:  # A sandbox: this process serves alone.
        return None
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "vaultmem", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",  # It keeps no folder busy.
            env=own,
            start_new_session=True,
        )
    except OSError:
        return None
    finally:
        os.close(log)


def _is_watched(path: str) -> bool:
    """Return whether a process holds or is acquiring the vault's watch lock."""
    import fcntl

    try:
        descriptor = os.open(os.path.join(os.path.dirname(path), "watch.lock"), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
