"""File events of a vault's folder: hints that something may have changed, never more.

watchdog passes them on, on Linux from an emitter of ours. What sends no events is polled.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.core.text.paths import is_hidden
from vaultmem.storage.scan_files import scan_vault

if TYPE_CHECKING:
    from vaultmem.storage.file_events import FolderEvents

#: Stands for a path where it is not known what changed.
EVERYTHING = ""

#: The file by which anybody asks for a checkpoint; the only hidden one that counts.
CHECKPOINT_FILE = ".checkpoint"

#: Seconds between two looks where the system cannot tell of changes.
POLL_SECONDS = 5.0

#: File systems whose changes by other machines send no events here.
_REMOTE = ("nfs", "cifs", "smb", "9p", "vboxsf", "virtiofs", "prl_fs", "fuse.", "afs", "ceph")

#: Whether events come from our own emitter, and not from watchdog's for this system.
_IS_OURS = sys.platform == "linux"

_UNREAD = frozenset({"transcripts", "media"})


class FolderWatcher:
    """Tells of changes below a folder, from a thread of its own, until it is stopped.

    `notice` is called with a path relative to the folder, with `/`, or with `EVERYTHING`.
    `ignored` tells paths to pass over.
    """

    def __init__(
        self, root: Path, notice: Callable[[str], None], ignored: Callable[[str], bool]
    ) -> None:
        self._root = root
        self._notice = notice
        self._ignored = ignored
        self._inode = 0
        self._events: FolderEvents | None = None
        self._why_all = ""
        self._polled = ""
        self._next_poll = 0.0

    def start(self) -> None:
        """Begin."""
        self._inode = os.stat(self._root).st_ino
        kind = _find_remote(self._root)
        self._why_all = f"{kind} does not report other machines' changes" if kind else ""
        from vaultmem.storage.file_events import FolderEvents

        try:
            self._events = FolderEvents(self._root, self._pass_on, self._enters, _IS_OURS)
        except OSError as error:
            self._why_all = f"the folder cannot be watched ({error.strerror or error})"
        self._polled = self._fingerprint()

    def polling(self) -> str:
        """Return why and how much has to be polled, empty if nothing."""
        every = f"polled every {POLL_SECONDS:.0f} s"
        if self._why_all:
            return f"{self._why_all}; everything is {every}"
        count = len(self._unwatched())
        if not count:
            return ""
        which = "1 folder is" if count == 1 else f"{count:,} folders are"
        return f"the system watches no more folders (fs.inotify.max_user_watches); {which} {every}"

    def poll(self) -> None:
        """Look at what sends no events, if it is time to."""
        if time.monotonic() < self._next_poll or not (self._why_all or self._unwatched()):
            return
        found = self._fingerprint()
        if found != self._polled:
            self._notice(EVERYTHING)
        self._polled = found
        self._next_poll = time.monotonic() + POLL_SECONDS

    def catch_up(self) -> bool:
        """Tell of all that happened before this call; False if that cannot be known."""
        events = self._events
        return events is not None and events.catch_up() and not self.polling()

    def is_healthy(self) -> bool:
        """Tell whether it still watches this folder: threads can die, folders be replaced."""
        try:
            same = os.stat(self._root).st_ino == self._inode
        except OSError:
            return False
        return same and (self._events is None or self._events.is_alive())

    def stop(self) -> None:
        """End the threads; it can be started again."""
        if self._events is not None:
            self._events.stop()
        self._events = None

    def _unwatched(self) -> frozenset[str]:
        return self._events.unwatched if self._events is not None else frozenset()

    def _fingerprint(self) -> str:
        """Return a text that differs whenever what sends no events is something else."""
        if self._why_all:
            return scan_vault(self._root, (self._ignored, None)).signature()
        found = hashlib.sha256()
        for folder in sorted(self._unwatched()):
            try:
                with os.scandir(self._root / folder) as entries:
                    stats = [(each.name, each.stat(follow_symlinks=False)) for each in entries]
            except OSError:
                continue
            for name, stat in sorted(stats, key=lambda each: each[0]):
                what = (folder, name, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
                found.update(repr(what).encode("utf-8", "surrogateescape"))
        return found.hexdigest()

    def _pass_on(self, path: str, is_folder: bool) -> None:
        """Pass on what a file's or folder's event says, but for what is never looked at."""
        if path == CHECKPOINT_FILE or not path or not any(map(is_hidden, path.split("/"))):
            self._notice(EVERYTHING if is_folder else path)

    def _enters(self, folder: str) -> bool:
        """Tell whether files of a folder are ever looked at, as a scan does it."""
        name = folder.rpartition("/")[2]
        if folder in _UNREAD or is_hidden(name) or self._ignored(folder):
            return False
        return not os.path.lexists(self._root / folder / ".git")


def _find_remote(root: Path) -> str:
    """Return what the file system is called if other machines may change it, else ""."""
    if sys.platform != "linux":
        return ""
    device = os.stat(root).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                fields = line.split()
                if fields[2] == wanted:
                    kind = fields[fields.index("-") + 1]
                    return kind if kind.startswith(_REMOTE) else ""
    except (OSError, ValueError, IndexError):
        return ""
    return ""
