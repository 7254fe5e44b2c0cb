"""File events for watchdog, with our own emitter for inotify on Linux.

watchdog's own emitter leaves folders unwatched after some moves, and does not report lost events or
the system's limit of watches. It delays all events by half a second after a move to the outside,
and cannot show that it saw every earlier event. Its bindings for inotify are used; the constants
are in inotify(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import select
import struct
import threading
from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from watchdog.events import (
    DirAttribEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirModifiedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import DEFAULT_EMITTER_TIMEOUT, EventEmitter, EventQueue, ObservedWatch
from watchdog.observers.inotify_c import InotifyConstants as Bits
from watchdog.observers.inotify_c import (
    WatchDescriptor,
    inotify_add_watch,
    inotify_init,
    inotify_rm_watch,
)
from watchdog.utils import BaseThread

_EVENT = struct.Struct("iIII")

_FILE_EVENTS: dict[int, type[FileSystemEvent]] = {
    Bits.IN_CREATE: FileCreatedEvent,
    Bits.IN_MOVED_TO: FileCreatedEvent,
    Bits.IN_DELETE: FileDeletedEvent,
    Bits.IN_MOVED_FROM: FileDeletedEvent,
    Bits.IN_MODIFY: FileModifiedEvent,
    Bits.IN_ATTRIB: FileAttribEvent,
    Bits.IN_CLOSE_WRITE: FileClosedEvent,
}
_FOLDER_EVENTS: dict[int, type[FileSystemEvent]] = {
    Bits.IN_CREATE: DirCreatedEvent,
    Bits.IN_MOVED_TO: DirCreatedEvent,
    Bits.IN_DELETE: DirDeletedEvent,
    Bits.IN_MOVED_FROM: DirDeletedEvent,
    Bits.IN_ATTRIB: DirAttribEvent,
}
_KINDS = reduce(or_, _FILE_EVENTS)
_REMOVAL_EVENTS = Bits.IN_DELETE | Bits.IN_MOVED_FROM
_SELF = Bits.IN_DELETE_SELF | Bits.IN_MOVE_SELF

#: Watch only folders, no links, no removed files.
_WATCH_MASK = _KINDS | Bits.IN_ONLYDIR | Bits.IN_DONT_FOLLOW | Bits.IN_EXCL_UNLINK

#: Most reads (of up to 64 KiB) in one drain.
_READS = 64

#: Milliseconds in which a move's second half follows the first; the kernel does both in one call.
_HALF_MOVE = 1

#: The errors of adding a watch to a folder that exists but cannot be watched.
_WATCH_ERRORS = {errno.ENOSPC, errno.ENOMEM, errno.EACCES}


class TreeEmitter(EventEmitter):
    """An emitter that queues the events of a folder; links are not followed.

    Folders for which `enters` is false are not watched. If events were lost, it queues a synthetic
    `DirModifiedEvent` of the root; there are no other modified events of folders. It stops when the
    root is moved or deleted.
    """

    def __init__(
        self,
        event_queue: EventQueue,
        watch: ObservedWatch,
        *,
        timeout: float = DEFAULT_EMITTER_TIMEOUT,
        event_filter: list[type[FileSystemEvent]] | None = None,
        enters: Callable[[str], bool] = lambda path: True,
    ) -> None:
        super().__init__(event_queue, watch, timeout=timeout, event_filter=event_filter)
        #: Folders that cannot be watched, by path.
        self.unwatched: frozenset[str] = frozenset()
        self._root = os.fsdecode(watch.path)
        self._enters = enters
        self._folders: dict[WatchDescriptor, str] = {}
        self._pending_move: tuple[int, FileSystemEvent] | None = None
        self._lock = threading.RLock()
        self._events = self._wake = -1

    def on_thread_start(self) -> None:
        """Watch all folders, before `start` returns."""
        self._events = inotify_init()
        if self._events < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        os.set_inheritable(self._events, False)
        self._wake = os.eventfd(0)
        self._cover(self._root, reports_contents=False)

    def on_thread_stop(self) -> None:
        """Wake the thread, which releases the watches when it ends."""
        with self._lock:
            if self.is_alive() and self._wake >= 0:
                os.eventfd_write(self._wake, 1)
            else:
                self._close()

    def run(self) -> None:
        """Queue events until the emitter is stopped."""
        try:
            super().run()
        finally:
            self._close()

    def queue_events(self, timeout: float) -> None:
        """Wait for events or a stop, without a timeout, and queue the events."""
        if self._wake not in _wait_for(self._events, self._wake):
            self.drain()

    def drain(self) -> bool:
        """Queue all events of changes made before this call; return False if there are too many.

        Any thread can call it.
        """
        with self._lock:
            return self._events >= 0 and any(not self._read_batch() for _ in range(_READS))

    def _close(self) -> None:
        with self._lock:
            for descriptor in (self._events, self._wake):
                if descriptor >= 0:
                    os.close(descriptor)
            self._events = self._wake = -1

    def _read_batch(self) -> bool:
        """Queue the events of one read; return False if there were none."""
        if not _wait_for(self._events, milliseconds=_HALF_MOVE if self._pending_move else 0):
            self._end_move()
            return False
        data = os.read(self._events, 65_536)
        offset = 0
        while offset < len(data):
            watch, mask, cookie, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size
            name = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
            offset += length
            self._take(watch, mask, cookie, name)
        return True

    def _take(self, watch: WatchDescriptor, mask: int, cookie: int, name: str) -> None:
        folder = self._folders.get(watch)  # None if it was moved; the move was queued.
        path = os.path.join(folder, name) if folder and name else ""
        if path and mask & Bits.IN_ISDIR:
            if mask & _REMOVAL_EVENTS:
                self._forget(path, is_moved=bool(mask & Bits.IN_MOVED_FROM))
            if not self._enters(path):
                path = ""
        old_path = self._end_move(cookie if path and mask & Bits.IN_MOVED_TO else 0)
        if path:
            self._describe(path, old_path, mask, cookie)
        elif mask & Bits.IN_Q_OVERFLOW:
            self._cover(self._root)
            self.queue_event(DirModifiedEvent(self._root, is_synthetic=True))
        elif mask & Bits.IN_IGNORED:
            self._folders.pop(watch, None)
        elif folder == self._root and mask & _SELF:
            self.queue_event(DirDeletedEvent(self._root))
            self.stop()

    def _describe(self, path: str, old_path: str, mask: int, cookie: int) -> None:
        """Queue one event; the first half of a move waits for the second."""
        is_folder = bool(mask & Bits.IN_ISDIR)
        kinds = _FOLDER_EVENTS if is_folder else _FILE_EVENTS
        event = _arrival(path, old_path, is_folder) if old_path else kinds[mask & _KINDS](path)
        if mask & Bits.IN_MOVED_FROM:
            self._pending_move = (cookie, event)
        else:
            self.queue_event(event)
        if is_folder and not mask & _REMOVAL_EVENTS:
            self._cover(path, old_path)

    def _end_move(self, cookie: int = 0) -> str:
        """Return the old path if `cookie` is of a move's second half, otherwise "".

        A first half without a second is queued as a deletion.
        """
        pending_move, self._pending_move = self._pending_move, None
        if pending_move is not None and pending_move[0] == cookie:
            return os.fsdecode(pending_move[1].src_path)
        if pending_move is not None:
            self.queue_event(pending_move[1])
        return ""

    def _cover(self, path: str, old_path: str = "", reports_contents: bool = True) -> None:
        """Watch a folder and all below it, including those already watched.

        A folder is listed after it is watched, so that new files are not missed. With
        `reports_contents`, the contents of folders not watched before are queued.
        """
        unwatched = {other for other in self.unwatched if not _is_within(other, path)}
        pending = [path]
        while pending:
            folder = pending.pop()
            mask = _WATCH_MASK | (_SELF if folder == self._root else 0)
            watch = inotify_add_watch(self._events, os.fsencode(folder), mask)
            is_new = watch not in self._folders and folder not in self.unwatched
            if watch >= 0:
                self._folders[watch] = folder
            elif ctypes.get_errno() in _WATCH_ERRORS:
                unwatched.add(folder)
            else:
                continue  # It was removed, or is a link.
            for child, is_folder in self._list(folder):
                if is_new and reports_contents:
                    before = old_path + child[len(path) :] if old_path else ""
                    self.queue_event(_arrival(child, before, is_folder, is_synthetic=True))
                if is_folder and self.watch.is_recursive:
                    pending.append(child)
        self.unwatched = frozenset(unwatched)

    def _list(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield the files of a folder, and its folders to enter, each with whether it is one."""
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder or self._enters(entry.path):
                    yield entry.path, is_folder

    def _forget(self, path: str, is_moved: bool) -> None:
        """Stop watching a folder that was moved or deleted; at its new path it is watched again."""
        self.unwatched = frozenset(p for p in self.unwatched if not _is_within(p, path))
        if is_moved:  # The kernel removes the watches of deleted folders.
            for watch in [w for w, folder in self._folders.items() if _is_within(folder, path)]:
                inotify_rm_watch(self._events, watch)
                del self._folders[watch]


def _arrival(
    path: str, old_path: str, is_folder: bool, is_synthetic: bool = False
) -> FileSystemEvent:
    """Return the event of a file or folder moved from `old_path`, or created if that is empty."""
    if old_path:
        move_event = DirMovedEvent if is_folder else FileMovedEvent
        return move_event(old_path, path, is_synthetic=is_synthetic)
    create_event = DirCreatedEvent if is_folder else FileCreatedEvent
    return create_event(path, is_synthetic=is_synthetic)


def _wait_for(*descriptors: int, milliseconds: int | None = None) -> set[int]:
    """Return the descriptors that can be read, after at most `milliseconds`."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(milliseconds)}


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


# File events of a folder by watchdog, on Linux from our own emitter.

#: Seconds to wait for threads to end.
_JOIN_SECONDS = 5.0


class FolderEvents(FileSystemEventHandler):
    """A running watch of a folder, in watchdog's threads, until it is stopped.

    It calls `notice` with a path relative to the folder, and whether it is a folder; "" is the
    folder itself if it is unknown what changed. `is_ours` uses our emitter, which skips folders for
    which `enters` is false.
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
        """Paths, relative to the folder, of folders known not to be watched."""
        paths: frozenset[str] = getattr(self._emitter, "unwatched", frozenset())
        return frozenset(map(self._inside, paths))

    def on_any_event(self, event: Any) -> None:
        """Pass on an event's paths; do no more, because an error would end the thread."""
        if event.event_type in {"opened", "closed_no_write"}:
            return
        if event.is_directory and event.event_type == "modified" and not event.is_synthetic:
            return  # The change inside the folder has its own event.
        for raw in filter(None, (event.src_path, event.dest_path)):
            self._notice(self._inside(os.fsdecode(raw)), event.is_directory)

    def is_alive(self) -> bool:
        """Return whether the threads still run."""
        return self._first.is_alive() and self._emitter.is_alive()

    def catch_up(self) -> bool:
        """Pass on all events of changes before this call; return False if some might be missing.

        Our emitter passes them on in the calling thread; watchdog's cannot, so this returns False.
        """
        drain: Callable[[], bool] = getattr(self._emitter, "drain", lambda: False)
        return drain()

    def stop(self) -> None:
        """Stop the threads."""
        logging.getLogger("watchdog").removeHandler(self._losses)
        if self._first.is_alive():
            self._first.stop()
            self._first.join(_JOIN_SECONDS)

    def _inside(self, path: str) -> str:
        """Return a path relative to the folder, with `/`; "" for the folder and paths outside."""
        relative_path = path.removeprefix(self._prefix)
        return "" if relative_path == path else relative_path.replace(os.sep, "/")


class _Passing(EventQueue):
    """A queue that passes each event on at once; watchdog's own has a thread to empty it."""

    def __init__(self, dispatch: Callable[[Any], None]) -> None:
        super().__init__()
        self._dispatch = dispatch

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Pass on an event, the first of the pair `item`."""
        self._dispatch(item[0])


class _LossHandler(logging.Handler):
    """A log handler that detects lost events: watchdog's emitters only log a warning."""

    def __init__(self, notice: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._notice = notice

    def emit(self, record: logging.LogRecord) -> None:
        """Call `notice` for any warning."""
        self._notice()
