"""Restore an older version of a note, or undo a commit, as a new change."""

from __future__ import annotations

import shlex
from collections.abc import Container
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.commit_message import format_files
from vaultmem.core.notes.changes import FileChange
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.text.paths import fold_name, is_note_path
from vaultmem.errors import ConflictError, PendingError, RefusedError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import CommitReport, Made, commit_earlier
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.ownership import AuthorScope, is_pending, scan_note_text
from vaultmem.services.changes.write import reject_freeing, write
from vaultmem.services.history.commits import resolve_commit
from vaultmem.services.history.diff import locate_past
from vaultmem.services.views.resolve_names import names_in
from vaultmem.storage.files import MAX_FILE_BYTES, UnsafeFileError
from vaultmem.storage.git.log import Commit, find_ends, read_commit
from vaultmem.storage.git.trees import diff_commits
from vaultmem.storage.scan_files import read_blob
from vaultmem.vault import Vault


class RestoreResult(NamedTuple):
    """A note restored to its version in `commit`; `old_blob` is its blob id before, "" for none.

    `commits` were made: one for uncommitted text before, or the restoration itself on a branch that
    is not checked out. `candidates` has its path if that version was active and an agent cannot
    activate it again. `blob` is the restored blob id, `path_then` its path then, if different.
    """

    path: str
    blob: str
    old_blob: str
    commit: str
    commits: tuple[Made, ...]
    candidates: tuple[str, ...] = ()
    path_then: str = ""

    @property
    def is_changed(self) -> bool:
        """Return whether anything had to be written."""
        return self.blob != self.old_blob


def restore_note(vault: Vault, address: str, at: str, *, commits: bool = False) -> RestoreResult:
    """Write a note's version from a commit, branch, tag or date, removed or not since.

    The old text is written to the note's present path. Uncommitted text is committed first. With
    `commits`, and on a branch that is not checked out, the restoration is a commit. The vault must
    be in sync.

    Raises:
        NoteNotFoundError: there is no such commit, or no such note in it.
        RefusedError: the address is not a note, the text looks like a credential, or an agent would
            unpin the note or release it from quarantine.
        PendingError: the present text is uncommitted and cannot be committed; nothing was changed.
        ConflictError: another process changed the note meanwhile; it stays.
    """
    commit = resolve_commit(vault, at)
    past_note = locate_past(vault, commit, address)
    entry, name, path = past_note.entry, past_note.present, PurePosixPath(past_note.present)
    if past_note.heading:
        raise RefusedError(f"{address}: a section; restore the whole note")
    if not is_note_path(path):
        raise RefusedError(f"{name}: not a note; `git restore` brings back other files")
    data = vault.history.objects.read(entry.blob)[1]
    check_leaks(vault, name, data)

    def plan(change: Change) -> RestoreResult:
        old = blob_now(change, path)
        if old == entry.blob:
            return RestoreResult(name, entry.blob, old, commit, ())
        saved_commits = _save_present(vault, name, old) if old and change.is_folder else ()
        if old:
            reject_freeing(change, path, data)
            change.replace(path, data, old)
        else:
            _reject_twin(path, names_in(change.seen, path.parent))
            change.put(path, data)
        event = Event("write", format_files("restore", [name]), vault.author, intent="refine")
        (change.commit if commits else change.leave)(event)
        return RestoreResult(name, entry.blob, old, commit, saved_commits)

    result, report = write(vault, plan)
    commits_made = (*result.commits, *report.commits)
    old_path = past_note.path if past_note.path != name else ""
    return result._replace(commits=commits_made, candidates=report.candidates, path_then=old_path)


def check_leaks(vault: Vault, name: str, data: bytes) -> None:
    """Reject a version that is too long or looks like a credential.

    Raises:
        RefusedError: it is one of these.
    """
    if len(data) > MAX_FILE_BYTES:
        raise RefusedError(f"{name}: it had {len(data):,} bytes; a note holds {MAX_FILE_BYTES:,}")
    for leak in scan_note_text(vault, name, decode_text(data).text):
        raise RefusedError(
            f"{name}:{leak.line}: what it was looks like a credential ({leak.rule}); "
            "not restored, it stays in git alone"
        )


def blob_now(change: Change, path: PurePosixPath) -> str:
    """Return the blob id of the present file, "" if there is none."""
    if not change.is_folder:
        return change.seen.view.blobs().get(str(path), "")
    try:
        return read_blob(change.seen.root, path)
    except UnsafeFileError as error:
        raise RefusedError(f"{error}; rename it, then repeat the command") from None


def _save_present(vault: Vault, name: str, blob: str) -> tuple[Made, ...]:
    """Commit the note's present text, or raise: no bytes may be lost."""
    commits = commit_earlier(vault, {name: blob}, AuthorScope.ANYBODY)
    if is_pending(vault, name, blob, AuthorScope.ANYBODY):
        reason = vault.history.obstacle()
        raise PendingError(
            f"{name}: not restored, because no commit has what it is now"
            + (f" and none can be made: {reason}" if reason else "")
            + "; `vaultmem checkpoint NOTE` commits it, then restore"
        )
    return tuple(commits)


def _reject_twin(path: PurePosixPath, names: Container[str]) -> None:
    """Reject a second note whose name differs only in case, or in NFC and NFD."""
    if fold_name(path) in names:
        raise ConflictError(
            f"{path}: a note differs from it only in upper and lower case; rename it first"
        )


# Undo one commit's changes of notes in a new commit; history stays unchanged.


class UndoResult(NamedTuple):
    """The commit that was undone, its notes, and the report of the new commits."""

    commit: Commit
    paths: tuple[str, ...]
    report: CommitReport


def undo_commit(vault: Vault, name: str) -> UndoResult:
    """Restore all notes that a commit changed to their bytes before it, or none.

    The undone commit stays in the history. A trusted text that an agent restores becomes a
    candidate.

    Raises:
        NoteNotFoundError: there is no such commit.
        RefusedError: it is a merge or the first commit, or changed nothing or other files; or
            a note had a possible credential, or the owner has pinned or quarantined it since.
        ConflictError: one of the notes was changed since.
        PendingError: the notes are restored; their commit has to wait.
    """
    commit = read_commit(vault.history, resolve_commit(vault, name))
    label = commit.commit[:7]
    if commit.commit in find_ends(vault.history):
        raise RefusedError(
            f"{label}: this clone is shallow, so the notes before that commit are not known; "
            "`git fetch --unshallow` gets them"
        )
    if len(commit.parents) != 1:
        raise RefusedError(f"{label}: it is a merge, or the first commit; restore single notes")
    changes = diff_commits(vault.history, commit.parents[0], commit.commit)
    if not changes:
        raise RefusedError(f"{label}: it changed no note")
    for each in changes:
        if not is_note_path(PurePosixPath(each.path)) or not each.is_regular:
            raise RefusedError(
                f"{label}: it changed {each.path}, which is not a note; "
                f"`git revert {label}` takes it back"
            )

    def plan(change: Change) -> None:
        for each in changes:
            _roll_back(vault, change, each, label)
        body = (f"Takes back {commit.commit}.",)
        change.commit(Event("undo", f"undo: {commit.subject}", vault.author, body, "refine"))

    result = write(vault, plan)
    return UndoResult(commit, tuple(each.path for each in changes), result.report)


def _roll_back(vault: Vault, change: Change, file_change: FileChange, label: str) -> None:
    path = PurePosixPath(file_change.path)
    if blob_now(change, path) != file_change.blob:
        raise ConflictError(
            f"{path}: changed since {label}; `vaultmem restore {shlex.quote(str(path))} --at "
            f"{label}~` writes it as it was before"
        )
    data = vault.history.objects.read(file_change.old_blob)[1] if file_change.old_blob else None
    if file_change.blob:
        reject_freeing(change, path, data)
    if data is None:
        change.remove(path, file_change.blob)
        return
    check_leaks(vault, file_change.path, data)
    if file_change.blob:
        change.replace(path, data, file_change.blob)
    else:
        change.put(path, data)
