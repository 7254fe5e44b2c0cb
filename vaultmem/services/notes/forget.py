"""Remove notes: those named, or those that a tag or an age chooses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.notes.tags import has_tag
from vaultmem.core.notes.values import parse_moment
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.branching.write_branch import commit_on_branch
from vaultmem.services.committing.commit import commit_earlier
from vaultmem.services.committing.divide import Event
from vaultmem.services.committing.pending import Whose
from vaultmem.services.finding.look import find_branch
from vaultmem.services.notes.read import resolve_address
from vaultmem.services.sync import sync_paths
from vaultmem.storage.files import remove_file
from vaultmem.storage.journal import REMOVED
from vaultmem.vault import Vault


@dataclass(frozen=True, slots=True)
class Selection:
    """Notes that are to be forgotten, and pinned ones that a tag or age chose but stay."""

    notes: tuple[NoteRecord, ...]
    kept: tuple[str, ...]


def select_notes(
    vault: Vault, addresses: Sequence[str], tag: str = "", older_than: float | None = None
) -> Selection:
    """Return the notes at these addresses, and those with the tag and of the age (seconds).

    The vault must be in sync. Pinned notes are chosen only by their address.

    Raises:
        NoteNotFoundError: an address names no note.
        RefusedError: nothing says which notes, or an address names a section.
    """
    if not addresses and not tag and older_than is None:
        raise RefusedError("say which notes to forget: a path, --tag or --older-than")
    records = {record.path: record for record in vault.view.records()}
    chosen: dict[str, NoteRecord] = {}
    for address in addresses:
        found, heading = resolve_address(vault, address)
        path = str(found)
        if heading:
            raise RefusedError(f"{address}: a section; forget the whole note, or edit it instead")
        if path not in records:
            raise RefusedError(f"{path}: not a note that vaultmem reads; remove it yourself")
        chosen[path] = records[path]
    kept = []
    for record in records.values() if tag or older_than is not None else ():
        if tag and not has_tag(record.tags, tag):
            continue
        if older_than is not None and time.time() - _last_change(record) < older_than:
            continue
        if record.pinned and record.path not in chosen:
            kept.append(record.path)
        else:
            chosen[record.path] = record
    return Selection(tuple(chosen.values()), tuple(kept))


def forget_notes(vault: Vault, records: Sequence[NoteRecord]) -> list[str]:
    """Remove these notes and return their paths; what is in no commit yet is committed before.

    On a branch that is not checked out, they are forgotten there alone, in a commit.

    Raises:
        ConflictError: a note has changed since it was selected; it stays.
    """
    if branch := find_branch(vault):
        return _forget_on_branch(vault, branch, records)
    forgotten = []
    with vault.lock():
        commit_earlier(vault, {note.path: note.blob for note in records}, Whose.ANYBODY)
        for record in records:
            path = PurePosixPath(record.path)
            vault.journal.record(record.path, REMOVED, vault.author, time.time())
            remove_file(vault.root, path, record.blob)
            sync_paths(vault, [path])
            forgotten.append(record.path)
    return forgotten


def _forget_on_branch(vault: Vault, branch: str, records: Sequence[NoteRecord]) -> list[str]:
    def remove(seen: Vault) -> dict[str, bytes | None]:
        now = seen.view.blobs()
        for record in records:
            if now.get(record.path) != record.blob:
                raise ConflictError(f"{record.path}: changed meanwhile; nothing was forgotten")
        return {record.path: None for record in records}

    paths = [record.path for record in records]
    event = Event("write", "forget: {paths}", vault.author, tuple(paths), intent="refine")
    commit_on_branch(vault, branch, event, remove)
    return paths


def _last_change(record: NoteRecord) -> float:
    moment = parse_moment(record.updated or record.created)
    return record.changed if moment is None else moment
