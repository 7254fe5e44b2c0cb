"""Write a planned change as one transaction: to the folder or to another branch.

An operation plans which notes of a folder or a branch to put, replace or remove, and the event. It
plans again if another program changed the same notes meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TypeVar

from vaultmem.core.commit_message import read_subject
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.encoding import CANVAS, open_to_edit
from vaultmem.core.notes.note import Note, parse_note, parse_readable_note
from vaultmem.core.text.blob import blob_id
from vaultmem.errors import ConflictError, PendingError, RefusedError, wrapping_os_errors
from vaultmem.services.changes.bullets import drop_bullets
from vaultmem.services.changes.change import Change, NoteStep, WriteResult, check_encoding
from vaultmem.services.changes.commit import (
    CommitReport,
    commit_earlier,
    commit_event,
    draft_event,
    list_shown,
    store_named,
)
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.operation import Transaction, operate
from vaultmem.services.changes.ownership import reject_named_secrets, reject_secrets
from vaultmem.services.views.open_view import find_branch, view_at
from vaultmem.services.views.update_index import sync_paths
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.commit_draft import REGULAR, File, Move, TreeEntry
from vaultmem.storage.git.trees import FOLDER, list_places
from vaultmem.storage.journal import REMOVED
from vaultmem.vault import Vault

# Write to a branch that is not checked out: each write is one commit.
#
# Without a folder for uncommitted changes, nothing can wait for a later event. Work tree, index and
# editors are not affected.

_NEW_FILE_MODE = "100644"


def write_to_branch(vault: Vault, branch: str, plan: Callable[[Change], T]) -> WriteResult[T]:
    """Commit the changes of `plan` to a branch; plan again if the branch has moved.

    Without a difference, nothing is committed.

    Raises:
        ConflictError: a note differs from the plan's version.
        RefusedError: some text looks like a credential, or is too large; nothing was written.
        PendingError: other processes keep committing there.
    """

    def work(_: Transaction) -> WriteResult[T]:
        branch_view = view_at(vault, f"refs/heads/{branch}")
        change = Change(branch_view)
        value = plan(change)
        return WriteResult(value, _commit(vault, branch, branch_view, change))

    return operate(vault, "nothing was written", work)


def _commit(vault: Vault, branch: str, branch_view: Vault, change: Change) -> CommitReport:
    parent = branch_view.view.sources[0].commit
    paths = tuple(change.steps)
    files = _as_files(vault, branch, parent, change.steps)
    if not files or change.event is None:
        return CommitReport(paths=paths)
    _check(files)
    event = change.event
    at, shown_notes = int(vault.now()), list_shown(vault, event.author)
    draft = draft_event(vault, event, files, at, shown_notes=shown_notes)
    commit = vault.history.write_branch_commits(f"refs/heads/{branch}", [draft], parent)[0]
    with vault.leaving_to_next():
        store_named(vault, event.author, at)
    return CommitReport(((commit, read_subject(draft.message)),), commit, paths)


def _as_files(
    vault: Vault, branch: str, parent: str, steps: Mapping[str, NoteStep]
) -> dict[str, File]:
    places = list_places(vault.history, parent)
    files: dict[str, File] = {}
    for path, step in steps.items():
        entry = places.get(path)
        if step.before and (entry is None or entry.blob != step.before):
            raise ConflictError(f"{path}: changed meanwhile; nothing was written")
        if step.data is None:
            files[path] = None
        elif entry is None or entry.blob != blob_id(step.data):
            _check_place(places, path)
            if entry is not None and not step.before:
                raise ConflictError(f"{path}: exists already on {branch}")
            files[path] = (entry.mode if entry else _NEW_FILE_MODE, step.data)
    return files


def _check_place(places: Mapping[str, TreeEntry], path: str) -> None:
    """Check that a file can be at this path, not a folder, a link or a file above it."""
    for folder in map(str, PurePosixPath(path).parents):
        if folder in places and places[folder].mode != FOLDER:
            raise RefusedError(f"{path}: {folder} is not a folder on that branch; choose another")
    if path in places and places[path].mode not in REGULAR:
        raise RefusedError(f"{path}: not a regular file on that branch; choose another name")


def _check(files: Mapping[str, File]) -> None:
    for path, file in files.items():
        if file is not None and len(file[1]) > MAX_FILE_BYTES:
            raise RefusedError(f"{path}: a note holds {MAX_FILE_BYTES:,} bytes at most")


# Write to the files of the folder in one operation.


def write_to_folder(vault: Vault, plan: Callable[[Change], T]) -> WriteResult[T]:
    """Carry out `plan`; keep other programs' saves meanwhile, and plan again.

    Raises:
        ConflictError, RefusedError, PendingError: as for `write`.
    """
    pending_errors: list[PendingError] = []

    def work(operation: Transaction) -> WriteResult[T]:
        pending_errors.clear()
        change = Change(vault)
        value = plan(change)
        operation.retries_conflicts = True
        return WriteResult(value, _carry_out(operation, vault, change, pending_errors))

    result = operate(vault, "nothing was written", work)
    for error in pending_errors:  # The notes are written; their commit waits.
        raise error
    return result


def _carry_out(
    operation: Transaction, vault: Vault, change: Change, pending_errors: list[PendingError]
) -> CommitReport:
    """Commit earlier changes, write the files, and commit the event."""
    earlier_commits = commit_earlier(vault, change.find_touched(), change.whose)
    report = CommitReport(paths=tuple(change.steps))
    event = change.event
    if event is None or change.is_left or vault.head() is None:
        if change.steps:
            operation.move(*_as_moves(vault, change))
            operation.then(lambda: sync_paths(vault, map(PurePosixPath, change.steps)))
    elif change.steps or event.only:
        operation.move(*_as_moves(vault, change), is_committed=True)
        try:
            report = commit_event(vault, event._replace(only=event.only or tuple(change.steps)))
        except PendingError as error:
            operation.hold_files()
            pending_errors.append(error)
    return report._replace(commits=(*earlier_commits, *report.commits))


def _as_moves(vault: Vault, change: Change) -> tuple[dict[str, Move], dict[str, bytes]]:
    """Record the author of each change, and return file moves and contents."""
    moves: dict[str, Move] = {}
    contents: dict[str, bytes] = {}
    with vault.state.transaction():
        for path, step in change.steps.items():
            blob = REMOVED if step.data is None else blob_id(step.data)
            vault.journal.record(path, blob, vault.author, vault.now(), step.data)
            moves[path] = _as_move(vault, path, step, blob)
            if step.data is not None:
                contents[blob] = step.data
    return moves, contents


def _as_move(vault: Vault, path: str, step: NoteStep, blob: str) -> Move:
    mode = f"100{step.mode:03o}" if step.mode is not None else "100644"
    if step.before:
        with contextlib.suppress(OSError):
            mode = f"100{(vault.root / path).lstat().st_mode & 0o777:03o}"
    old_entry = TreeEntry(mode, step.before) if step.before else None
    return old_entry, None if step.data is None else TreeEntry(mode, blob)


#: Returns a note's new text.
Edit = Callable[[Note], str]

T = TypeVar("T")


def write(vault: Vault, plan: Callable[[Change], T]) -> WriteResult[T]:
    """Carry out `plan` on the vault's notes, or nothing: in the folder, or on its ref's branch.

    Raises:
        ConflictError: other programs kept changing the same notes; nothing was written.
        RefusedError: a write or commit is not allowed; nothing was written.
        PendingError: the notes in the folder are written and their commit waits; or git could not
            commit to the branch, and nothing was written.
        SystemFailureError: the disk or the system failed; nothing was written.
    """
    candidates: list[str] = []
    suspicious: list[str] = []

    def checked(change: Change) -> T:
        value = plan(change)
        drop_bullets(vault, change)
        event = change.event
        reject_named_secrets(vault.author, *((event.subject, event.body) if event else ()))
        files = {path: step.data for path, step in change.steps.items()}
        reject_secrets(vault, files, change.read_before)
        candidates[:] = change.candidates
        suspicious[:] = change.suspicious.values()
        return value

    with wrapping_os_errors("nothing was written"):
        branch = find_branch(vault)
    if branch:
        result = write_to_branch(vault, branch, checked)
        vault.notices.branches.extend([branch] if result.report.commit else ())
    else:
        result = write_to_folder(vault, checked)
    vault.notices.written.extend(result.report.paths)
    vault.notices.suspicious.extend(suspicious)
    return result._replace(report=result.report._replace(candidates=tuple(candidates)))


def write_event(vault: Vault, edits: Mapping[PurePosixPath, Edit], event: Event) -> CommitReport:
    """Make all edits in one commit, after commits of earlier changes.

    If one edit fails, none is made. Without git there is no commit.

    Raises:
        ConflictError, RefusedError, PendingError: as for `write`.
    """

    def plan(change: Change) -> None:
        for path, edit in edits.items():
            replace_text(change, change.read(path), edit)
        change.commit(event)

    return write(vault, plan).report


def replace_text(change: Change, note: Note, edit: Edit, *, repairs: bool = False) -> bytes:
    """Replace a note's text; only a person can unpin a note.

    An invalid note, or one that is not UTF-8, can only be quarantined, with all its bytes kept.
    With `repairs`, a text that fixes the problem is also allowed.

    Raises:
        RefusedError: the text unpins it, is not UTF-8, or must be fixed first; or as for the edit.
    """
    old_data, data = _edit_bytes(change, note, edit)
    new_note = parse_note(note.path, data)
    if data != old_data and new_note.state != NoteState.QUARANTINED:
        check_encoding(note)
        if note.problem and (new_note.problem or not repairs):
            raise _format_line(note)
    is_unpinned = note.pinned and not new_note.pinned
    if is_unpinned:
        change.seen.require_person(f"{note.path}: pinned, and only a person unpins it")
    return change.replace(note.path, data, note.blob)


def reject_freeing(change: Change, path: PurePosixPath, data: bytes | None) -> None:
    """Check that only a person restores a version that is not pinned or not quarantined.

    Raises:
        RefusedError: an agent would do so.
    """
    current_note = change.read(path)
    old_note = None if data is None else parse_readable_note(path, data)  # Otherwise it is neither.
    if current_note.pinned and not (old_note and old_note.pinned):
        change.seen.require_person(f"{path}: pinned, and only a person unpins it")
    if current_note.state == NoteState.QUARANTINED and not (
        old_note and old_note.state == NoteState.QUARANTINED
    ):
        change.seen.require_person(f"{path}: quarantined, so only a person lets it out")


def _edit_bytes(change: Change, note: Note, edit: Edit) -> tuple[bytes, bytes]:
    """Return a note's old and new bytes; in another encoding, unchanged bytes stay."""
    try:
        if note.encoding == CANVAS:
            check_encoding(note)
        if not note.encoding:
            return note.text.encode("utf-8"), edit(note).encode("utf-8")
        data = change.read_bytes(note)
        text, as_bytes = open_to_edit(data)
        return data, as_bytes(edit(note._replace(text=text)))
    except RefusedError as error:
        if note.encoding and not note.problem:
            check_encoding(note)
        if note.problem:
            raise _format_line(note) from None
        is_named = str(error).startswith(str(note.path))
        raise error if is_named else RefusedError(f"{note.path}: {error}") from None


def _format_line(note: Note) -> RefusedError:
    return RefusedError(f"{note.path}: {note.problem}; fix it in an editor first")
