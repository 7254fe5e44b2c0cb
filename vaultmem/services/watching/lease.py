"""The lock of the one process that watches a vault, and its unprocessed hints.

Files that the watcher has processed need no new scan; each client asks the live watcher.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import vaultmem
from vaultmem.core.text.json_values import as_json_object
from vaultmem.errors import LockTimeoutError, VaultError
from vaultmem.services.views.read_index import Progress, is_index_stale
from vaultmem.services.views.update_index import mark_in_sync, sync_vault
from vaultmem.services.watching.sync_hints import sync_pending
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.lock import hold_lock, is_held
from vaultmem.storage.value_store import read_value_if_sound
from vaultmem.storage.watch_socket import SOCKET_NAME, ask_watcher
from vaultmem.storage.watcher import EVERYTHING
from vaultmem.vault import Vault

#: Seconds to wait while another process only tests the lock.
_PROBE_WAIT_SECONDS = 1.0


class WatcherInfo(NamedTuple):
    """The watching process; `since` is seconds since the epoch.

    `address` is its HTTP address, if it serves. A `passing` one was started for its clients, and
    ends some time after the last one.
    """

    pid: int
    version: str
    since: float
    address: str = ""
    passing: bool = False


@contextlib.contextmanager
def hold_watch(vault: Vault, address: str = "", passing: bool = False) -> Iterator[WatcherInfo]:
    """Be the vault's watcher while the context is open; replace a passing watcher.

    Raises:
        VaultError: another process is the watcher; the text names it.
    """
    stack = contextlib.ExitStack()
    try:
        if not passing and (other := find_watcher(vault)) and other.passing:
            stop_watcher(vault)
        stack.enter_context(hold_lock(vault.state_folder / "watch.lock", _PROBE_WAIT_SECONDS))
    except LockTimeoutError:
        other = find_watcher(vault)
        holder = f"process {other.pid}, since {_clock(other.since)}" if other else "another process"
        raise VaultError(
            f"{vault.root}: watched already by {holder}; `vaultmem watch --stop` ends that"
        ) from None
    with stack:
        own = WatcherInfo(os.getpid(), vaultmem.__version__, vault.now(), address, passing)
        file = vault.state_folder / "watch.json"
        write_atomically(file, json.dumps(as_json_object(own)).encode(), durable=False)
        try:
            yield own
        finally:
            if is_current(own, vault):
                file.unlink(missing_ok=True)


def find_watcher(vault: Vault) -> WatcherInfo | None:
    """Return the vault's watcher, None without one."""
    if not is_held(vault.state_folder / "watch.lock"):
        return None
    for _ in range(20):  # It might not have written the file yet.
        if watcher := read_value_if_sound(vault.state_folder / "watch.json", WatcherInfo):
            return watcher
        time.sleep(0.05)
    return None


def stop_watcher(vault: Vault, seconds: float = 15.0) -> WatcherInfo | None:
    """Ask the watcher to end and wait for it; return its info.

    Raises:
        VaultError: it is still running after `seconds`.
    """
    watcher = find_watcher(vault)
    if watcher is None:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(watcher.pid, signal.SIGTERM)
    end = time.monotonic() + seconds
    while is_held(vault.state_folder / "watch.lock"):
        if time.monotonic() > end:
            raise VaultError(f"process {watcher.pid} still watches after {seconds:.0f} s; end it")
        time.sleep(0.05)
    return watcher


def catch_up(vault: Vault, progress: Progress | None = None) -> None:
    """Update the index: ask a live watcher whether it is current, or scan everything.

    The watcher does not notice damage to index and database, so that is checked here. All saves
    before this call are included. The caller must not hold the vault's lock.
    """
    socket = str(vault.state_folder / SOCKET_NAME)
    answer = ask_watcher(socket, str(vault.root), vaultmem.__version__, ["settle"])
    if answer is None or is_index_stale(vault):
        sync_vault(vault, progress)
    else:
        mark_in_sync(vault)


def is_current(own: WatcherInfo, vault: Vault) -> bool:
    """Return whether this process still is the vault's watcher: its state can be deleted."""
    return read_value_if_sound(vault.state_folder / "watch.json", WatcherInfo) == own


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


# Unprocessed hints, shared by all threads of a watching process.


class PendingPaths:
    """Paths at which the folder might differ from the index, until they are processed.

    At first everything is pending, and its scan has begun.
    """

    def __init__(self) -> None:
        self._ended = threading.Condition()
        #: The number of hints; for each path, its last hint's number.
        self._count = 1
        self._paths = {EVERYTHING: 1}
        #: The last hint before a running full scan, 0 without one.
        self._looking = 1

    def add(self, path: str) -> None:
        """Add a path."""
        with self._ended:
            self._count += 1
            self._paths[path] = self._count

    def list(self) -> tuple[int, set[str]]:
        """Return all paths, and the number of the last hint."""
        with self._ended:
            return self._count, set(self._paths)

    def drop(self, number: int) -> None:
        """Record that the index contains the hints up to a number."""
        with self._ended:
            self._paths = {path: last for path, last in self._paths.items() if last > number}
            self._ended.notify_all()

    def begin(self) -> tuple[int, set[str]]:
        """Start a scan: return the paths and the number of the last hint."""
        with self._ended:
            self._looking = self._count
            return self.list()

    def end(self, number: int) -> None:
        """End a scan; the index contains the hints up to a number."""
        with self._ended:
            self._looking = 0
            self.drop(number)

    def sync(self, vault: Vault, is_complete: Callable[[], bool]) -> None:
        """Update the index; `is_complete` returns whether all hints have arrived.

        A running full scan is waited for first, but no longer than for a writer.
        """
        with self._ended:
            self._ended.wait_for(
                lambda: not 0 < self._paths.get(EVERYTHING, 0) <= self._looking, vault.wait
            )
        is_known = is_complete()
        number, paths = self.list()
        sync_pending(vault, paths if is_known else {EVERYTHING})
        self.drop(number)

    def wait_for(self, number: int, seconds: float) -> bool:
        """Wait until the index contains the hints up to a number; return False on timeout."""
        with self._ended:
            return self._ended.wait_for(
                lambda: all(last > number for last in self._paths.values()), seconds
            )
