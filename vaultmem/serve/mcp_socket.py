"""The agents at the resident process's socket: a greeting, then MCP.

The first line is a JSON object; unlike a command, it begins with "{". It names the vault and the
author (`agent`, `session`, `ref`, `read_only`), and has the other fields of `Caller` and the
variables in `PLACES`. The reply is a JSON object too. It has the version and process (`version`,
`pid`). `passing` is whether the process ends with its clients, `clients` their number. `refused` is
why it cannot serve this client, or "". Each further line is a message, as on standard input and
output.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import vaultmem
from vaultmem.config import read_config
from vaultmem.environment import read_settings
from vaultmem.errors import RefusedError, VaultError
from vaultmem.storage.lock import find_process
from vaultmem.storage.watch_socket import GOODBYE, PLACES
from vaultmem.workers import Caller, Workers

if TYPE_CHECKING:
    import asyncio

    from vaultmem.mcp_server.resources import Subscribers
    from vaultmem.mcp_server.tool_text import LineConnection

#: Limits for the greeting, in seconds and bytes.
_GREETING_SECONDS = 2.0
_MAX_GREETING_BYTES = 1 << 20

#: How many times per `_GREETING_SECONDS` a disconnected client's process is checked.
_CHECKS = 40

#: Maximum number of clients.
_MAX_CLIENTS = 64

#: Seconds to send responses when the process ends.
_SHUTDOWN_SECONDS = 0.1


Result = TypeVar("Result")

#: Seconds to wait for its coroutines to end.
_END = 5.0


class AsyncThread:
    """An event loop in a thread, started with the first coroutine (asyncio imports in 50 ms)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start a coroutine, from any thread."""
        import asyncio

        with self._lock:
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(work, loop)

    def close(self) -> None:
        """Cancel all coroutines and stop the thread."""
        if self._thread is not None:
            with contextlib.suppress(TimeoutError):
                self.run(_cancel_all()).result(_END)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_END)
            if not self._thread.is_alive():
                self._loop.close()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        import asyncio

        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="talks", daemon=True)
        self._thread.start()
        return loop


async def _cancel_all() -> None:
    import asyncio

    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class AgentConnections:
    """The agents' connections, each served in its own name; the first one imports the SDK."""

    def __init__(self, workers: Workers, async_thread: AsyncThread, idling: IdleTimer) -> None:
        self._workers = workers
        self._talks = async_thread
        self._idling = idling
        self._open: set[LineConnection] = set()
        self._lock = threading.Lock()
        self._subscribers: Subscribers | None = None

    def notice(self, path: str) -> None:
        """Notify agents that a path might have changed; any thread can call it."""
        if self._subscribers is not None:
            self._subscribers.notice(path)

    def load(self) -> Subscribers:
        """Return the subscribers to changes, after importing the SDK."""
        with self._lock:
            if self._subscribers is None:
                from vaultmem.mcp_server.run import load_server

                load_server()
                from vaultmem.mcp_server.resources import Subscribers

                self._subscribers = Subscribers()
            return self._subscribers

    def hold(self) -> None:
        """Accept no more requests; those accepted are still answered."""
        for each in list(self._open):
            each.hold()

    def close(self) -> None:
        """Send goodbye to all clients."""
        if self._open:
            with contextlib.suppress(TimeoutError):
                self._talks.run(self._leave()).result(_GREETING_SECONDS)

    async def _leave(self) -> None:
        import asyncio

        await asyncio.sleep(_SHUTDOWN_SECONDS)
        await asyncio.gather(*(each.leave() for each in self._open), return_exceptions=True)

    def admit(self, connection: socket.socket) -> None:
        """Exchange greetings with a client, and serve it."""
        with connection, contextlib.suppress(OSError, ValueError):
            greeting = {
                "version": vaultmem.__version__,
                "pid": os.getpid(),
                "passing": self._idling.ends,
                "clients": self._idling.clients,
                "refused": "",
            }
            caller = Caller()
            try:
                caller = read_caller(_read_hello(connection), self._workers.root)
                if self._idling.clients >= _MAX_CLIENTS:
                    raise RefusedError(f"{_MAX_CLIENTS} clients are served already")
            except VaultError as error:
                greeting["refused"] = str(error)
            with self._idling.client():
                connection.sendall(json.dumps(greeting).encode() + b"\n")
                if not greeting["refused"]:
                    self._serve(connection, caller)

    def _serve(self, connection: socket.socket, caller: Caller) -> None:
        subscribers = self.load()
        from vaultmem.mcp_server.tool_server import build_server
        from vaultmem.mcp_server.tool_text import LineConnection
        from vaultmem.workers import warm_up

        self._workers.submit_read(warm_up, caller)  # Makes the first query faster.
        connection.setblocking(False)
        lines = LineConnection(connection, partial(_close_sessions, self._workers, caller))
        self._open.add(lines)
        try:
            self._talks.run(lines.serve(build_server(self._workers, caller, subscribers))).result()
        finally:
            self._open.discard(lines)


async def _close_sessions(workers: Workers, caller: Caller, end: bytes) -> None:
    """Close the sessions of a client that ended; a live client has reconnected elsewhere."""
    import asyncio

    if not end and not await _has_died(caller.pid):
        return
    if (closing := workers.submit_close(caller, interrupted=end != GOODBYE)) is not None:
        await asyncio.wrap_future(closing)


async def _has_died(pid: int | None) -> bool:
    """Return whether a disconnected process is gone, waiting some seconds for it."""
    import asyncio

    for _ in range(_CHECKS):
        if pid is not None and find_process(pid) is None:
            return True
        await asyncio.sleep(_GREETING_SECONDS / _CHECKS)
    return False


def read_caller(hello: dict[str, Any], root: Path) -> Caller:
    """Return the caller that a greeting describes.

    Raises:
        RefusedError: another process has to serve it.
        VaultError: as for `read_config`.
    """
    if hello["root"] != str(root):
        raise RefusedError("another vault is served here")
    if hello["places"] != [os.environ.get(name, "") for name in PLACES]:
        raise RefusedError("this process has other folders, or another time zone")
    if find_spec("mcp") is None:
        raise RefusedError("mcp is not installed here")
    environment = {str(name): str(value) for name, value in hello["environment"].items()}
    agent = read_settings(hello["agent"], variables=environment)["agent"] or read_config(root).agent
    return Caller(
        agent or "mcp",
        str(hello["session"]),
        str(hello["ref"]),
        environment,
        Path(hello["folder"]) if hello["folder"] else None,
        int(hello["pid"]),
        not hello["read_only"],
        asks_others=True,
    )


def _read_hello(connection: socket.socket) -> dict[str, Any]:
    """Return a client's first line; the client sends no more before the reply.

    Raises:
        RefusedError: it is not a greeting.
        OSError: it did not arrive in time.
    """
    connection.settimeout(_GREETING_SECONDS)
    data = b""
    while not data.endswith(b"\n"):
        part = connection.recv(65_536)
        data += part
        if not part or len(data) > _MAX_GREETING_BYTES:
            raise RefusedError("that is not a client of this vault")
    hello: dict[str, Any] = json.loads(data)
    return hello


# Ends a process that was started for its clients, some time after the last has gone.


class IdleTimer:
    """A counter of clients that calls `end` after `seconds` without any (0: never)."""

    def __init__(self, seconds: float, end: Callable[[], None]) -> None:
        self.clients = 0
        self.ends = bool(seconds)
        self._seconds = seconds
        self._end = end
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._wait()

    @contextmanager
    def client(self) -> Iterator[None]:
        """Register as a client while the context is open."""
        with self._lock:
            self.clients += 1
            self.stop()
        try:
            yield
        finally:
            with self._lock:
                self.clients -= 1
                if not self.clients:
                    self._wait()

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._seconds:
            self._timer = threading.Timer(self._seconds, self._end)
            self._timer.daemon = True
            self._timer.start()
