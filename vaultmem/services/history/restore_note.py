"""Restore an older version of a note, or undo a commit, as a new change."""

from __future__ import annotations

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
from vaultmem.services.changes.ownership import AuthorScope, is_pending, scan_note_text
from vaultmem.services.changes.parts import Event
from vaultmem.services.changes.write import reject_freeing, write
from vaultmem.services.history.commits import resolve_commit
from vaultmem.services.history.diff import locate_past
from vaultmem.services.views.resolve_names import names_in
from vaultmem.storage.files import MAX_FILE_BYTES, UnsafeFileError
from vaultmem.storage.git.log import Commit, read_commit
from vaultmem.storage.git.trees import diff_commits
from vaultmem.storage.scan_files import read_blob
from vaultmem.vault import Vault


class RestoreResult(NamedTuple):
    """A note that is as it was in `commit`; `old_blob` is what it was before, "" for nothing.

    `commits` were made: one that keeps what it was before, where nobody had committed that; or
    the restoration itself, on a branch that is not checked out. `candidates` has its path if it was
    active then, and an agent may not make it so again; `blob` is what it was then, `path_then` the
    path that it had, if another one.
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
        """Tell whether anything had to be written."""
        return self.blob != self.old_blob


def restore_note(vault: Vault, address: str, at: str, *, commits: bool = False) -> RestoreResult:
    """Write a note as it was in a commit, at a branch or tag or on a date, removed or not since.

    It gets its old text under the path that it has now. What it is now is committed first if no
    commit has it. With `commits`, and on a branch that is not checked out, the restoration is a
    commit. The vault must be in sync.

    Raises:
        NoteNotFoundError: there is no such commit, or no such note in it.
        RefusedError: the address is no note's, the text looks like a credential, or it is another
            one's word that the note is pinned or quarantined.
        PendingError: what the note is now is in no commit and cannot be; nothing was changed.
        ConflictError: somebody changed the note meanwhile; it is theirs.
    """
    commit = resolve_commit(vault, at)
    past = locate_past(vault, commit, address)
    entry, name, path = past.entry, past.present, PurePosixPath(past.present)
    if past.heading:
        raise RefusedError(f"{address}: a section; restore the whole note")
    if not is_note_path(path):
        raise RefusedError(f"{name}: not a note; `git restore` brings back other files")
    data = vault.history.objects.read(entry.blob)[1]
    check_leaks(vault, name, data)

    def plan(change: Change) -> RestoreResult:
        old = blob_now(change, path)
        if old == entry.blob:
            return RestoreResult(name, entry.blob, old, commit, ())
        saved = _save_present(vault, name, old) if old and change.is_folder else ()
        if old:
            reject_freeing(change, path, data)
            change.replace(path, data, old)
        else:
            _reject_twin(path, names_in(change.seen, path.parent))
            change.put(path, data)
        event = Event("write", format_files("restore", [name]), vault.author, intent="refine")
        (change.commit if commits else change.leave)(event)
        return RestoreResult(name, entry.blob, old, commit, saved)

    restored, report = write(vault, plan)
    commits_made = (*restored.commits, *report.commits)
    then = past.path if past.path != name else ""
    return restored._replace(commits=commits_made, candidates=report.candidates, path_then=then)


def check_leaks(vault: Vault, name: str, data: bytes) -> None:
    """Let nothing come back that is too long, or holds what looks like a credential.

    Raises:
        RefusedError: it does.
    """
    if len(data) > MAX_FILE_BYTES:
        raise RefusedError(f"{name}: it had {len(data):,} bytes; a note holds {MAX_FILE_BYTES:,}")
    for found in scan_note_text(vault, name, decode_text(data).text):
        raise RefusedError(
            f"{name}:{found.line}: what it was looks like a credential ({found.rule}); "
            "not restored, it stays in git alone"
        )


def blob_now(change: Change, path: PurePosixPath) -> str:
    """Return the blob id of what is there, empty if nothing is."""
    if not change.is_folder:
        return change.seen.view.blobs().get(str(path), "")
    try:
        return read_blob(change.seen.root, path)
    except UnsafeFileError as error:
        raise RefusedError(f"{error}; nothing was restored") from None


def _save_present(vault: Vault, name: str, blob: str) -> tuple[Made, ...]:
    """Commit what the note is now, or refuse: no bytes may be lost."""
    saved = commit_earlier(vault, {name: blob}, AuthorScope.ANYBODY)
    if is_pending(vault, name, blob, AuthorScope.ANYBODY):
        reason = vault.history.obstacle()
        raise PendingError(
            f"{name}: not restored, because no commit has what it is now"
            + (f" and none can be made: {reason}" if reason else "")
            + "; `vaultmem checkpoint NOTE` commits it, then restore"
        )
    return tuple(saved)


def _reject_twin(path: PurePosixPath, names: Container[str]) -> None:
    """Make no second note whose name differs in nothing but case, or NFC and NFD."""
    if fold_name(path) in names:
        raise ConflictError(
            f"{path}: a note differs from it only in upper and lower case; rename it first"
        )


# Take back what one commit did to its notes, as a new commit; history stays as it is.


class UndoResult(NamedTuple):
    """The commit that was taken back, its notes, and the commits of that."""

    commit: Commit
    paths: tuple[str, ...]
    report: CommitReport


def undo_commit(vault: Vault, name: str) -> UndoResult:
    """Give the notes that a commit changed the bytes which they had before it, all or none.

    What an agent wrote by it stays in the history. A trusted text that an agent brings back is a
    candidate.

    Raises:
        NoteNotFoundError: there is no such commit.
        RefusedError: it joins two histories, changed what is no note, or nothing; or a note had
            what looks like a credential, or is pinned or quarantined by the owner since.
        ConflictError: one of the notes was changed since.
        PendingError: the notes are as they were; their commit has to wait.
    """
    commit = read_commit(vault.history, resolve_commit(vault, name))
    short = commit.commit[:7]
    if len(commit.parents) != 1:
        raise RefusedError(f"{short}: it is a merge, or the first commit; restore single notes")
    changes = diff_commits(vault.history, commit.parents[0], commit.commit)
    if not changes:
        raise RefusedError(f"{short}: it changed no note")
    for each in changes:
        if not is_note_path(PurePosixPath(each.path)) or not each.is_regular:
            raise RefusedError(f"{short}: it changed {each.path}, which is not a note; use git")

    def plan(change: Change) -> None:
        for each in changes:
            _roll_back(vault, change, each, short)
        body = (f"Takes back {commit.commit}.",)
        change.commit(Event("undo", f"undo: {commit.subject}", vault.author, body, "refine"))

    done = write(vault, plan)
    return UndoResult(commit, tuple(each.path for each in changes), done.report)


def _roll_back(vault: Vault, change: Change, done: FileChange, short: str) -> None:
    path = PurePosixPath(done.path)
    if blob_now(change, path) != done.blob:
        raise ConflictError(
            f"{path}: changed since {short}; `vaultmem restore {path} --at {short}~` writes it as "
            "it was before"
        )
    data = vault.history.objects.read(done.old_blob)[1] if done.old_blob else None
    if done.blob:
        reject_freeing(change, path, data)
    if data is None:
        change.remove(path, done.blob)
        return
    check_leaks(vault, done.path, data)
    if done.blob:
        change.replace(path, data, done.blob)
    else:
        change.put(path, data)
