"""Server-sent events about changed notes, and long jobs with progress."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from vaultmem.errors import VaultError
from vaultmem.storage.watcher import EVERYTHING
from vaultmem.vault import Vault
from vaultmem.web.page_requests import make_caller
from vaultmem.workers import Workers

#: Seconds without changes before an event is sent, so that one save causes one event. Then the
#: longest delay, for folders that change all the time.
_DEBOUNCE_SECONDS, _MAX_DELAY_SECONDS = 0.2, 2.0

#: Seconds between two heartbeats: proxies and browsers close silent connections.
_HEARTBEAT_SECONDS = 15.0

#: The most listeners at once.
_MAX_LISTENERS = 64


class Events:
    """Sends changed paths from any thread to all listeners."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard: dict[asyncio.Queue[str], asyncio.AbstractEventLoop] = {}
        self._has_ended = False

    def notice(self, path: str) -> None:
        """Report a path that might have changed to all listeners; called from any thread."""
        with self._lock:
            listeners = list(self._heard.items())
        for queue, loop in listeners:
            with contextlib.suppress(RuntimeError):  # The listener's loop has ended.
                loop.call_soon_threadsafe(queue.put_nowait, path)

    async def listen(self) -> AsyncGenerator[list[str], None]:
        """Yield the paths that might have changed, after some quiet; an empty list as heartbeat."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        with self._lock:
            self._heard[queue] = asyncio.get_running_loop()
        try:
            yield []
            while not self._has_ended:
                yield await _collect(queue)
        finally:
            with self._lock:
                del self._heard[queue]

    def end(self) -> None:
        """End all listeners when the server ends."""
        self._has_ended = True
        self.notice(EVERYTHING)

    def has_room(self) -> bool:
        """Return whether another listener can be added."""
        return len(self._heard) < _MAX_LISTENERS


async def stream_events(request: Request) -> Response:
    """Return a stream of `changed` events, each with the paths that might have changed."""
    events: Events = request.app.state.events
    if not events.has_room():
        return Response("too many event listeners", 503, {"Retry-After": "30"})
    headers = {"X-Accel-Buffering": "no", "Content-Encoding": "identity"}
    return StreamingResponse(_write(events), 200, headers, "text/event-stream")


async def _write(events: Events) -> AsyncIterator[str]:
    async with contextlib.aclosing(events.listen()) as changes:
        async for paths in changes:
            yield f"event: changed\ndata: {json.dumps(paths)}\n\n" if paths else ": \n\n"


async def _collect(queue: asyncio.Queue[str]) -> list[str]:
    paths: dict[str, None] = {}
    try:
        async with asyncio.timeout(_HEARTBEAT_SECONDS):
            paths[await queue.get()] = None
        async with asyncio.timeout(_MAX_DELAY_SECONDS):
            while True:
                async with asyncio.timeout(_DEBOUNCE_SECONDS):
                    paths[await queue.get()] = None
    except TimeoutError:
        return list(paths)


# Long jobs: started once, then polled by pages.

#: Called with the number of finished steps, and the number of all.
TellProgress = Callable[[int, int], None]

#: Work that reports its progress.
LongWork = Callable[[TellProgress, Vault], Any]


class Progress(NamedTuple):
    """The progress of a job: `share` from 0 to 1; `problem` is the error that ended it."""

    share: float
    is_done: bool
    problem: str = ""


class Jobs:
    """The running jobs of a process, by name, and the outcome of finished ones."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._begun: dict[str, Future[Any]] = {}
        self._shares: dict[str, float] = {}

    def start(self, name: str, request: Request, work: LongWork) -> None:
        """Start a job that reads, unless a job of this name is running."""
        previous = self._begun.get(name)
        if previous is not None and not previous.done():
            return
        self._shares[name] = 0.0
        job = partial(
            work, partial(self._describe, name) if self._workers.are_here else _ignore_progress
        )
        self._begun[name] = self._workers.submit_long(job, make_caller(request))

    def find(self, name: str) -> Progress | None:
        """Return the progress of a job, None if it was never started."""
        future = self._begun.get(name)
        if future is None:
            return None
        if not future.done():
            return Progress(self._shares[name], is_done=False)
        error = future.exception()
        if error is None:
            return Progress(1.0, is_done=True)
        problem = str(error) if isinstance(error, VaultError) else "internal error"
        return Progress(1.0, is_done=True, problem=problem)

    def _describe(self, name: str, count: int, total: int) -> None:
        self._shares[name] = count / total if total else 1.0


def _ignore_progress(count: int, total: int) -> None:
    """Ignore the progress, for work that another process can run."""
