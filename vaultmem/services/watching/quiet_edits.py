"""Commit a person's edits after `commit_edits_after_seconds` without a save.

Only the person's own saves count: an agent that writes all the time delays no commit.
"""

from __future__ import annotations

import time

from vaultmem.errors import PendingError
from vaultmem.services.writing.commit import CommitReport, commit_edits
from vaultmem.services.writing.ownership import describe_skipped, find_author, is_gone, is_persons
from vaultmem.storage.git.head_tree import HeadTree
from vaultmem.storage.journal import REMOVED
from vaultmem.vault import Vault

#: A person's uncommitted files by path: size and time of each, None for a removed one.
_Edits = dict[str, tuple[int, int] | None]


class QuietEdits:
    """A person's uncommitted edits, and since when there was no other save."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._edits: _Edits = {}
        self._since = 0.0
        self._is_waiting = False
        self._is_persons: dict[tuple[str, str], bool] = {}
        self._held: dict[str, str] = {}

    def look(self) -> None:
        """Find the edits, and wait anew if others were saved. The index has to be in sync."""
        edits = self._find() if self.vault.config.commit_edits_after_seconds else {}
        if edits != self._edits:
            self._edits, self._since = edits, time.monotonic()
            self._is_waiting = bool(edits)

    def is_due(self, is_end: bool = False) -> bool:
        """Tell whether edits wait that were not changed for as long as the settings say.

        At the `is_end` of watching, all edits are due.
        """
        after = self.vault.config.commit_edits_after_seconds
        is_quiet = is_end or time.monotonic() - self._since >= after
        return bool(after) and self._is_waiting and is_quiet

    def commit(self, is_end: bool = False) -> CommitReport:
        """Commit the edits as they were found; those that were changed since wait anew.

        Raises:
            PendingError: git cannot take a commit now.
        """
        if obstacle := self.vault.history.obstacle():
            raise PendingError(f"edits are not committed yet: {obstacle}")
        self._since = time.monotonic()  # After a failure, the next attempt is as far off.
        report = commit_edits(self.vault, lambda: is_end or self._is_quiet())
        self._is_waiting = False
        self.look()
        return report

    def name_held(self, report: CommitReport) -> list[str]:
        """Return a line for each reason why files were left out, of which no report has told."""
        new = {path: why for path, why in report.skipped.items() if path not in self._held}
        self._held = {**report.skipped}
        return describe_skipped(new)

    def _is_quiet(self) -> bool:
        """Tell whether no file was saved since the last look."""
        return self._find().items() <= self._edits.items()

    def _find(self) -> _Edits:
        """Return the edits that the index knows of; nothing before a repository's first commit."""
        vault = self.vault
        commit = vault.history.head().commit if vault.head() is not None else ""
        if not commit:
            return {}
        head = HeadTree(vault.state)
        head.follow(vault.history, commit)
        changed, gone = head.difference()
        files = vault.manifest.files(changed)
        # What a scan passes over, such as hidden files, is gone from the index alone.
        removed = [path for path in gone if is_gone(vault, path)]
        blobs = dict.fromkeys(removed, REMOVED) | {
            path: files[path].blob for path in changed if path in files
        }
        known = {each: self._is_persons[each] for each in blobs.items() if each in self._is_persons}
        new = [path for path, blob in blobs.items() if (path, blob) not in known]
        tracked = head.entries(new)
        ignored = vault.history.ignored([path for path in new if path not in tracked])
        for path in new:
            is_edit = path not in ignored and is_persons(find_author(vault, path, blobs[path]))
            known[path, blobs[path]] = is_edit
        self._is_persons = known
        return {
            path: files[path].stat[:2] if path in files else None
            for path, blob in blobs.items()
            if known[path, blob]
        }
