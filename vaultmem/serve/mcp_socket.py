"""The agents at the resident process's socket: who comes says who it is, and then speaks MCP.

The first line begins with "{", unlike a command, and is a JSON object: which vault is meant and in
whose name (`agent`, `session`, `ref`, `read_only`), and of where whoever asks is what `Caller`
holds and `PLACES` names. The answer is one too: whose version this is (`version`, `pid`), whether
it ends with its clients and how many there are (`passing`, `clients`), and "" or why it cannot
serve this one (`refused`). From then on each line is a message, as on standard input and output.
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

#: Seconds that a caller may take to say who it is; bytes of what it says at most.
_PATIENCE = 2.0
_LONGEST = 1 << 20

#: How often it is looked at in that time whether one that has hung up is gone.
_CHECKS = 40

#: Clients at once.
_MANY = 64

#: Seconds that answers have to get on their way when the process ends.
_GRACE = 0.1


Result = TypeVar("Result")

#: Seconds for which the end of its coroutines is waited for.
_END = 5.0


class AsyncThread:
    """Runs coroutines; it begins with the first of them, since asyncio takes 50 ms to import."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Have a coroutine run, from any thread."""
        import asyncio

        with self._lock:
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(work, loop)

    def close(self) -> None:
        """Let nothing run any more."""
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
    """Serves each who comes in their own name; the SDK is imported for the first of them."""

    def __init__(self, workers: Workers, talks: AsyncThread, idling: IdleTimer) -> None:
        self._workers = workers
        self._talks = talks
        self._idling = idling
        self._open: set[LineConnection] = set()
        self._lock = threading.Lock()
        self._subscribers: Subscribers | None = None

    def notice(self, path: str) -> None:
        """Tell agents that a path may have changed; called from any thread."""
        if self._subscribers is not None:
            self._subscribers.notice(path)

    def load(self) -> Subscribers:
        """Return who wants to hear of changes, with the SDK imported."""
        with self._lock:
            if self._subscribers is None:
                from vaultmem.mcp_server.run import load_server

                load_server()
                from vaultmem.mcp_server.resources import Subscribers

                self._subscribers = Subscribers()
            return self._subscribers

    def hold(self) -> None:
        """Take nothing more of anybody; what was taken is still answered."""
        for each in list(self._open):
            each.hold()

    def close(self) -> None:
        """Say goodbye to everybody."""
        if self._open:
            with contextlib.suppress(TimeoutError):
                self._talks.run(self._leave()).result(_PATIENCE)

    async def _leave(self) -> None:
        import asyncio

        await asyncio.sleep(_GRACE)
        await asyncio.gather(*(each.leave() for each in self._open), return_exceptions=True)

    def admit(self, connection: socket.socket) -> None:
        """Hear who it is, say who this is, and serve them."""
        with connection, contextlib.suppress(OSError, ValueError):
            told = {
                "version": vaultmem.__version__,
                "pid": os.getpid(),
                "passing": self._idling.ends,
                "clients": self._idling.clients,
                "refused": "",
            }
            caller = Caller()
            try:
                caller = read_caller(_read_hello(connection), self._workers.root)
                if self._idling.clients >= _MANY:
                    raise RefusedError(f"{_MANY} clients are served already")
            except VaultError as error:
                told["refused"] = str(error)
            with self._idling.client():
                connection.sendall(json.dumps(told).encode() + b"\n")
                if not told["refused"]:
                    self._serve(connection, caller)

    def _serve(self, connection: socket.socket, caller: Caller) -> None:
        subscribers = self.load()
        from vaultmem.mcp_server.tool_server import build_server
        from vaultmem.mcp_server.tool_text import LineConnection
        from vaultmem.workers import warm_up

        self._workers.submit_read(warm_up, caller)  # The first question waits less.
        connection.setblocking(False)
        lines = LineConnection(connection, partial(_close_sessions, self._workers, caller))
        self._open.add(lines)
        try:
            self._talks.run(lines.serve(build_server(self._workers, caller, subscribers))).result()
        finally:
            self._open.discard(lines)


async def _close_sessions(workers: Workers, caller: Caller, end: bytes) -> None:
    """Close the sessions of a client that has ended; one that is still there asks elsewhere."""
    import asyncio

    if not end and not await _has_died(caller.pid):
        return
    if (closing := workers.submit_close(caller, interrupted=end != GOODBYE)) is not None:
        await asyncio.wrap_future(closing)


async def _has_died(pid: int | None) -> bool:
    """Return whether a process that has hung up is gone, or is within some seconds."""
    import asyncio

    for _ in range(_CHECKS):
        if pid is not None and find_process(pid) is None:
            return True
        await asyncio.sleep(_PATIENCE / _CHECKS)
    return False


def read_caller(hello: dict[str, Any], root: Path) -> Caller:
    """Return who a client says it is.

    Raises:
        RefusedError: it has to be served by another process.
        VaultError: as for `read_config`.
    """
    if hello["root"] != str(root):
        raise RefusedError("another vault is served here")
    if hello["places"] != [os.environ.get(name, "") for name in PLACES]:
        raise RefusedError("this process has other folders, or another time zone")
    if find_spec("mcp") is None:
        raise RefusedError("mcp is not installed here")
    environment = {str(name): str(value) for name, value in hello["environment"].items()}
    agent = read_settings(hello["agent"], given=environment)["agent"] or read_config(root).agent
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
    """Return the first line of a client, which sends no second one before it has an answer.

    Raises:
        RefusedError: it is no such line.
        OSError: it does not come in time.
    """
    connection.settimeout(_PATIENCE)
    data = b""
    while not data.endswith(b"\n"):
        part = connection.recv(65_536)
        data += part
        if not part or len(data) > _LONGEST:
            raise RefusedError("that is not a client of this vault")
    found: dict[str, Any] = json.loads(data)
    return found


# When a process that was started for its clients ends: some time after the last has gone.


class IdleTimer:
    """Counts clients; calls `end` when there has been none for so many seconds (never for 0)."""

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
        """Be a client for the time of a `with`."""
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
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._seconds:
            self._timer = threading.Timer(self._seconds, self._end)
            self._timer.daemon = True
            self._timer.start()
