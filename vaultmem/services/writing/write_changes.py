"""Change some notes and commit just that, as one event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from vaultmem.core.notes.note import Note
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.writing.commit import CommitReport, commit_earlier, commit_event
from vaultmem.services.writing.divide import Event
from vaultmem.services.writing.edit_notes import edit_note
from vaultmem.services.writing.pending import Whose
from vaultmem.services.writing.write_branch import commit_on_branch
from vaultmem.vault import Vault

Changes = Mapping[PurePosixPath, Callable[[Note], str]]


def write_changes(vault: Vault, changes: Changes, event: Event) -> CommitReport:
    """Make all changes and commit them in one commit, what was there before in earlier ones.

    If one change cannot be made, none is. Without git there is no commit.

    Raises:
        RefusedError: a change cannot be made on its note, or the message or a note looks like a
            credential.
        PendingError: the notes are changed; their commit has to wait.
    """
    paths = tuple(str(path) for path in changes)
    if branch := find_branch(vault):
        made = commit_on_branch(vault, branch, event, lambda seen: _texts(seen, changes))
        return CommitReport(((made, event.subject),) if made else (), made, paths)
    with vault.lock():
        notes = {path: read_note(vault, path) for path in changes}
        for path, note in notes.items():
            changes[path](note)
        has_git = vault.head() is not None
        blobs = {str(path): note.blob for path, note in notes.items()}
        earlier = commit_earlier(vault, blobs, Whose.ANYBODY) if has_git else []
        for path, change in changes.items():
            edit_note(vault, path, change)
        if not has_git:
            return CommitReport(paths=paths)
        report = commit_event(vault, event._replace(only=paths))
        return report._replace(commits=(*earlier, *report.commits))


def _texts(seen: Vault, changes: Changes) -> dict[str, bytes | None]:
    return {
        str(path): change(read_note(seen, path)).encode("utf-8") for path, change in changes.items()
    }
