"""File events of a folder by watchdog, for systems that have no inotify."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer


class WatchdogEvents:
    """Watches a folder from threads of watchdog's until it is stopped.

    `notice` is called with a path relative to the folder, or with "" for what is not known.
    """

    def __init__(self, root: Path, notice: Callable[[str], None]) -> None:
        prefix = os.fspath(root) + os.sep

        class Enqueue(FileSystemEventHandler):
            """Does nothing but pass names on: what a handler raises would end the thread."""

            def on_any_event(self, event: Any) -> None:
                if event.event_type in {"opened", "closed_no_write"}:
                    return
                if event.is_directory and event.event_type == "modified":
                    return  # By what happened in it, which is told too.
                for raw in (event.src_path, event.dest_path):
                    path = os.fsdecode(raw)
                    if path.startswith(prefix):
                        inside = path.removeprefix(prefix).replace(os.sep, "/")
                        notice("" if event.is_directory else inside)

        self._overflow = _OverflowHandler(notice)
        logging.getLogger("watchdog").addHandler(self._overflow)
        self._observer = Observer()
        try:
            self._observer.schedule(Enqueue(), os.fspath(root), recursive=True)
            self._observer.start()
        except BaseException:
            logging.getLogger("watchdog").removeHandler(self._overflow)
            raise

    def is_alive(self) -> bool:
        """Tell whether events are still being passed on."""
        return self._observer.is_alive() and all(e.is_alive() for e in self._observer.emitters)

    def catch_up(self) -> bool:
        """Return False: whether every event of the past was seen cannot be known."""
        return False

    def stop(self) -> None:
        """End the threads."""
        logging.getLogger("watchdog").removeHandler(self._overflow)
        if self._observer.is_alive():
            self._observer.stop()
            self._observer.join(timeout=5)


class _OverflowHandler(logging.Handler):
    """Hears of lost events, of which watchdog says no more than a line in its log."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._notice_all = notice

    def emit(self, record: logging.LogRecord) -> None:
        """Ask for a look at everything, whatever the warning is."""
        self._notice_all("")
