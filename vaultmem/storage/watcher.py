"""File events of a vault's folder: hints that something might have changed.

watchdog sends them, on Linux from our own emitter. Folders without events are polled.
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

#: The path in a notice if it is unknown what changed.
EVERYTHING = ""

#: The file that requests a checkpoint; other hidden files are ignored.
CHECKPOINT_FILE = ".checkpoint"

#: Seconds between two polls where the system sends no events.
POLL_SECONDS = 5.0

#: Types of file systems without events for changes by other machines.
_REMOTE = ("nfs", "cifs", "smb", "9p", "vboxsf", "virtiofs", "prl_fs", "fuse.", "afs", "ceph")

#: Whether events come from our own emitter, not from watchdog's.
_HAS_OWN_EMITTER = sys.platform == "linux"

_UNSCANNED_FOLDERS = frozenset({"transcripts", "media"})


class FolderWatcher:
    """A watcher of all changes below a folder, in a thread of its own.

    It calls `notice` with a path relative to the folder, with `/`, or with `EVERYTHING`. Paths for
    which `ignored` is true are not watched.
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
        """Start watching the folder."""
        self._inode = os.stat(self._root).st_ino
        kind = _find_remote(self._root)
        self._why_all = f"{kind} does not report other machines' changes" if kind else ""
        from vaultmem.storage.file_events import FolderEvents

        try:
            self._events = FolderEvents(self._root, self._pass_on, self._enters, _HAS_OWN_EMITTER)
        except OSError as error:
            self._why_all = f"the folder cannot be watched ({error.strerror or error})"
        self._polled = self._fingerprint()

    def polling(self) -> str:
        """Return a message about the polled folders and the reason, empty if none are polled."""
        pause = f"polled every {POLL_SECONDS:.0f} s"
        if self._why_all:
            return f"{self._why_all}; everything is {pause}"
        count = len(self._unwatched())
        if not count:
            return ""
        folders = "1 folder is" if count == 1 else f"{count:,} folders are"
        return (
            f"the system watches no more folders (fs.inotify.max_user_watches); {folders} {pause}"
        )

    def poll(self) -> None:
        """Check the folders without events for changes, if `POLL_SECONDS` have passed."""
        if time.monotonic() < self._next_poll or not (self._why_all or self._unwatched()):
            return
        fingerprint = self._fingerprint()
        if fingerprint != self._polled:
            self._notice(EVERYTHING)
        self._polled = fingerprint
        self._next_poll = time.monotonic() + POLL_SECONDS

    def catch_up(self) -> bool:
        """Notice all changes made before this call; return False if some might be missing."""
        events = self._events
        return events is not None and events.catch_up() and not self.polling()

    def is_healthy(self) -> bool:
        """Return whether the threads still run, and the folder was not replaced."""
        try:
            is_same_folder = os.stat(self._root).st_ino == self._inode
        except OSError:
            return False
        return is_same_folder and (self._events is None or self._events.is_alive())

    def stop(self) -> None:
        """Stop the threads; the watcher can be started again."""
        if self._events is not None:
            self._events.stop()
        self._events = None

    def _unwatched(self) -> frozenset[str]:
        return self._events.unwatched if self._events is not None else frozenset()

    def _fingerprint(self) -> str:
        """Return a text that changes with the files in folders without events."""
        if self._why_all:
            return scan_vault(self._root, (self._ignored, None)).signature()
        digest = hashlib.sha256()
        for folder in sorted(self._unwatched()):
            try:
                with os.scandir(self._root / folder) as entries:
                    stats = [(each.name, each.stat(follow_symlinks=False)) for each in entries]
            except OSError:
                continue
            for name, stat in sorted(stats, key=lambda each: each[0]):
                fields = (
                    folder,
                    name,
                    stat.st_ino,
                    stat.st_size,
                    stat.st_mtime_ns,
                    stat.st_ctime_ns,
                )
                digest.update(repr(fields).encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def _pass_on(self, path: str, is_folder: bool) -> None:
        """Notice the event of a file or folder, unless its path is hidden."""
        if path == CHECKPOINT_FILE or not path or not any(map(is_hidden, path.split("/"))):
            self._notice(EVERYTHING if is_folder else path)

    def _enters(self, folder: str) -> bool:
        """Return whether a scan reads the files of a folder."""
        name = folder.rpartition("/")[2]
        if folder in _UNSCANNED_FOLDERS or is_hidden(name) or self._ignored(folder):
            return False
        return not os.path.lexists(self._root / folder / ".git")


def _find_remote(root: Path) -> str:
    """Return the type of the file system if other machines can change it, otherwise ""."""
    if sys.platform != "linux":
        return ""
    device = os.stat(root).st_dev
    device_id = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                fields = line.split()
                if fields[2] == device_id:
                    kind = fields[fields.index("-") + 1]
                    return kind if kind.startswith(_REMOTE) else ""
    except (OSError, ValueError, IndexError):
        return ""
    return ""
