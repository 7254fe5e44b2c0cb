"""File events of a folder by watchdog: on Linux from an emitter of ours, elsewhere from its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from watchdog.events import FileSystemEventHandler
from watchdog.observers.api import EventEmitter, EventQueue, ObservedWatch
from watchdog.utils import BaseThread

#: Seconds in which threads that are to end have ended.
_PATIENCE = 5.0


class FolderEvents(FileSystemEventHandler):
    """Watches a folder from threads of watchdog's until it is stopped.

    `notice` is called with a path relative to the folder, and whether it is a folder; "" is the
    folder itself, where it is not known what changed. `enters` tells, for `is_ours`, which folders
    are of interest.
    """

    def __init__(
        self,
        root: Path,
        notice: Callable[[str, bool], None],
        enters: Callable[[str], bool],
        is_ours: bool,
    ) -> None:
        self._prefix = os.path.join(root, "")
        self._notice = notice
        self._emitter: EventEmitter
        #: The thread that is started and stopped.
        self._first: BaseThread
        if is_ours:
            from vaultmem.storage.inotify import TreeEmitter

            watch = ObservedWatch(root, recursive=True)
            self._first = self._emitter = TreeEmitter(
                _Passing(self.dispatch), watch, enters=lambda path: enters(self._inside(path))
            )
        else:
            from watchdog.observers import Observer

            observer = Observer()
            observer.schedule(self, os.fspath(root), recursive=True)
            self._first, (self._emitter,) = observer, observer.emitters
        self._losses = _LossHandler(lambda: notice("", True))
        logging.getLogger("watchdog").addHandler(self._losses)
        try:
            self._first.start()
        except BaseException:
            logging.getLogger("watchdog").removeHandler(self._losses)
            raise

    @property
    def unwatched(self) -> frozenset[str]:
        """Folders that are known not to be watched, relative to the folder."""
        paths: frozenset[str] = getattr(self._emitter, "unwatched", frozenset())
        return frozenset(map(self._inside, paths))

    def on_any_event(self, event: Any) -> None:
        """Do nothing but pass names on: what a handler raises would end the thread."""
        if event.event_type in {"opened", "closed_no_write"}:
            return
        if event.is_directory and event.event_type == "modified" and not event.is_synthetic:
            return  # By what happened in it, which is told too.
        for raw in filter(None, (event.src_path, event.dest_path)):
            self._notice(self._inside(os.fsdecode(raw)), event.is_directory)

    def is_alive(self) -> bool:
        """Tell whether events are still being passed on."""
        return self._first.is_alive() and self._emitter.is_alive()

    def catch_up(self) -> bool:
        """Pass on every event of what happened before this call; False if that cannot be known.

        Our emitter passes them on in this thread: no other one is waited for.
        """
        drain: Callable[[], bool] = getattr(self._emitter, "drain", lambda: False)
        return drain()

    def stop(self) -> None:
        """End the threads."""
        logging.getLogger("watchdog").removeHandler(self._losses)
        if self._first.is_alive():
            self._first.stop()
            self._first.join(_PATIENCE)

    def _inside(self, path: str) -> str:
        """Return a path relative to the folder, with `/`; "" for itself and what is not in it."""
        inside = path.removeprefix(self._prefix)
        return "" if inside == path else inside.replace(os.sep, "/")


class _Passing(EventQueue):
    """Passes each event on at once; watchdog's own has a thread that empties it."""

    def __init__(self, dispatch: Callable[[Any], None]) -> None:
        super().__init__()
        self._dispatch = dispatch

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Pass on an event, which stands beside its watch."""
        self._dispatch(item[0])


class _LossHandler(logging.Handler):
    """Hears of lost events, of which watchdog's own emitters say no more than a line in its log."""

    def __init__(self, notice: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._notice = notice

    def emit(self, record: logging.LogRecord) -> None:
        """Ask for a look at everything, whatever the warning is."""
        self._notice()
