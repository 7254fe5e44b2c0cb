"""Sync files named by file events: only these notes if possible, or the whole folder."""

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

#: Above this number, the whole folder is scanned.
_MAX_HINTS = 500

_NOT_INDEXED = GENERATED | {CHECKPOINT_FILE}


def sync_changed(vault: Vault, paths: Set[str]) -> IndexReport:
    """Update the index at these paths, or everywhere if that is not enough."""
    names = sorted(paths - _NOT_INDEXED)
    if len(names) > _MAX_HINTS or not all(map(is_text, names)):
        return sync_vault(vault)
    try:
        files = vault.manifest.files(names)
        # `sed -i` writes a temporary file that is already gone.
        stats = {path: files[path].stat for path in files}
        names = [path for path in names if stat_now(vault, path) != stats.get(path)]
        if not names:
            return IndexReport()
        if all(_is_plain(vault, name) for name in names):
            return sync_paths(vault, map(PurePosixPath, names))
    except DamagedError:
        pass
    return sync_vault(vault)


def _is_plain(vault: Vault, path: str) -> bool:
    """Return whether a scan reads, or would have read, a note at this path."""
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
    """Update the index from the disk, which might differ only at these paths."""
    if EVERYTHING in paths or _has_moved(vault):
        sync_vault(vault)
    else:
        if paths:
            sync_changed(vault, paths)
        mark_in_sync(vault)


class ChangeHints:
    """Watches a vault's folder for a process that answers many queries.

    Hints only save scans. Without them, or after a missed one, the folder is scanned as in each
    command. `notice` is called with each path.
    """

    def __init__(self, vault: Vault, notice: Callable[[str], None] | None = None) -> None:
        self._vault = vault
        self._notice = notice
        self._hints: SimpleQueue[str] = SimpleQueue()
        self._lock = threading.Lock()
        self._watcher: FolderWatcher | None = None

    def sync(self, vault: Vault) -> None:
        """Update the vault's index, if there might be changes."""
        hints = set() if self._watch() else {EVERYTHING}
        while not self._hints.empty():
            hints.add(self._hints.get())
        try:
            sync_pending(vault, hints)
        except BaseException:
            self._hints.put(EVERYTHING)
            raise

    def stop(self) -> None:
        """Stop watching."""
        with self._lock:
            if self._watcher is not None:
                self._watcher.stop()
            self._watcher = None

    def _watch(self) -> bool:
        """Return whether all changes until now were hinted; start watching if needed."""
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
    """Return whether more than notes changed: the commit, the index, or the rules of notes."""
    head = vault.head()
    commit = head.commit if head is not None else ""
    try:
        known_state = (vault.state.get("head"), vault.state.get("note_rules"))
        has_moved = known_state != (commit, read_note_rules(vault).key)
        return has_moved or is_index_stale(vault) or vault.operations.is_open()
    except DamagedError:
        return True
