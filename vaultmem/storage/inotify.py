"""Linux's own file events (inotify) of a folder and all that is in it.

watchdog reads inotify too. But it leaves folders unwatched after some moves, says nothing where
the system's limit keeps it from watching one, and cannot tell whether it saw every event of the
past. The calls and numbers are those of inotify(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

_EVENT = struct.Struct("iIII")

_CREATE, _MOVED_FROM, _MOVED_TO, _ATTRIB = 0x100, 0x40, 0x80, 0x4
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_OVERFLOW, _IGNORED, _IS_FOLDER = 0x4000, 0x8000, 0x40000000

# Modified, closed after writing, deleted; and: only folders, no links, nothing of removed files.
_WANTED = (
    _CREATE | _MOVED_FROM | _MOVED_TO | _ATTRIB | _DELETE_SELF | _MOVE_SELF | 0x2 | 0x8 | 0x200
)
_WANTED |= 0x01000000 | 0x02000000 | 0x04000000

#: Reads of 64 KiB at most before others have their turn.
_READS = 64

#: What adding a watch fails with where the folder exists and cannot be watched.
_REFUSED = {errno.ENOSPC, errno.ENOMEM, errno.EACCES}


class FolderEvents:
    """Watches a folder from a thread of its own until it is stopped.

    `notice` is called with the path of a file that changed, relative to the folder, or with ""
    where it is not known what changed. `enters` tells which folders are of interest.
    """

    def __init__(
        self, root: Path, notice: Callable[[str], None], enters: Callable[[str], bool]
    ) -> None:
        self._root = os.fspath(root)
        self._notice = notice
        self._enters = enters
        self._library = ctypes.CDLL(None, use_errno=True)
        self._folders: dict[int, str] = {}
        self._lock = threading.Lock()
        self._closed = False
        #: Folders that cannot be watched, by path ("" is the root itself).
        self.unwatched: frozenset[str] = frozenset()
        self._events = self._library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._events < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._wake, self._waker = os.pipe()
        self._cover("")
        self._thread = threading.Thread(target=self._run, name="file events", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Tell whether events are still being read."""
        return self._thread.is_alive()

    def catch_up(self) -> bool:
        """Take in every event of what happened before this call; False if there are too many."""
        with self._lock:
            return not self._closed and any(not self._take_batch() for _ in range(_READS))

    def stop(self) -> None:
        """End the thread and give the watches back."""
        os.write(self._waker, b".")
        self._thread.join()
        with self._lock:
            if not self._closed:
                self._closed = True
                for descriptor in (self._events, self._wake, self._waker):
                    os.close(descriptor)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._events, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while all(descriptor != self._wake for descriptor, _ in poll.poll()):
            self.catch_up()

    def _take_batch(self) -> bool:
        """Take in the events of one read; False if there were none."""
        try:
            data = os.read(self._events, 65_536)
        except BlockingIOError:
            return False
        place = 0
        while place < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, place)
            place += _EVENT.size
            name = os.fsdecode(data[place : place + length].rstrip(b"\0"))
            place += length
            self._take(watch, mask, name)
        return True

    def _take(self, watch: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            self._cover("")
            self._notice("")
            return
        folder = self._folders.get(watch)
        if mask & _IGNORED:
            self._folders.pop(watch, None)
        elif folder is None:
            return  # Of a folder that was moved; the move itself was told.
        elif mask & (_DELETE_SELF | _MOVE_SELF):
            if not folder:
                self._notice("")
        elif not mask & _IS_FOLDER:
            self._notice(f"{folder}{name}")
        elif self._enters(f"{folder}{name}"):
            if mask & _MOVED_FROM:
                self._forget(f"{folder}{name}/")
            if mask & (_CREATE | _MOVED_TO | _ATTRIB):
                self._cover(f"{folder}{name}")
            self._notice("")

    def _cover(self, path: str) -> None:
        """Watch a folder and all below it, those again that are watched already.

        A folder is listed after it is watched, so what appears in it meanwhile is not missed.
        """
        unwatched = {other for other in self.unwatched if path and not _is_within(other, path)}
        pending = [path]
        while pending:
            folder = pending.pop()
            place = os.path.join(self._root, folder)
            watch = self._library.inotify_add_watch(self._events, os.fsencode(place), _WANTED)
            if watch >= 0:
                self._folders[watch] = f"{folder}/" if folder else ""
            elif ctypes.get_errno() in _REFUSED:
                unwatched.add(folder)
            else:
                continue  # It is gone again, or a link.
            pending.extend(self._list_folders(folder))
        self.unwatched = frozenset(unwatched)

    def _list_folders(self, folder: str) -> Iterator[str]:
        with (
            contextlib.suppress(OSError),
            os.scandir(os.path.join(self._root, folder)) as entries,
        ):
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False) and self._enters(path):
                    yield path

    def _forget(self, prefix: str) -> None:
        """Watch a folder no more that was moved; at its new place it is watched again."""
        for watch in [w for w, folder in self._folders.items() if folder.startswith(prefix)]:
            self._library.inotify_rm_watch(self._events, watch)
            del self._folders[watch]


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
