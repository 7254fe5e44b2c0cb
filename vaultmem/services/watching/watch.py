"""Keep a vault up to date while people and agents work in it: look, index, commit, render.

Events are hints. After some quiet the whole folder is compared with the manifest by the very
function that every command uses, so a missed event is harmless: there is a look at start, after
lost events, when HEAD moved, when watching broke, and once an hour.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from vaultmem.config import read_config
from vaultmem.errors import VaultError
from vaultmem.services.sync import sync_vault
from vaultmem.services.watching.context import render_contexts
from vaultmem.services.watching.transitions import take_transitions
from vaultmem.storage.watcher import FolderWatcher
from vaultmem.vault import Vault

#: Seconds without an event before a batch is taken, and the longest that one waits.
QUIET = 0.2
LONGEST = 2.0

#: Seconds between two looks at HEAD and at the watcher's health, and at everything.
_TICK = 1.0
_HOUR = 3_600.0


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that a person may want to see: what, in which notes or commit, or why not."""

    what: str
    text: str


Tell = Callable[[Happened], None]


class WatchLoop:
    """One loop in one thread; others may ask it to look at once, or to stop."""

    def __init__(self, vault: Vault, tell: Tell) -> None:
        self._vault = vault
        self._tell = tell
        self._hints: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._looked = threading.Condition()
        self._hinted = self._seen = 0
        self._told: set[str] = set()
        self.is_watching = False
        self._head = ""

    def run(self) -> None:
        """Watch until `stop`; what is pending then is still taken in."""
        watcher = FolderWatcher(self._vault.root, self._hint)
        if problem := watcher.start():
            self._tell(Happened("problem", problem))
        self._look()
        self.is_watching = True
        last = time.monotonic()
        try:
            while not self._stopped.is_set():
                wanted = self._collect()
                if not watcher.is_healthy():
                    watcher = self._restart(watcher)
                    wanted = True
                if wanted or self._moved() or time.monotonic() - last > _HOUR:
                    self._look()
                    last = time.monotonic()
        finally:
            watcher.stop()
            self._look()

    def stop(self) -> None:
        """Ask the loop to end; it may be called from a signal handler."""
        self._stopped.set()
        self._hints.put(None)

    def settle(self, seconds: float) -> bool:
        """Look at once at what is hinted at by now; False if that takes longer."""
        with self._looked:
            goal = self._hinted
            if self._seen >= goal:
                return True
            self._hints.put(None)
            return self._looked.wait_for(lambda: self._seen >= goal, seconds)

    def _hint(self, path: str) -> None:
        """Take a hint; called from the watcher's threads."""
        with self._looked:
            self._hinted += 1
        self._hints.put(path)

    def _collect(self) -> bool:
        """Wait for a hint, and then until there are no more for a moment; False after a tick."""
        try:
            hint = self._hints.get(timeout=_TICK)
        except queue.Empty:
            return False
        end = time.monotonic() + LONGEST
        while hint is not None and time.monotonic() < end:  # None: somebody is waiting.
            try:
                hint = self._hints.get(timeout=QUIET)
            except queue.Empty:
                break
        return True

    def _look(self) -> None:
        """Bring index, commits and generated files up to date; whatever fails is told and kept."""
        with self._looked:
            seen = self._hinted
        while not self._hints.empty():
            self._hints.get_nowait()
        for step in (self._sync, self._commit, self._render):
            try:
                step()
            except VaultError as error:
                self._tell_once(str(error))
        with self._looked:
            self._seen = seen
            self._looked.notify_all()

    def _sync(self) -> None:
        self._vault.config = read_config(self._vault.root)
        report = sync_vault(self._vault)
        parts = [
            f"{count} {name}"
            for count, name in (
                (report.added, "new"),
                (report.changed, "changed"),
                (report.removed, "gone"),
            )
            if count
        ]
        if parts:
            self._told.clear()
            self._tell(Happened("indexed", ", ".join(parts)))

    def _commit(self) -> None:
        head = self._vault.head()
        if head is None or not head.commit:
            return
        for report in take_transitions(self._vault):
            for commit, subject in report.commits:
                self._tell(Happened("committed", f"{commit[:7]}  {subject}"))
        self._head = self._read_head()

    def _render(self) -> None:
        for rendered in render_contexts(self._vault):
            if rendered.problem:
                self._tell_once(f"{rendered.path}: {rendered.problem}")
            elif rendered.changed:
                self._tell(Happened("rendered", rendered.path))

    def _restart(self, watcher: FolderWatcher) -> FolderWatcher:
        """Watch again, once the folder is there again."""
        watcher.stop()
        self._tell_once("watching broke off; beginning again")
        while not self._vault.root.is_dir() and not self._stopped.wait(_TICK):
            pass
        fresh = FolderWatcher(self._vault.root, self._hint)
        if not self._stopped.is_set() and (problem := fresh.start()):
            self._tell_once(problem)
        return fresh

    def _moved(self) -> bool:
        return self._read_head() != self._head

    def _read_head(self) -> str:
        head = self._vault.head()
        return f"{head.branch} {head.commit}" if head is not None else ""

    def _tell_once(self, text: str) -> None:
        """Tell of a problem, but not after each save anew."""
        if text not in self._told:
            self._told.add(text)
            self._tell(Happened("problem", text))
