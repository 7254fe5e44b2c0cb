"""An event loop in a thread of its own, for whoever is asked by many at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

Result = TypeVar("Result")

#: Seconds for which its end is waited for.
_PATIENCE = 5.0


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
                self.run(_cancel_all()).result(_PATIENCE)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_PATIENCE)
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
