"""What was hinted at and is not looked at yet, for all threads of a process that watches."""

from __future__ import annotations

import threading
from collections.abc import Callable

from vaultmem.services.watching.sync_hints import sync_pending
from vaultmem.storage.watcher import EVERYTHING
from vaultmem.vault import Vault


class Pending:
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
