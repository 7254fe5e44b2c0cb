"""Sync what file events named: these notes alone where that is enough, else the whole folder."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Set
from pathlib import PurePosixPath
from queue import SimpleQueue

from vaultmem.core.text.paths import GENERATED, is_note_name, is_text
from vaultmem.errors import DamagedError
from vaultmem.services.views.read_index import is_index_stale
from vaultmem.services.views.update_index import (
    IndexReport,
    mark_in_sync,
    read_note_rules,
    stat_now,
    sync_paths,
    sync_vault,
)
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.watcher import CHECKPOINT_FILE, EVERYTHING, FolderWatcher
from vaultmem.vault import Vault

#: More notes than these are looked at with all others.
_MANY = 500

_NOT_INDEXED = GENERATED | {CHECKPOINT_FILE}


def sync_changed(vault: Vault, paths: Set[str]) -> IndexReport:
    """Make the index equal to the folder at these paths, or everywhere if that is not enough."""
    names = sorted(paths - _NOT_INDEXED)
    if len(names) > _MANY or not all(map(is_text, names)):
        return sync_vault(vault)
    try:
        known = vault.manifest.files(names)
        # `sed -i` writes to a file of an odd name, which is gone again by now.
        stats = {path: known[path].stat for path in known}
        names = [path for path in names if stat_now(vault, path) != stats.get(path)]
        if not names:
            return IndexReport()
        if all(_is_plain(vault, name) for name in names):
            return sync_paths(vault, map(PurePosixPath, names))
    except DamagedError:
        pass
    return sync_vault(vault)


def _is_plain(vault: Vault, path: str) -> bool:
    """Tell whether a scan would read a note here, or would have before it was removed."""
    if not is_note_name(path) or read_note_rules(vault).why_not(path):
        return False
    try:
        status = os.lstat(vault.root / path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES


def sync_pending(vault: Vault, paths: Set[str]) -> None:
    """Bring the index up to what is on disk, where that may differ only at these paths."""
    if EVERYTHING in paths or _has_moved(vault):
        sync_vault(vault)
    else:
        if paths:
            sync_changed(vault, paths)
        mark_in_sync(vault)


class ChangeHints:
    """Watches a vault's folder for a process that answers many questions.

    Hints only save scans: without one, after a missed one, or where nothing can be watched, a
    vault is compared with its folder as each command does. `notice` is called with each path.
    """

    def __init__(self, vault: Vault, notice: Callable[[str], None] | None = None) -> None:
        self._vault = vault
        self._notice = notice
        self._hints: SimpleQueue[str] = SimpleQueue()
        self._lock = threading.Lock()
        self._watcher: FolderWatcher | None = None

    def sync(self, vault: Vault) -> None:
        """Bring the vault's index up to what is on disk, if there may be something new."""
        hints = set() if self._watch() else {EVERYTHING}
        while not self._hints.empty():
            hints.add(self._hints.get())
        try:
            sync_pending(vault, hints)
        except BaseException:
            self._hints.put(EVERYTHING)
            raise

    def stop(self) -> None:
        """Watch no more."""
        with self._lock:
            if self._watcher is not None:
                self._watcher.stop()
            self._watcher = None

    def _watch(self) -> bool:
        """Tell whether all that happened by now was hinted at; begin to watch where nobody does."""
        with self._lock:
            watcher = self._watcher
            if watcher is not None and watcher.is_healthy():
                return watcher.catch_up()
            if watcher is not None:
                watcher.stop()
            self._watcher = FolderWatcher(self._vault.root, self._take, self._vault.config.ignores)
            self._watcher.start()
            return False

    def _take(self, path: str) -> None:
        self._hints.put(path)
        if self._notice is not None:
            self._notice(path)


def _has_moved(vault: Vault) -> bool:
    """Tell whether more than notes changed: the commit, the index, or which files are notes."""
    head = vault.head()
    commit = head.commit if head is not None else ""
    try:
        told = (vault.state.get("head"), vault.state.get("note_rules"))
        moved = told != (commit, read_note_rules(vault).key)
        return moved or is_index_stale(vault) or vault.operations.is_open()
    except DamagedError:
        return True
