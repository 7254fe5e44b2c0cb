"""Write to a branch that is not checked out: each write is a commit of its own there.

There is no folder that could hold what is not committed, so nothing can wait for a later event.
Work tree, index and editors see nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TypeVar

from vaultmem.core.blob import blob_id
from vaultmem.core.delta.commit_message import read_subject
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.reading.look import look_at
from vaultmem.services.writing.change import Change, Step, Written
from vaultmem.services.writing.commit import CommitReport, draft_event
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.commit_draft import REGULAR, File, TreeEntry
from vaultmem.storage.git.trees import FOLDER, list_places
from vaultmem.vault import Vault

_NEW = "100644"

T = TypeVar("T")


def write_to_branch(vault: Vault, branch: str, plan: Callable[[Change], T]) -> Written[T]:
    """Commit what `plan` says of the notes of a branch; it is asked again where that has moved.

    Without a difference nothing is committed.

    Raises:
        ConflictError: a note is not what the plan takes it for.
        RefusedError: something looks like a credential, or is too large; nothing was written.
        PendingError: others keep committing there.
    """

    def work(_: Operation) -> Written[T]:
        seen = look_at(vault, f"refs/heads/{branch}")
        change = Change(seen)
        value = plan(change)
        return Written(value, _commit(vault, branch, seen, change))

    return operate(vault, "nothing was written", work)


def _commit(vault: Vault, branch: str, seen: Vault, change: Change) -> CommitReport:
    parent = seen.view.sources[0].commit
    paths = tuple(change.steps)
    files = _as_files(vault, branch, parent, change.steps)
    if not files or change.event is None:
        return CommitReport(paths=paths)
    _check(files)
    event = change.event
    draft = draft_event(vault, event, files, int(vault.now()))
    commit = vault.history.write_branch_commits(f"refs/heads/{branch}", [draft], parent)[0]
    return CommitReport(((commit, read_subject(draft.message)),), commit, paths)


def _as_files(vault: Vault, branch: str, parent: str, steps: Mapping[str, Step]) -> dict[str, File]:
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
            files[path] = (entry.mode if entry else _NEW, step.data)
    return files


def _check_place(places: Mapping[str, TreeEntry], path: str) -> None:
    """Put a note where a file may be, and not in place of a folder, a link or what is above."""
    for folder in map(str, PurePosixPath(path).parents):
        if folder in places and places[folder].mode != FOLDER:
            raise RefusedError(f"{path}: {folder} is not a folder on that branch; choose another")
    if path in places and places[path].mode not in REGULAR:
        raise RefusedError(f"{path}: not a regular file on that branch; choose another name")


def _check(files: Mapping[str, File]) -> None:
    for path, file in files.items():
        if file is not None and len(file[1]) > MAX_FILE_BYTES:
            raise RefusedError(f"{path}: a note holds {MAX_FILE_BYTES:,} bytes at most")
