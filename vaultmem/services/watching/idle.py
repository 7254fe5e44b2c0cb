"""Work of an idle watcher: commit quiet edits, apply changed states, and maintain the vault.

Only a person's saves count as activity: an agent that writes constantly delays no commit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import ConflictError, NoteNotFoundError, PendingError, RefusedError, VaultError
from vaultmem.services.changes.commit import (
    CommitReport,
    commit_edits,
    commit_said,
    save_checkpoint,
)
from vaultmem.services.changes.ownership import (
    HOW_TO_ALLOW,
    describe_skipped,
    find_author,
    is_gone,
    is_persons,
    read_hand_edits,
    read_pending,
)
from vaultmem.services.syncing.sync_place import Clock
from vaultmem.storage.files import UnsafeFileError, read_file, remove_file
from vaultmem.storage.git.checkout import HeadTree
from vaultmem.storage.journal import REMOVED
from vaultmem.storage.watcher import CHECKPOINT_FILE
from vaultmem.vault import Vault

#: A person's uncommitted files by path: size and time, None for a removed file.
_Edits = dict[str, tuple[int, int] | None]


class QuietEdits:
    """A person's uncommitted edits, and the time of the last save."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._edits: _Edits = {}
        self._since = 0.0
        self._is_waiting = False
        self._is_persons: dict[tuple[str, str], bool] = {}
        self._held: dict[str, str] = {}

    def look(self) -> None:
        """Find the edits, and restart the wait if they changed. The index must be in sync."""
        edits = self._find() if self.vault.config.commit_edits_after_seconds else {}
        if edits != self._edits:
            self._edits, self._since = edits, time.monotonic()
            self._is_waiting = bool(edits)

    def is_due(self, is_end: bool = False) -> bool:
        """Return whether edits have been unchanged for as long as the settings require.

        At the end of watching (`is_end`), all edits are due.
        """
        delay = self.vault.config.commit_edits_after_seconds
        is_quiet = is_end or time.monotonic() - self._since >= delay
        return bool(delay) and self._is_waiting and is_quiet

    def commit(self, is_end: bool = False) -> CommitReport:
        """Commit the edits; those changed since they were found wait again.

        Raises:
            PendingError: git cannot commit now.
        """
        if obstacle := self.vault.history.obstacle():
            raise PendingError(f"edits are not committed yet: {obstacle}")
        self._since = time.monotonic()  # A failure restarts the wait.
        report = commit_edits(self.vault, lambda: is_end or self._is_quiet())
        self._is_waiting = False
        self.look()
        return report

    def format_skipped(self, report: CommitReport) -> list[str]:
        """Return a line for each reason of skipped files that was not reported before."""
        new_reasons = {
            path: reason for path, reason in report.skipped.items() if path not in self._held
        }
        self._held = {**report.skipped}
        return describe_skipped(new_reasons)

    def _is_quiet(self) -> bool:
        """Return whether no file was saved since the last `look`."""
        return self._find().items() <= self._edits.items()

    def _find(self) -> _Edits:
        """Return the edits in the index; none before a repository's first commit."""
        vault = self.vault
        commit = vault.history.head().commit if vault.head() is not None else ""
        if not commit:
            return {}
        head = HeadTree(vault.state)
        head.follow(vault.history, commit)
        changed_paths, missing_paths = head.difference()
        files = vault.manifest.files(changed_paths)
        # Files that a scan skips, such as hidden ones, are missing only from the index.
        removed_paths = [path for path in missing_paths if is_gone(vault, path)]
        blobs = dict.fromkeys(removed_paths, REMOVED) | {
            path: files[path].blob for path in changed_paths if path in files
        }
        answers = {
            each: self._is_persons[each] for each in blobs.items() if each in self._is_persons
        }
        new_paths = [path for path, blob in blobs.items() if (path, blob) not in answers]
        tracked = head.entries(new_paths)
        ignored = vault.history.ignored([path for path in new_paths if path not in tracked])
        for path in new_paths:
            is_edit = path not in ignored and is_persons(find_author(vault, path, blobs[path]))
            answers[path, blobs[path]] = is_edit
        self._is_persons = answers
        return {
            path: files[path].stat[:2] if path in files else None
            for path, blob in blobs.items()
            if answers[path, blob]
        }


# Commit events made by editing a file: promote, close a session, checkpoint.
#
# They are a note whose `state` changed from candidate to active, a session note whose `status`
# became ok, error or canceled, and a file `.checkpoint` with the commit's note. The author of a
# saved file is unknown, so such a promotion is committed, but does not trust the policy or skill.

_MAX_REQUEST_BYTES = 4_096

#: Checked notes without an event: blob by path. Kept between two calls.
Examined = dict[str, str]


class _Request(NamedTuple):
    """The note in a `.checkpoint` file, and the file's blob id."""

    note: str
    blob: str


def commit_transitions(vault: Vault, examined: Examined) -> Iterator[CommitReport]:
    """Commit each uncommitted transition in the folder; the index must be in sync.

    Raises:
        PendingError: git cannot commit now; everything waits for a later call.
        RefusedError: some text looks like a credential. The other transitions were committed.
    """
    with vault.lock():
        paths = _find_spoken(vault, examined)
        request, problem = _read_request(vault)
        if (paths or request) and (obstacle := vault.history.obstacle()):
            waits = "what was asked for by file" if request else "the text of the notes"
            raise PendingError(f"{waits} is not committed yet: {obstacle}")
        if paths:
            report = commit_said(vault)
            if report.commits:
                yield report
            reasons = {path: reason for path, reason in report.skipped.items() if path in paths}
            problem = _reject(reasons) if reasons else problem
        if request:
            try:
                # The request might have meant the changes just committed.
                yield _fulfil(vault, request, even_if_clean=bool(paths))
            except RefusedError as error:
                problem = error
        if problem is not None:
            raise problem


def _find_spoken(vault: Vault, examined: Examined) -> set[str]:
    """Return the notes whose edits are events; store which are candidates."""
    commit = vault.history.head().commit
    if examined.get("") != commit:
        examined.clear()
        examined[""] = commit
    head = HeadTree(vault.state)
    head.follow(vault.history, commit)
    changed_paths = [path for path in head.difference()[0] if is_note_name(path)]
    blobs = {path: file.blob for path, file in vault.manifest.files(changed_paths).items()}
    new_blobs = {path: blob for path, blob in blobs.items() if examined.get(path) != blob}
    edits = read_hand_edits(vault, new_blobs)
    silent_edits = {path: each.note for path, each in edits.items() if not each.event}
    examined |= {path: note.blob for path, note in silent_edits.items()}
    candidates = {path: note.state == NoteState.CANDIDATE for path, note in silent_edits.items()}
    with vault.state.transaction():
        vault.journal.put_candidates(candidates, changed_paths)
    return edits.keys() - silent_edits.keys()


def _reject(reasons: Mapping[str, str]) -> RefusedError:
    text = "; ".join(f"{path} {reason}" for path, reason in reasons.items())
    return RefusedError(f"not committed: {text}. To go on: {HOW_TO_ALLOW}")


def _read_request(vault: Vault) -> tuple[_Request | None, VaultError | None]:
    """Return the request in a `.checkpoint` file, or None; and a problem, or None."""
    try:
        data = read_file(vault.root, PurePosixPath(CHECKPOINT_FILE), _MAX_REQUEST_BYTES)
        note = " ".join(data.decode("utf-8").split())
        return (_Request(note, blob_id(data)) if note else None), None
    except NoteNotFoundError:
        return None, None
    except UnsafeFileError as error:
        return None, RefusedError(f"{error}; remove it")
    except UnicodeDecodeError:
        return None, RefusedError(f"{CHECKPOINT_FILE}: it is not UTF-8 text; remove it")


def _fulfil(vault: Vault, request: _Request, even_if_clean: bool) -> CommitReport:
    """Make the checkpoint, then remove the file: a repetition would commit nothing."""
    report = save_checkpoint(vault, request.note, even_if_clean)
    with contextlib.suppress(ConflictError, NoteNotFoundError):  # Changed or removed meanwhile.
        remove_file(vault.root, PurePosixPath(CHECKPOINT_FILE), request.blob)
    return report


# Idle work of a watcher: embed, consolidate, compact, sync, pack git's objects.

#: Seconds of embedding before the watcher listens again.
_SLICE = 0.5

#: Seconds between two checks whether the nightly work is due.
_MINUTE = 60.0

#: `dream_every` and `compact_every` if both are off.
_SCHEDULES_OFF = ("never", "never")

#: Seconds before each check for loose objects.
_UPKEEP_SECONDS = 900.0


class IdleTasks:
    """The work of a vault that can wait, done in small steps.

    `has_edits` is set after a save.
    """

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self.has_edits = False
        self._next_night = 0.0
        self.syncs = Clock(vault)
        self._next_upkeep = time.monotonic() + _UPKEEP_SECONDS

    def embed(self) -> str:
        """Embed some notes if the settings name a model; return a message when all are done."""
        if self.vault.config.semantic == "off":
            return ""
        from vaultmem.services.semantic.embed import embed_pending

        result = embed_pending(self.vault, _SLICE)
        if result is None or not result.added or result.embedded < result.sections:
            return ""
        return f"{pluralize(result.sections, 'section')}, with {result.model}"

    def compare_incoming(self) -> str:
        """Compare some incoming notes; after the last, return a message on open decisions."""
        if not self.vault.state.get("arrived"):
            return ""
        from vaultmem.services.curation.incoming_notes import compare_incoming

        entries = compare_incoming(self.vault, _SLICE)
        if not entries or self.vault.state.get("arrived"):
            return ""
        return f"{len(entries):,} to review: `vaultmem review`"

    def check_anchors(self) -> None:
        """Check cited code for queries that did not wait for git."""
        if self.vault.state.get("anchors_waiting"):
            from vaultmem.services.anchors.check import check_waiting

            check_waiting(self.vault)

    def check_edits(self) -> str:
        """Check some of a person's edits for text that instructs an agent; return a message."""
        if not (self.has_edits and self.vault.head()):
            return ""
        from vaultmem.services.curation.incoming_notes import check_edits

        findings, is_done = check_edits(self.vault, read_pending(self.vault), _SLICE)
        self.has_edits = not is_done
        text = "; ".join(f"{each.path}: {each.reason}" for each in findings)
        return f"{text}; decide in `vaultmem review`" if text else ""

    def run_idle_tasks(self) -> Iterator[CommitReport]:
        """Consolidate and compact when due at night, as set in vaultmem.yaml; yield the reports.

        Raises:
            VaultError: as for `dream_if_due` and `compact_if_due`.
        """
        now, config = time.monotonic(), self.vault.config
        if now < self._next_night or (config.dream_every, config.compact_every) == _SCHEDULES_OFF:
            return
        self._next_night = now + _MINUTE
        from vaultmem.services.curation.compact import compact_if_due
        from vaultmem.services.curation.dream import dream_if_due

        if dreamt := dream_if_due(self.vault):
            yield dreamt.report
        if compacted := compact_if_due(self.vault):
            yield from compacted.reports

    def tidy(self) -> str:
        """Let git pack its objects if that is worth it; return a message."""
        now = time.monotonic()
        if now < self._next_upkeep or self.vault.head() is None:
            return ""
        self._next_upkeep = now + _UPKEEP_SECONDS
        from vaultmem.storage.git.maintenance import (
            MAX_LOOSE_OBJECTS,
            may_tidy,
            measure_objects,
            tidy_up,
        )

        git = self.vault.history.git
        if measure_objects(git).loose < MAX_LOOSE_OBJECTS or not may_tidy(git):
            return ""
        return tidy_up(git)
