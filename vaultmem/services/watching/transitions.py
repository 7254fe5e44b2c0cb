"""Commit what was said with nothing but a file: promote, close a session, checkpoint.

A note whose `state` went from candidate to active, a session note whose `status` became ok, error
or canceled, and a file `.checkpoint` whose text is the note. Who saved a file cannot be known, so
a promotion made like this is committed, but puts no policy or skill on record as trusted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.notes.note import Note
from vaultmem.core.paths import is_note_name
from vaultmem.core.sessions.session_note import parse_session
from vaultmem.errors import ConflictError, NoteNotFoundError, PendingError, RefusedError, VaultError
from vaultmem.services.sessions.close import commit_close
from vaultmem.services.writing.checkpoint import save_checkpoint
from vaultmem.services.writing.commit import CommitReport, commit_event
from vaultmem.services.writing.hand_edits import Edited, make_promotion, read_edited
from vaultmem.storage.files import UnsafeFileError, read_file, remove_file
from vaultmem.storage.git.head_tree import HeadTree
from vaultmem.storage.journal import Candidates
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
        found = _find_said(vault, examined)
        request, problem = _read_request(vault)
        promoted = [str(each.note.path) for each in found if each.is_promoted]
        closed = [each.note for each in found if each.is_closed]
        if not (promoted or closed or request):
            if problem is not None:
                raise problem
            return
        if obstacle := vault.history.obstacle():
            waits = "what was asked for by file" if request else "what was said in the notes"
            raise PendingError(f"{waits} is not committed yet: {obstacle}")
        steps: list[Callable[[], CommitReport]] = []
        sessions = tuple(str(note.path) for note in closed)
        if promoted:
            # The notes keep it: what is said in others until then belongs to the same event.
            promotion = make_promotion(promoted, sessions)
            steps.append(lambda: commit_event(vault, promotion, keeps=False))
        steps += [partial(_close, vault, note, sessions) for note in closed]
        if request:
            # What the others committed was there to be kept when somebody asked for this.
            steps.append(lambda: _fulfil(vault, request, even_if_clean=bool(promoted or closed)))
        for step in steps:
            try:
                yield step()
            except RefusedError as error:
                problem = error
        if problem is not None:
            raise problem


def _find_said(vault: Vault, examined: Examined) -> list[Edited]:
    """Return the notes whose edits say something; remember which are candidates."""
    commit = vault.history.head().commit
    if examined.get("") != commit:
        examined.clear()
        examined[""] = commit
    head = HeadTree(vault.state)
    head.follow(vault.history, commit)
    changed = [path for path in head.difference()[0] if is_note_name(path)]
    blobs = {path: file.blob for path, file in vault.manifest.files(changed).items()}
    fresh = [path for path in changed if examined.get(path) != blobs.get(path)]
    edited = list(read_edited(vault, fresh))
    said = [each for each in edited if each.is_promoted or each.is_closed]
    candidates = Candidates(vault.state)
    with vault.state.transaction():
        for each in edited:
            if each not in said:
                path = str(each.note.path)
                examined[path] = each.note.blob
                candidates.put(path, each.is_candidate)
        candidates.keep(changed)
    return said


def _close(vault: Vault, note: Note, sessions: tuple[str, ...]) -> CommitReport:
    """Commit a session's note and all that the session wrote, under its agent's name.

    `sessions` are the notes of all sessions that are to be closed.
    """
    session = parse_session(note)
    lines = (line.strip() for line in note.body.splitlines())
    said = session.summary or next(filter(None, lines), "")
    return commit_close(vault, session, said, sessions)


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
