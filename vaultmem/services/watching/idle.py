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
        after = self.vault.config.commit_edits_after_seconds
        is_quiet = is_end or time.monotonic() - self._since >= after
        return bool(after) and self._is_waiting and is_quiet

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
        new = {path: why for path, why in report.skipped.items() if path not in self._held}
        self._held = {**report.skipped}
        return describe_skipped(new)

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
        changed, gone = head.difference()
        files = vault.manifest.files(changed)
        # Files that a scan skips, such as hidden ones, are missing only from the index.
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
        said = _find_spoken(vault, examined)
        request, problem = _read_request(vault)
        if (said or request) and (obstacle := vault.history.obstacle()):
            waits = "what was asked for by file" if request else "the text of the notes"
            raise PendingError(f"{waits} is not committed yet: {obstacle}")
        if said:
            report = commit_said(vault)
            if report.commits:
                yield report
            held = {path: why for path, why in report.skipped.items() if path in said}
            problem = _reject(held) if held else problem
        if request:
            try:
                # The request might have meant the changes just committed.
                yield _fulfil(vault, request, even_if_clean=bool(said))
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
    changed = [path for path in head.difference()[0] if is_note_name(path)]
    blobs = {path: file.blob for path, file in vault.manifest.files(changed).items()}
    fresh = {path: blob for path, blob in blobs.items() if examined.get(path) != blob}
    edited = read_hand_edits(vault, fresh)
    silent = {path: each.note for path, each in edited.items() if not each.event}
    examined |= {path: note.blob for path, note in silent.items()}
    seen = {path: note.state == NoteState.CANDIDATE for path, note in silent.items()}
    with vault.state.transaction():
        vault.journal.put_candidates(seen, changed)
    return edited.keys() - silent.keys()


def _reject(held: Mapping[str, str]) -> RefusedError:
    named = "; ".join(f"{path} {why}" for path, why in held.items())
    return RefusedError(f"not committed: {named}. To go on: {HOW_TO_ALLOW}")


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
_UNASKED = ("never", "never")

#: Seconds before each check for loose objects.
_UPKEEP = 900.0


class IdleTasks:
    """The work of a vault that can wait, done in small steps.

    `has_edits` is set after a save.
    """

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self.has_edits = False
        self._next_night = 0.0
        self.syncs = Clock(vault)
        self._next_upkeep = time.monotonic() + _UPKEEP

    def embed(self) -> str:
        """Embed some notes if the settings name a model; return a message when all are done."""
        if self.vault.config.semantic == "off":
            return ""
        from vaultmem.services.semantic.embed import embed_pending

        done = embed_pending(self.vault, _SLICE)
        if done is None or not done.added or done.embedded < done.sections:
            return ""
        return f"{pluralize(done.sections, 'section')}, with {done.model}"

    def compare_incoming(self) -> str:
        """Compare some incoming notes; after the last, return a message on open decisions."""
        if not self.vault.state.get("arrived"):
            return ""
        from vaultmem.services.curation.incoming_notes import compare_incoming

        found = compare_incoming(self.vault, _SLICE)
        if not found or self.vault.state.get("arrived"):
            return ""
        return f"{len(found):,} to review: `vaultmem review`"

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

        found, is_done = check_edits(self.vault, read_pending(self.vault), _SLICE)
        self.has_edits = not is_done
        named = "; ".join(f"{each.path}: {each.reason}" for each in found)
        return f"{named}; decide in `vaultmem review`" if named else ""

    def run_idle_tasks(self) -> Iterator[CommitReport]:
        """Consolidate and compact when due at night, as set in vaultmem.yaml; yield the reports.

        Raises:
            VaultError: as for `dream_if_due` and `compact_if_due`.
        """
        now, config = time.monotonic(), self.vault.config
        if now < self._next_night or (config.dream_every, config.compact_every) == _UNASKED:
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
        self._next_upkeep = now + _UPKEEP
        from vaultmem.storage.git.maintenance import MANY, may_tidy, measure_objects, tidy_up

        git = self.vault.history.git
        if measure_objects(git).loose < MANY or not may_tidy(git):
            return ""
        return tidy_up(git)
