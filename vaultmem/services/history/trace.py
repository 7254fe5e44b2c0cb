"""Trace a note through the commits that changed it, under each name that it had."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.delta.file_changes import FileChange
from vaultmem.core.paths import parse_note_path
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.history.commits import find_commit, locate_note
from vaultmem.services.history.diff import Operation, compare_files
from vaultmem.services.reading.read_notes import resolve_address
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.git.log import Commit, find_ends, follow_path
from vaultmem.storage.git.trees import find_entry
from vaultmem.storage.journal import REMOVED, Author
from vaultmem.vault import Vault


class Version(NamedTuple):
    """What a commit did to a note; `commit` is None for what is not committed.

    `agent` and `session` are of whoever did it, empty for a person; `claimed_by` is the other
    machine that says so, "" where this one knows it. `is_end` says that a shallow
    clone's history ends there, so that the note may be older.
    """

    commit: Commit | None
    operation: Operation
    who: str
    agent: str
    session: str
    claimed_by: str = ""
    is_end: bool = False


class Trace(NamedTuple):
    """A note's path and its versions, newest first."""

    path: str
    versions: tuple[Version, ...]


def trace_note(
    vault: Vault, address: str, limit: int = 0, commit: str = "", skipped: int = 0
) -> Trace:
    """Return what happened to a note, removed or not, from `commit` back.

    Else from what the vault's ref names, or from the work tree. A limit of 0 is none; of the
    commits the newest `skipped` are passed over, and what is not committed with them. The vault
    must be in sync.

    Raises:
        NoteNotFoundError: no note is or was called that.
        RefusedError: the path is unsafe, or names a section.
    """
    commit = commit or find_commit(vault)
    start = commit or vault.history.head().commit
    path, found = _find_versions(vault, address, start, is_work_tree=not commit)
    pending = None if commit else _find_uncommitted(vault, path, start)
    if pending is None and not found:
        raise NoteNotFoundError(f"{path}: no commit changed it")
    ends = find_ends(vault.history)
    found = found[skipped : skipped + limit if limit else None]
    operations = compare_files(vault, (change for _, change in found))
    versions = [
        Version(
            each,
            operation,
            *each.find_writer(vault.history.prefix + change.path),
            is_end=each.commit in ends,
        )
        for (each, change), operation in zip(found, operations, strict=True)
    ]
    return Trace(path, tuple([pending, *versions] if pending and not skipped else versions))


def _find_versions(
    vault: Vault, address: str, start: str, is_work_tree: bool
) -> tuple[str, Sequence[tuple[Commit, FileChange]]]:
    """Return the path that an address means now, or meant once, and the commits that changed it."""
    try:
        if is_work_tree:
            found, heading = resolve_address(vault, address)
        else:
            name, heading, _ = locate_note(vault, start, address)
            found = PurePosixPath(name)
    except NoteNotFoundError as error:
        for name in (address, f"{address}.md"):
            path = str(parse_note_path(name))
            versions = follow_path(vault.history, start, path) if start else []
            if versions:
                return path, versions
        raise error from None
    if heading:
        raise RefusedError(f"{address}: a section; `vaultmem blame` tells where its lines are from")
    return str(found), follow_path(vault.history, start, str(found)) if start else []


def _find_uncommitted(vault: Vault, path: str, head: str) -> Version | None:
    """Return what was done to a note since HEAD, None if nothing was."""
    entry = find_entry(vault.history, head, path) if head else None
    try:
        data: bytes | None = read_file(vault.root, PurePosixPath(path))
    except NoteNotFoundError:
        data = None
    except UnsafeFileError:
        return None
    blob = "" if data is None else blob_id(data)
    if blob == (entry.blob if entry else ""):
        return None
    mode = entry.mode if entry else "100644"
    change = FileChange(path, "", blob, "", mode if blob else "")
    if entry is not None:
        change = change._replace(old_blob=entry.blob, old_mode=entry.mode)
    contents = {} if data is None else {blob: data}
    operation = next(compare_files(vault, [change], contents))
    writer = vault.journal.find_author(path, blob or REMOVED) or Author("")
    name = writer.agent or vault.history.person().identity.name
    return Version(None, operation, name, writer.agent, writer.session)
