"""What a person or an agent said with nothing but a file: promote, close a session, checkpoint.

A note whose `state` went from candidate to active, a session note whose `status` became ok, error
or canceled, and a file `.checkpoint` whose text is the note. Who saved a file cannot be known, so
a promotion made like this is committed, but puts no policy or skill on record as trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from vaultmem.core.lifecycle import State
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.committing.checkpoint import save_checkpoint
from vaultmem.services.committing.commit import CommitReport, commit_event
from vaultmem.services.committing.divide import Event
from vaultmem.services.committing.pending import Pending, find_pending
from vaultmem.storage.files import UnsafeFileError, read_file, remove_file
from vaultmem.storage.git.head_tree import HeadTree
from vaultmem.storage.journal import Author
from vaultmem.vault import Vault

#: The file by which anybody asks for a checkpoint.
CHECKPOINT_FILE = ".checkpoint"

_MAX_REQUEST_BYTES = 4_096
_CLOSED = frozenset({"ok", "error", "canceled"})


@dataclass(frozen=True, slots=True)
class Closed:
    """A session note that was closed: its id, agent, status, and the first line of its summary."""

    path: str
    session: str
    agent: str
    status: str
    summary: str


def take_transitions(vault: Vault) -> Iterator[CommitReport]:
    """Commit each transition that the folder shows and no commit has yet.

    Raises:
        PendingError: git cannot take a commit now; the event waits.
        RefusedError: something looks like a credential.
    """
    with vault.lock():
        found = _find_changed_notes(vault)
        promoted = [path for path, before, now in found if _is_promoted(before, now)]
        if promoted:
            yield commit_event(vault, _promote_event(vault, promoted))
        for path, before, now in found:
            closed = _read_closed(path, before, now)
            if closed is not None:
                yield commit_event(vault, _close_event(vault, closed, find_pending(vault)))
        note = _take_request(vault)
        if note:
            yield save_checkpoint(vault, note)


def _find_changed_notes(vault: Vault) -> list[tuple[str, Note, Note]]:
    """Return the notes that were edited by hand since HEAD, each as it was there and as it is."""
    head = HeadTree(vault.state)
    head.follow(vault.history, vault.history.head().commit)
    changed = [path for path in head.difference()[0] if path.lower().endswith(".md")]
    entries = head.entries(changed)
    found = []
    for path in changed:
        now = _read_note(vault, path)
        if path not in entries or now is None or now.blob == entries[path].blob:
            continue
        if vault.journal.find_author(path, now.blob) is not None:
            continue  # A command wrote it, and sees to its commit.
        try:
            data = vault.history.objects.read(entries[path].blob)[1]
            found.append((path, parse_note(PurePosixPath(path), data), now))
        except (UnreadableNoteError, NoteNotFoundError):
            continue
    return found


def _is_promoted(before: Note, now: Note) -> bool:
    return before.state == State.CANDIDATE and now.state == State.ACTIVE


def _promote_event(vault: Vault, paths: list[str]) -> Event:
    lines = tuple(f"{path}: candidate to active" for path in paths)
    return Event("promote", "promote", vault.author, lines, "refine", only=tuple(paths))


def _read_closed(path: str, before: Note, now: Note) -> Closed | None:
    if not path.startswith("sessions/"):
        return None
    was, status = _property(before, "status"), _property(now, "status")
    if status not in _CLOSED or was in _CLOSED:
        return None
    section = now.find_section("Summary")
    text = now.section_text(section) if section else now.body.strip()
    summary = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return Closed(path, PurePosixPath(path).stem, now.agent, status, summary)


def _property(note: Note, name: str) -> str:
    prop = note.matter.get(name)
    return prop.value.strip().lower() if prop and isinstance(prop.value, str) else ""


def _close_event(vault: Vault, closed: Closed, pending: Pending) -> Event:
    """Return the event that commits the session's note and all that the session wrote."""
    author = Author(closed.agent or vault.author.agent, closed.session)
    own = [path for path, who in pending.authors.items() if who and who.session == closed.session]
    body = (
        f"session {closed.session}",
        *((f"agent {closed.agent}",) if closed.agent else ()),
        f"status {closed.status}",
        *((closed.summary,) if closed.summary else ()),
    )
    only = (closed.path, *own)
    return Event("session-close", "session-close", author, body, "checkpoint", only=only)


def _take_request(vault: Vault) -> str:
    """Return what a `.checkpoint` file says and remove it; empty if there is none, or no text."""
    path = PurePosixPath(CHECKPOINT_FILE)
    try:
        data = read_file(vault.root, path, _MAX_REQUEST_BYTES)
        note = " ".join(data.decode("utf-8").split())
    except NoteNotFoundError:
        return ""
    except (UnsafeFileError, UnicodeDecodeError) as error:
        raise RefusedError(f"{CHECKPOINT_FILE}: not read as a note ({error}); remove it") from None
    if note:
        from vaultmem.core.blob import blob_id

        remove_file(vault.root, path, blob_id(data))
    return note


def _read_note(vault: Vault, path: str) -> Note | None:
    try:
        return parse_note(PurePosixPath(path), read_file(vault.root, PurePosixPath(path)))
    except (UnreadableNoteError, UnsafeFileError, NoteNotFoundError):
        return None
