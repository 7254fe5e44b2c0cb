"""The lock of the one process that watches a vault, and the hints it has not processed.

What it has seen need not be looked at again: a live watcher is asked, not believed.
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
from vaultmem.storage.kept import read_value_if_sound
from vaultmem.storage.lock import hold_lock, is_held
from vaultmem.storage.watch_socket import SOCKET_NAME, ask_watcher
from vaultmem.storage.watcher import EVERYTHING
from vaultmem.vault import Vault

#: Seconds in which one who only asks gives the lock back.
_PROBED = 1.0


class WatcherInfo(NamedTuple):
    """The process that watches; `since` is seconds since the epoch.

    `address` is where it serves over HTTP, if it does. A `passing` one was started for its clients,
    and ends when the last has been gone for some time.
    """

    pid: int
    version: str
    since: float
    address: str = ""
    passing: bool = False


@contextlib.contextmanager
def hold_watch(vault: Vault, address: str = "", passing: bool = False) -> Iterator[WatcherInfo]:
    """Be the vault's watcher for the time of a `with`; one that is passing makes room.

    Raises:
        VaultError: another process is; it says which.
    """
    held = contextlib.ExitStack()
    try:
        if not passing and (other := find_watcher(vault)) and other.passing:
            stop_watcher(vault)
        held.enter_context(hold_lock(vault.state_folder / "watch.lock", _PROBED))
    except LockTimeoutError:
        other = find_watcher(vault)
        who = f"process {other.pid}, since {_clock(other.since)}" if other else "another process"
        raise VaultError(
            f"{vault.root}: watched already by {who}; `vaultmem watch --stop` ends that"
        ) from None
    with held:
        own = WatcherInfo(os.getpid(), vaultmem.__version__, vault.now(), address, passing)
        file = vault.state_folder / "watch.json"
        write_atomically(file, json.dumps(as_json_object(own)).encode(), durable=False)
        try:
            yield own
        finally:
            if is_current(own, vault):
                file.unlink(missing_ok=True)


def find_watcher(vault: Vault) -> WatcherInfo | None:
    """Return who watches the vault, None if nobody does."""
    if not is_held(vault.state_folder / "watch.lock"):
        return None
    for _ in range(20):  # It may hold the lock and not have written yet.
        if found := read_value_if_sound(vault.state_folder / "watch.json", WatcherInfo):
            return found
        time.sleep(0.05)
    return None


def stop_watcher(vault: Vault, seconds: float = 15.0) -> WatcherInfo | None:
    """Ask the watcher to end and wait until it has; return who it was.

    Raises:
        VaultError: it is still there after so many seconds.
    """
    found = find_watcher(vault)
    if found is None:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    end = time.monotonic() + seconds
    while is_held(vault.state_folder / "watch.lock"):
        if time.monotonic() > end:
            raise VaultError(f"process {found.pid} still watches after {seconds:.0f} s; end it")
        time.sleep(0.05)
    return found


def catch_up(vault: Vault, progress: Progress | None = None) -> None:
    """Make the index equal to the folder: a live watcher says that it is, else all is looked at.

    It does not know of damage to index and database since, so that is asked here. Whatever was
    saved before this call is in it. The vault's lock must not be held.
    """
    socket = str(vault.state_folder / SOCKET_NAME)
    told = ask_watcher(socket, str(vault.root), vaultmem.__version__, ["settle"])
    if told is None or is_index_stale(vault):
        sync_vault(vault, progress)
    else:
        mark_in_sync(vault)


def is_current(own: WatcherInfo, vault: Vault) -> bool:
    """Tell whether this process still counts as the vault's watcher: state can be deleted."""
    return read_value_if_sound(vault.state_folder / "watch.json", WatcherInfo) == own


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


# What was hinted at and is not looked at yet, for all threads of a process that watches.


class PendingPaths:
    """Paths at which the folder may differ from the index, until somebody has looked at them.

    At first everything is pending, and somebody about to look at it.
    """

    def __init__(self) -> None:
        self._ended = threading.Condition()
        #: How often something was hinted at; at each path, when that was last.
        self._count = 1
        self._paths = {EVERYTHING: 1}
        #: The last hint before a look at everything that is under way, 0 if none is.
        self._looking = 1

    def add(self, path: str) -> None:
        """Add a path."""
        with self._ended:
            self._count += 1
            self._paths[path] = self._count

    def list(self) -> tuple[int, set[str]]:
        """Return all of them, and the number of the last hint."""
        with self._ended:
            return self._count, set(self._paths)

    def drop(self, number: int) -> None:
        """Note that the index has what was hinted at up to a number."""
        with self._ended:
            self._paths = {path: last for path, last in self._paths.items() if last > number}
            self._ended.notify_all()

    def begin(self) -> tuple[int, set[str]]:
        """Return them to one who looks at them from now on."""
        with self._ended:
            self._looking = self._count
            return self.list()

    def end(self, number: int) -> None:
        """Note that this look has ended, and the index has what was hinted at up to a number."""
        with self._ended:
            self._looking = 0
            self.drop(number)

    def sync(self, vault: Vault, is_complete: Callable[[], bool]) -> None:
        """Bring the index up to what is on disk; `is_complete` tells that every hint is here.

        A look at everything that is under way is waited for first, but no longer than for a writer.
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
        """Wait until the index has what was hinted at up to a number; False without that."""
        with self._ended:
            return self._ended.wait_for(
                lambda: all(last > number for last in self._paths.values()), seconds
            )
