"""One transaction for every verb that changes notes: all that it says is done, or nothing.

A verb says of the notes of one place, the folder or a branch, what is to be put, replaced or
removed, and as which event. It is asked again where somebody else changed the same notes
meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TypeVar

from vaultmem.core.lifecycle import State
from vaultmem.core.notes.encoding import CANVAS, open_to_edit
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.errors import RefusedError, naming_faults
from vaultmem.services.reading.look import find_branch
from vaultmem.services.writing.branch import write_to_branch
from vaultmem.services.writing.bullets import drop_bullets
from vaultmem.services.writing.change import Change, Written, refuse_foreign
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.folder import write_to_folder
from vaultmem.services.writing.leaks import refuse_leaks, refuse_named
from vaultmem.services.writing.parts import Event
from vaultmem.vault import Vault

#: What a note's text becomes.
Edit = Callable[[Note], str]

T = TypeVar("T")


def write(vault: Vault, plan: Callable[[Change], T]) -> Written[T]:
    """Do what `plan` says of the vault's notes, or nothing: in the folder, or on its ref's branch.

    Raises:
        ConflictError: others kept changing the same notes; nothing was written.
        RefusedError: something may not be written or committed; nothing was.
        PendingError: the notes in the folder are changed and their commit has to wait; or git took
            none on the branch, and nothing was written.
        FaultError: the disk or the system failed; nothing was written.
    """
    candidates: list[str] = []

    def checked(change: Change) -> T:
        value = plan(change)
        drop_bullets(vault, change)
        event = change.event
        refuse_named(vault.author, *((event.subject, event.body) if event else ()))
        files = {path: step.data for path, step in change.steps.items()}
        refuse_leaks(vault, files, change.read_before)
        candidates[:] = change.candidates
        return value

    with naming_faults("nothing was written"):
        branch = find_branch(vault)
    if branch:
        done = write_to_branch(vault, branch, checked)
        vault.notices.branches.extend([branch] if done.report.commit else ())
    else:
        done = write_to_folder(vault, checked)
    vault.notices.written.extend(done.report.paths)
    return done._replace(report=done.report._replace(candidates=tuple(candidates)))


def write_event(vault: Vault, edits: Mapping[PurePosixPath, Edit], event: Event) -> CommitReport:
    """Make all edits in one commit, what was there before in earlier ones.

    If one edit cannot be made, none is. Without git there is no commit.

    Raises:
        ConflictError, RefusedError, PendingError: as for `write`.
    """

    def plan(change: Change) -> None:
        for path, edit in edits.items():
            replace_text(change, change.read(path), edit)
        change.commit(event)

    return write(vault, plan).report


def replace_text(change: Change, note: Note, edit: Edit) -> bytes:
    """Give a note another text; nobody but a person unpins what is pinned.

    A note that cannot be taken at its word, or is not UTF-8, can be quarantined, and nothing else;
    every byte that was there stays then.

    Raises:
        RefusedError: it would be unpinned, is not UTF-8, or is to be mended first; or as for the
            edit.
    """
    before, data = _edit_bytes(change, note, edit)
    after = parse_note(note.path, data)
    if data != before and after.state != State.QUARANTINED:
        refuse_foreign(note)
        if note.problem:
            raise _name_line(note)
    unpinned = note.pinned and not after.pinned
    if unpinned:
        change.seen.require_person(f"{note.path}: pinned, and only a person unpins it")
    return change.replace(note.path, data, note.blob)


def refuse_freeing(change: Change, path: PurePosixPath, data: bytes | None) -> None:
    """Let nobody but a person bring a note back to where it was not pinned, or not quarantined.

    Raises:
        RefusedError: an agent would.
    """
    now = change.read(path)
    then: Note | None = None
    with contextlib.suppress(UnreadableNoteError):  # What cannot be read is neither.
        then = None if data is None else parse_note(path, data)
    if now.pinned and not (then and then.pinned):
        change.seen.require_person(f"{path}: pinned, and only a person unpins it")
    if now.state == State.QUARANTINED and not (then and then.state == State.QUARANTINED):
        change.seen.require_person(f"{path}: quarantined, so only a person lets it out")


def _edit_bytes(change: Change, note: Note, edit: Edit) -> tuple[bytes, bytes]:
    """Return a note's bytes, and what they become; of foreign ones, what is not changed stays."""
    try:
        if note.encoding == CANVAS:
            refuse_foreign(note)
        if not note.encoding:
            return note.text.encode("utf-8"), edit(note).encode("utf-8")
        data = change.read_bytes(note)
        text, as_bytes = open_to_edit(data)
        return data, as_bytes(edit(note._replace(text=text)))
    except RefusedError as error:
        if note.encoding and not note.problem:
            refuse_foreign(note)
        if note.problem:
            raise _name_line(note) from None
        is_named = str(error).startswith(str(note.path))
        raise error if is_named else RefusedError(f"{note.path}: {error}") from None


def _name_line(note: Note) -> RefusedError:
    return RefusedError(f"{note.path}: {note.problem}; mend it in an editor first")
