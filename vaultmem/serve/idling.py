"""When a process that was started for its clients ends: some time after the last has gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Idling:
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
