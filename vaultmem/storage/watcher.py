"""File events of a folder (watchdog): hints that something may have changed, never more.

Handlers only enqueue. What cannot be watched is polled; what was missed is found by the next
look at everything, for which `EVERYTHING` asks.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.polling import PollingObserver

from vaultmem.core.paths import is_hidden

#: Stands for a path where it is not known what changed.
EVERYTHING = ""

#: The file by which anybody asks for a checkpoint; the only hidden one that counts.
CHECKPOINT_FILE = ".checkpoint"

#: Seconds between two looks where the system cannot tell of changes.
POLL_SECONDS = 5.0

_NO_CHANGE = {"opened", "closed_no_write"}


class FolderWatcher:
    """Tells of changes below a folder, from a thread of its own, until it is stopped.

    `notice` is called with a path relative to the folder, with `/`, or with `EVERYTHING`.
    """

    def __init__(self, root: Path, notice: Callable[[str], None]) -> None:
        self._root = root
        self._notice = notice
        self._observer: Any = None
        self._inode = 0
        self._overflow = _OverflowHandler(notice)

    def start(self) -> str:
        """Begin, and return why it has to poll, empty if it does not."""
        self._inode = os.stat(self._root).st_ino
        logging.getLogger("watchdog").addHandler(self._overflow)
        handler = _Enqueue(self._root, self._notice)
        try:
            self._observer = Observer()
            self._observer.schedule(handler, os.fspath(self._root), recursive=True)
            self._observer.start()
            return ""
        except OSError as error:
            self._stop_observer()
            self._observer = PollingObserver(timeout=POLL_SECONDS)
            self._observer.schedule(handler, os.fspath(self._root), recursive=True)
            self._observer.start()
            return f"{error.strerror or error}; the folder is polled every {POLL_SECONDS:.0f} s"

    def is_healthy(self) -> bool:
        """Tell whether it still watches this folder: threads can die, folders be replaced."""
        try:
            same = os.stat(self._root).st_ino == self._inode
        except OSError:
            return False
        alive = self._observer is not None and self._observer.is_alive()
        return same and alive and all(each.is_alive() for each in self._observer.emitters)

    def stop(self) -> None:
        """End the threads; it can be started again."""
        logging.getLogger("watchdog").removeHandler(self._overflow)
        self._stop_observer()

    def _stop_observer(self) -> None:
        if self._observer is None:
            return
        if self._observer.is_alive():
            self._observer.stop()
            self._observer.join(timeout=5)
        self._observer = None


class _Enqueue(FileSystemEventHandler):
    """Does nothing but pass names on: whatever a handler raises would end the observer."""

    def __init__(self, root: Path, notice: Callable[[str], None]) -> None:
        self._prefix = os.fspath(root) + os.sep
        self._notice = notice

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Pass the paths of an event on, but for those that are never looked at."""
        if event.event_type in _NO_CHANGE:
            return
        for raw in (event.src_path, event.dest_path):
            if raw and (path := self._relative(os.fsdecode(raw))) is not None:
                is_bare = event.is_directory and event.event_type == "modified"
                if not is_bare:  # A folder is modified by what happens in it, which is told too.
                    self._notice(EVERYTHING if event.is_directory else path)

    def _relative(self, path: str) -> str | None:
        if not path.startswith(self._prefix):
            return None
        inside = path.removeprefix(self._prefix).replace(os.sep, "/")
        hidden = any(part and is_hidden(part) for part in inside.split("/"))
        return None if hidden and inside != CHECKPOINT_FILE else inside


class _OverflowHandler(logging.Handler):
    """Hears of lost events, of which watchdog says no more than a line in its log."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._notice_all = notice

    def emit(self, record: logging.LogRecord) -> None:
        """Ask for a look at everything, whatever the warning is."""
        self._notice_all(EVERYTHING)
