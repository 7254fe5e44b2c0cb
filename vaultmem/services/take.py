"""Take single notes over from another branch, each under the name of who wrote it there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from vaultmem.core.blob import blob_id
from vaultmem.core.merge_note import merge_texts
from vaultmem.core.note import Note
from vaultmem.errors import MergeConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.commit import CommitReport, commit_earlier, commit_event
from vaultmem.services.divide import Event
from vaultmem.services.look import find_branch, look_at
from vaultmem.services.merge import Conflict
from vaultmem.services.pending import Whose
from vaultmem.services.promote import Promotion, check_note, promote_notes
from vaultmem.services.read import read_note, resolve_address
from vaultmem.services.sync import sync_paths
from vaultmem.storage.files import create_file, replace_file
from vaultmem.storage.journal import Author
from vaultmem.storage.log import Commit, walk_log
from vaultmem.storage.refs import Target
from vaultmem.vault import Vault


@dataclass(frozen=True, slots=True)
class _Taken:
    """A note on the other branch, the commit that last changed it there, and what it becomes."""

    note: Note
    last: Commit
    data: bytes


def promote_from(vault: Vault, source: str, addresses: Sequence[str]) -> Promotion:
    """Promote notes of another branch here: these memories alone, and where they came from.

    First they are taken over as they are there, in a commit under their author's name; where
    the note is here too, both versions are merged. Then they are promoted.

    Raises:
        NoteNotFoundError: there is no such ref, or no such note on it.
        MergeConflictError: both branches changed the note differently; nothing was changed.
        RefusedError: a note cannot be promoted; nothing was changed.
    """
    if find_branch(vault):
        raise RefusedError("promote --from works on the branch that is checked out; drop --ref")
    with vault.lock():
        target = vault.history.refs.resolve(source)
        there = look_at(vault, target.commit)
        taken = [_read(vault, there, target, address) for address in addresses]
        reports = [_take_over(vault, target, each) for each in taken]
        origin = f", from {target.name} at {target.commit}"
        done = promote_notes(vault, [str(each.note.path) for each in taken], origin)
    commits = [made for report in reports for made in report.commits]
    return replace(done, report=replace(done.report, commits=(*commits, *done.report.commits)))


def _read(vault: Vault, there: Vault, target: Target, address: str) -> _Taken:
    path, heading = resolve_address(there, address)
    if heading:
        raise RefusedError(f"{address}: a section; promote the whole note")
    note = read_note(there, path)
    check_note(vault, note)
    walk = walk_log(vault.history, target.commit, str(path))
    last = next(walk)
    walk.close()
    return _Taken(note, last, _merge(vault, target, note).encode("utf-8"))


def _merge(vault: Vault, target: Target, note: Note) -> str:
    """Return the text that the note becomes here."""
    try:
        here = read_note(vault, note.path).text
    except NoteNotFoundError:
        return note.text
    base = _read_base(vault, target, note.path)
    merged = merge_texts(str(note.path), base, here, note.text)
    if merged.conflicts:
        raise MergeConflictError(
            f"{note.path}: changed differently here and on {target.name}; nothing was changed",
            [Conflict(str(note.path), c.what, c.ours, c.theirs, "", "") for c in merged.conflicts],
        )
    return merged.text


def _read_base(vault: Vault, target: Target, path: PurePosixPath) -> str:
    """Return the note as it was when the branches parted, empty if there was none."""
    base = vault.history.refs.merge_base(vault.history.head().commit, target.commit)
    entry = vault.history.tree(base).get(str(path)) if base else None
    return vault.history.objects.read(entry.blob)[1].decode("utf-8") if entry else ""


def _take_over(vault: Vault, target: Target, taken: _Taken) -> CommitReport:
    path, data = taken.note.path, taken.data
    try:
        present = read_note(vault, path)
    except NoteNotFoundError:
        present = None
    if present is not None and present.blob == blob_id(data):
        return CommitReport()
    author = Author(taken.last.agent, taken.last.session)
    if present is not None:
        commit_earlier(vault, {str(path): present.blob}, Whose.ANYBODY)
    vault.journal.record(str(path), blob_id(data), author, time.time())
    if present is None:
        create_file(vault.root, path, data)
    else:
        replace_file(vault.root, path, present.blob, data)
    sync_paths(vault, [path])
    body = (f"{path} from {target.name} at {target.commit}",)
    subject = f"take: {path} from {target.name}"
    return commit_event(vault, Event("take", subject, author, body, "refine", only=(str(path),)))
