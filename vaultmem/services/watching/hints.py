"""Know whether a vault may have changed since it was last in sync, without looking at each file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from vaultmem.services.branching.move import is_interrupted
from vaultmem.services.indexing import is_index_behind
from vaultmem.services.sync import sync_vault
from vaultmem.services.watching.take_in import take_in
from vaultmem.storage.watcher import EVERYTHING, FolderWatcher
from vaultmem.vault import Vault


class ChangeHints:
    """Watches a vault's folder for a process that answers many questions.

    Hints only save looks: without one, after a missed one, or where nothing can be watched, a
    vault is compared with its folder as each command does. `notice` is told of each path.
    """

    def __init__(self, vault: Vault, notice: Callable[[str], None] | None = None) -> None:
        self._vault = vault
        self._notice = notice
        self._hints: SimpleQueue[str] = SimpleQueue()
        self._lock = threading.Lock()
        self._watcher: FolderWatcher | None = None

    def sync(self, vault: Vault) -> None:
        """Bring the vault's index up to what is on disk, if there may be something new."""
        is_known = self._watch() and not _has_moved(vault)
        hints = set() if is_known else {EVERYTHING}
        while not self._hints.empty():
            hints.add(self._hints.get())
        try:
            if EVERYTHING in hints:
                sync_vault(vault)
            elif hints:
                take_in(vault, hints)
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
    """Tell whether another commit is checked out, or the index is not the database's any more."""
    head = vault.head()
    commit = head.commit if head is not None else ""
    return vault.state.get("head") != commit or is_index_behind(vault) or is_interrupted(vault)
