"""Commit what was said with nothing but a file: promote, close a session, checkpoint.

A note whose `state` went from candidate to active, a session note whose `status` became ok, error
or canceled, and a file `.checkpoint` whose text is the note. Who saved a file cannot be known, so
a promotion made like this is committed, but puts no policy or skill on record as trusted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.lifecycle import State
from vaultmem.core.paths import is_note_name
from vaultmem.errors import ConflictError, NoteNotFoundError, PendingError, RefusedError, VaultError
from vaultmem.services.writing.commit import CommitReport, commit_said, save_checkpoint
from vaultmem.services.writing.leaks import HOW_TO_ALLOW
from vaultmem.services.writing.ownership import read_hand_edits
from vaultmem.storage.files import UnsafeFileError, read_file, remove_file
from vaultmem.storage.git.head_tree import HeadTree
from vaultmem.storage.watcher import CHECKPOINT_FILE
from vaultmem.vault import Vault

_MAX_REQUEST_BYTES = 4_096

#: Notes that were looked at and said nothing, by path: the blob of each. Kept between two calls.
Examined = dict[str, str]


class _Request(NamedTuple):
    """What a `.checkpoint` file asks for, and which bytes say so."""

    note: str
    blob: str


def take_transitions(vault: Vault, examined: Examined) -> Iterator[CommitReport]:
    """Commit each transition that the folder shows and no commit has yet; it must be in sync.

    Raises:
        PendingError: git cannot take a commit now; all stays as it is, to be taken later.
        RefusedError: something looks like a credential. The other transitions were taken.
    """
    with vault.lock():
        said = _find_said(vault, examined)
        request, problem = _read_request(vault)
        if (said or request) and (obstacle := vault.history.obstacle()):
            waits = "what was asked for by file" if request else "what was said in the notes"
            raise PendingError(f"{waits} is not committed yet: {obstacle}")
        if said:
            report = commit_said(vault)
            if report.commits:
                yield report
            held = {path: why for path, why in report.skipped.items() if path in said}
            problem = _refuse(held) if held else problem
        if request:
            try:
                # What the others committed was there to be kept when somebody asked for this.
                yield _fulfil(vault, request, even_if_clean=bool(said))
            except RefusedError as error:
                problem = error
        if problem is not None:
            raise problem


def _find_said(vault: Vault, examined: Examined) -> set[str]:
    """Return the notes whose edits say something; remember which are candidates."""
    commit = vault.history.head().commit
    if examined.get("") != commit:
        examined.clear()
        examined[""] = commit
    head = HeadTree(vault.state)
    head.follow(vault.history, commit)
    changed = [path for path in head.difference()[0] if is_note_name(path)]
    blobs = {path: file.blob for path, file in vault.manifest.files(changed).items()}
    fresh = {path: blob for path, blob in blobs.items() if examined.get(path) != blob}
    edited = read_hand_edits(vault, fresh)
    silent = {path: each.note for path, each in edited.items() if not each.event}
    examined |= {path: note.blob for path, note in silent.items()}
    seen = {path: note.state == State.CANDIDATE for path, note in silent.items()}
    with vault.state.transaction():
        vault.journal.put_candidates(seen, changed)
    return edited.keys() - silent.keys()


def _refuse(held: Mapping[str, str]) -> RefusedError:
    named = "; ".join(f"{path} {why}" for path, why in held.items())
    return RefusedError(f"not committed: {named}. To go on: {HOW_TO_ALLOW}")


def _read_request(vault: Vault) -> tuple[_Request | None, VaultError | None]:
    """Return what a `.checkpoint` file asks for, if there is one with text; or why not."""
    try:
        data = read_file(vault.root, PurePosixPath(CHECKPOINT_FILE), _MAX_REQUEST_BYTES)
        note = " ".join(data.decode("utf-8").split())
        return (_Request(note, blob_id(data)) if note else None), None
    except NoteNotFoundError:
        return None, None
    except UnsafeFileError as error:
        return None, RefusedError(f"{error}; remove it")
    except UnicodeDecodeError:
        return None, RefusedError(f"{CHECKPOINT_FILE}: it is not UTF-8 text; remove it")


def _fulfil(vault: Vault, request: _Request, even_if_clean: bool) -> CommitReport:
    """Make the checkpoint, and only then remove the file: again, it would commit nothing."""
    report = save_checkpoint(vault, request.note, even_if_clean)
    with contextlib.suppress(ConflictError, NoteNotFoundError):  # Changed or taken back by now.
        remove_file(vault.root, PurePosixPath(CHECKPOINT_FILE), request.blob)
    return report
