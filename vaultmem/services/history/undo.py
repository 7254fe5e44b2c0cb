"""Take back what one commit did to its notes, as a new commit; history stays as it is."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.delta.file_changes import FileChange
from vaultmem.core.paths import is_note_path
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.history.commits import resolve_commit
from vaultmem.services.history.restore import blob_now, check_leaks
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import refuse_freeing, write
from vaultmem.storage.git.log import Commit, read_commit
from vaultmem.storage.git.trees import diff_commits
from vaultmem.vault import Vault


class Undone(NamedTuple):
    """The commit that was taken back, its notes, and the commits of that."""

    commit: Commit
    paths: tuple[str, ...]
    report: CommitReport


def undo_commit(vault: Vault, name: str) -> Undone:
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
            _take_back(vault, change, each, short)
        body = (f"Takes back {commit.commit}.",)
        change.commit(Event("undo", f"undo: {commit.subject}", vault.author, body, "refine"))

    done = write(vault, plan)
    return Undone(commit, tuple(each.path for each in changes), done.report)


def _take_back(vault: Vault, change: Change, done: FileChange, short: str) -> None:
    path = PurePosixPath(done.path)
    if blob_now(change, path) != done.blob:
        raise ConflictError(
            f"{path}: changed since {short}; `vaultmem restore {path} --at {short}~` writes it as "
            "it was before"
        )
    data = vault.history.objects.read(done.old_blob)[1] if done.old_blob else None
    if done.blob:
        refuse_freeing(change, path, data)
    if data is None:
        change.remove(path, done.blob)
        return
    check_leaks(vault, done.path, data)
    if done.blob:
        change.replace(path, data, done.blob)
    else:
        change.put(path, data)
