"""Keep a vault up to date during edits: scan, index, commit, render.

File events are hints. After a short quiet time, the notes that they name are indexed by the same
functions as in every command. A missed event is harmless, because the whole folder is also scanned:
at start, after unknown changes, a moved HEAD or a watching error, after a rest, and once an hour.
"""

from __future__ import annotations

import contextlib
import os
import queue
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from vaultmem.config import CONFIG_NAME, read_config
from vaultmem.errors import DamagedError, PendingError, VaultError, wrap_os_error
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.views.update_index import sync_vault
from vaultmem.services.watching.generated_context import render_contexts
from vaultmem.services.watching.idle import Examined, IdleTasks, QuietEdits, commit_transitions
from vaultmem.services.watching.lease import PendingPaths
from vaultmem.services.watching.sync_hints import sync_changed
from vaultmem.storage.lock import find_holders
from vaultmem.storage.watcher import EVERYTHING, FolderWatcher
from vaultmem.vault import Vault

#: Seconds without an event before a batch is processed, and the longest wait.
DEBOUNCE_SECONDS = 0.2
MAX_DELAY_SECONDS = 2.0

#: Seconds in which hints are processed, unless another process is writing.
_HINT_WAIT_SECONDS = 0.2

#: Seconds between two checks of HEAD and of the watcher's health.
_CHECK_INTERVAL_SECONDS = 1.0

#: Seconds of rest after which a full scan follows single notes.
_FULL_SCAN_DELAY_SECONDS = 10.0

#: Seconds between two updates of generated files.
_RENDER_INTERVAL_SECONDS = 5.0
_HOUR = 3_600.0


class WatchEvent(NamedTuple):
    """An event to show to a person: its kind and text, such as notes, a commit or a problem."""

    kind: str
    text: str


Tell = Callable[[WatchEvent], None]


class WatchLoop:
    """A loop in one thread; other threads can sync, request a scan, or stop it.

    `is_mine` returns whether this process still is the vault's watcher. With `only_looks`, the loop
    only updates the index and never writes to the vault. `notice` is called with each path that
    might have changed, from another thread.
    """

    def __init__(
        self,
        vault: Vault,
        report: Tell,
        is_mine: Callable[[], bool] | None = None,
        only_looks: bool = False,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self._vault = vault
        self._describe = report
        self._only_looks = only_looks
        self._notice = notice
        self._is_mine = is_mine or (lambda: True)
        self._hints: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._pending = PendingPaths()
        self._watcher = self._new_watcher()
        self._stopped = False
        self._problems: set[str] = set()
        self._told: set[str] = set()
        self._examined: Examined = {}
        self._resting = IdleTasks(vault)
        self._edits = QuietEdits(vault)
        self._edits_problem = ("", "")  # The last and the last reported one.
        self._head = self._waits_for = ""
        self._last_look = self._last_full = self._last_rendered = 0.0
        self._is_rendered = True
        self.is_watching = False

    def run(self) -> None:
        """Watch until `stop`; then sync pending files and commit a person's edits.

        Raises:
            VaultError: the vault's state was removed, and the watcher's lock with it.
        """
        self._watcher.start()
        self._look({EVERYTHING})
        self.is_watching = True
        try:
            while not self._stopped:
                hints = self._collect()
                if not self._watcher.is_healthy():
                    self._watch_again()
                    hints = {EVERYTHING}
                self._watcher.poll()
                if hints or self._is_due():
                    self._look(hints or {EVERYTHING})
                elif not self._only_looks:
                    self._rest()
                self._commit_edits()
                if not self._is_mine():
                    raise VaultError(
                        f"{self._vault.state_folder}: removed; start the watcher again"
                    )
        finally:
            self.is_watching = False
            self._watcher.catch_up()
            self._watcher.stop()
            self._look({EVERYTHING})
            if self._stopped:
                self._commit_edits(is_end=True)

    def stop(self) -> None:
        """Ask the loop to end; safe in a signal handler."""
        self._stopped = True
        self._hints.put(None)

    def sync(self, vault: Vault) -> None:
        """Update the index for a thread that cannot wait for the loop."""
        watcher = self._watcher
        self._pending.sync(vault, lambda: watcher.is_healthy() and watcher.catch_up())

    def settle(self, seconds: float) -> bool:
        """Wait until the index contains all saves until now; return False on timeout."""
        if not self.is_watching:
            return False
        try:
            is_known = self._watcher.catch_up() and self._read_head() == self._head
        except (VaultError, OSError):
            return False
        if not is_known:
            self._pending.add(EVERYTHING)
            self._hints.put(EVERYTHING)
        goal, _ = self._pending.list()
        if self._pending.wait_for(goal, 0.0):
            return True
        self._hints.put(None)
        if self._pending.wait_for(goal, min(seconds, _HINT_WAIT_SECONDS)):
            return True
        others = find_holders(self._vault.state_folder / "lock")
        if others and os.getpid() not in others:  # The loop waits too, for an unknown time.
            return False
        return self._pending.wait_for(goal, seconds - _HINT_WAIT_SECONDS)

    def _new_watcher(self) -> FolderWatcher:
        ignores = lambda path: self._vault.config.ignores(path)  # noqa: E731 - settings change.
        return FolderWatcher(self._vault.root, self._hint, ignores)

    def _hint(self, path: str) -> None:
        """Add a hint, from any thread."""
        self._pending.add(path)
        self._hints.put(path)
        if self._notice is not None:
            self._notice(path)

    def _collect(self) -> set[str]:
        """Wait for hints until a short pause; return none after a tick."""
        hints: set[str] = set()
        end = time.monotonic() + _CHECK_INTERVAL_SECONDS
        pause = _CHECK_INTERVAL_SECONDS
        while (seconds := end - time.monotonic()) > 0:
            try:
                hint = self._hints.get(timeout=min(pause, seconds))
            except queue.Empty:
                break
            if hint is None:  # Another thread waits.
                break
            if not hints:
                end = time.monotonic() + MAX_DELAY_SECONDS
                pause = DEBOUNCE_SECONDS
            hints.add(hint)
        return hints

    def _is_due(self) -> bool:
        """Return whether a full scan is due without any hint."""
        now = time.monotonic()
        is_rested = self._last_full < self._last_look < now - _FULL_SCAN_DELAY_SECONDS
        with contextlib.suppress(VaultError, OSError):
            has_moved = self._read_head() != self._head
            return is_rested or has_moved or now - self._last_full > _HOUR or self._may_go_on()
        return True  # The repository can be replaced or gone; a scan reports it.

    def _may_go_on(self) -> bool:
        """Return whether git can now commit what had to wait."""
        if self._waits_for and self._vault.history.obstacle():
            if self._waits_for not in self._told:  # Not at once: git usually ends soon.
                self._told.add(self._waits_for)
                self._describe(WatchEvent("problem", self._waits_for))
            return False
        return bool(self._waits_for)

    def _look(self, hints: set[str]) -> None:
        """Update index, commits and generated files; report failures."""
        while not self._hints.empty():
            hint = self._hints.get_nowait()
            hints |= {hint} if hint is not None else set()
        number, pending = self._pending.begin()
        self._problems.clear()
        is_done = self._try(lambda: self._sync_changed(hints | pending))
        self._pending.end(number if is_done else 0)
        if is_done:
            if not self._only_looks:
                self._try(self._commit)
                self._try(self._edits.look)
                self._resting.has_edits = True
                self._is_rendered = False
                self._render_when_due()
        else:
            self._head = "unknown"  # Scan everything again later.
        if warning := self._watcher.polling():
            self._problems.add(warning)
        for problem in sorted(self._problems - self._told):
            self._describe(WatchEvent("problem", problem))
        self._told = self._problems | ({self._waits_for} & self._told)

    def _rest(self) -> None:
        """Do idle work; report a failure once, until another one occurs."""
        self._problems = set()
        self._render_when_due()
        self._try(lambda: self._report_of("problem", self._resting.check_edits()))
        self._try(lambda: self._report_of("arrived", self._resting.compare_incoming()))
        self._try(lambda: self._report_of("embedded", self._resting.embed()))
        self._try(self._resting.check_anchors)
        self._try(self._run_idle_tasks)
        self._try(lambda: self._report_of("packed", self._resting.tidy()))
        self._sync()
        for problem in sorted(self._problems - self._told):
            self._describe(WatchEvent("problem", problem))
        self._told |= self._problems

    def _report_of(self, kind: str, text: str) -> None:
        if text:
            self._describe(WatchEvent(kind, text))

    def _sync(self) -> None:
        result = self._resting.syncs.poll()
        if result is not None and result.is_problem:
            self._problems.add(result.text)
        elif result is not None:
            self._describe(WatchEvent("synced", result.text))

    def _run_idle_tasks(self) -> None:
        for report in self._resting.run_idle_tasks():
            self._report_commits(report)

    def _report_commits(self, report: CommitReport) -> None:
        for commit, subject in report.commits:
            self._describe(WatchEvent("committed", f"{commit[:7]}  {subject}"))
        if report.has_closed:
            self._resting.syncs.hurry()

    def _try(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except (VaultError, OSError) as error:
            self._problems.add(str(wrap_os_error(error)))
            if isinstance(error, DamagedError):
                self._head = "unknown"  # Scan again, which rebuilds it.
            return False
        return True

    def _sync_changed(self, hints: set[str]) -> None:
        started = time.monotonic()
        head = self._read_head()
        is_full = EVERYTHING in hints or head != self._head
        if is_full or CONFIG_NAME in hints:
            self._read_settings()
        report = sync_vault(self._vault) if is_full else sync_changed(self._vault, hints)
        self._head, self._last_look = head, started
        if report.is_full:
            self._last_full = started
        if text := str(report):
            self._describe(WatchEvent("indexed", text))

    def _read_settings(self) -> None:
        vault = replace(self._vault, config=read_config(self._vault.root))
        self._vault = self._resting.vault = self._edits.vault = vault

    def _commit(self) -> None:
        """Commit events made by file, unless git cannot commit now."""
        self._waits_for = ""
        head = self._vault.head()
        if head is None or not head.commit:
            return
        try:
            for report in commit_transitions(self._vault, self._examined):
                for commit, _ in report.commits:
                    self._head = f"{head.branch} {commit}"
                self._report_commits(report)
                if not report.commits:
                    self._describe(WatchEvent("committed", "nothing, for there were no changes"))
        except PendingError as error:
            self._waits_for = str(error)

    def _commit_edits(self, is_end: bool = False) -> None:
        """Commit a person's edits if they are due; report a failure once, and retry.

        Another git usually ends soon, so it is reported only the second time.
        """
        if self._only_looks or not self._edits.is_due(is_end):
            return
        problem, is_passing = "", False
        try:
            report = self._edits.commit(is_end)
            self._report_commits(report)
            for line in self._edits.format_skipped(report):
                self._describe(WatchEvent("problem", f"not committed: {line}"))
        except (VaultError, OSError) as error:
            problem = str(wrap_os_error(error))
            is_passing = isinstance(error, PendingError) and not is_end
        last_problem, reported_problem = self._edits_problem
        if problem not in {"", reported_problem} and (problem == last_problem or not is_passing):
            self._describe(WatchEvent("problem", problem))
            reported_problem = problem
        self._edits_problem = problem, reported_problem if problem else ""

    def _render_when_due(self) -> None:
        """Render changed packs; while watching, wait some time after the last written file."""
        is_calm = time.monotonic() - self._last_rendered >= _RENDER_INTERVAL_SECONDS
        if not self._is_rendered and (is_calm or not self.is_watching):
            self._is_rendered = self._try(self._render)

    def _render(self) -> None:
        for result in render_contexts(self._vault):
            if result.problem:
                self._problems.add(f"{result.path}: {result.problem}")
            elif result.changed:
                self._describe(WatchEvent("rendered", result.path))
                self._last_rendered = time.monotonic() if self.is_watching else 0.0

    def _watch_again(self) -> None:
        """Start watching again once the folder exists."""
        self._describe(WatchEvent("problem", "watching broke off; beginning again"))
        self._watcher.stop()
        while not self._vault.root.is_dir() and not self._stopped:
            time.sleep(_CHECK_INTERVAL_SECONDS)
        self._vault.close()  # The folder can be another repository.
        self._hint(EVERYTHING)
        self._watcher = self._new_watcher()
        self._try(self._watcher.start)

    def _read_head(self) -> str:
        head = self._vault.head()
        return f"{head.branch} {head.commit}" if head is not None else ""
