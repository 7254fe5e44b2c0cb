"""What a person or an agent said with nothing but an edit: this note is active, this session over.

It is told by what HEAD has of a note, so that nobody has to have looked in between. What no commit
has was a candidate if vaultmem wrote it as one, or somebody saw it be one. What a command wrote is
the command's to commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.lifecycle import State
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.paths import is_note_name
from vaultmem.core.sessions.session import FOLDER
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.writing.pending import Pending, find_writer
from vaultmem.storage.files import read_known
from vaultmem.storage.git.head_tree import HeadTree
from vaultmem.storage.journal import Candidates
from vaultmem.vault import Vault

#: Values of `status` that end a session.
_CLOSED = frozenset({"ok", "error", "canceled"})


class Edited(NamedTuple):
    """A note as it is on disk; was it a candidate before, and a session that HEAD has as ended?"""

    note: Note
    was_candidate: bool
    was_closed: bool

    @property
    def is_promoted(self) -> bool:
        """Tell whether it was made active."""
        return self.was_candidate and self.note.state == State.ACTIVE

    @property
    def is_closed(self) -> bool:
        """Tell whether its session was ended."""
        return not self.was_closed and is_closed(self.note)

    @property
    def is_candidate(self) -> bool:
        """Tell whether it is a candidate now."""
        return self.note.state == State.CANDIDATE


class Said(NamedTuple):
    """What was said by hand and is in no commit: notes made active, notes of ended sessions."""

    promoted: tuple[str, ...] = ()
    closed: tuple[Note, ...] = ()

    @property
    def paths(self) -> set[str]:
        """Return the paths of all these notes."""
        return {*self.promoted, *(str(note.path) for note in self.closed)}


def find_said(vault: Vault, pending: Pending, paths: Iterable[str]) -> Said:
    """Return what these of the pending notes say by hand; a first commit says nothing of before."""
    if not pending.parent:
        return Said()
    by_hand = {
        path: file[1]
        for path in sorted(paths)
        if (file := pending.files[path]) and pending.authors[path] is None and is_note_name(path)
    }
    # Many notes may be new at once, and of them only sessions, and what was seen, say something.
    known = {*HeadTree(vault.state).entries(by_hand), *Candidates(vault.state).all()}
    known |= vault.journal.agents_paths()
    notes = {
        path: data
        for path, data in by_hand.items()
        if path in known or path.startswith(f"{FOLDER}/")
    }
    edited = list(read_edited(vault, notes, pending.parent))
    promoted = tuple(str(each.note.path) for each in edited if each.is_promoted)
    return Said(promoted, tuple(each.note for each in edited if each.is_closed))


def find_saying(vault: Vault, edited: Iterable[Edited]) -> set[str]:
    """Return the paths of those that say something by hand."""
    return {
        str(each.note.path)
        for each in edited
        if (each.is_promoted or each.is_closed)
        and find_writer(vault, str(each.note.path), each.note.blob) is None
    }


def read_edited_now(vault: Vault, blobs: Mapping[str, str]) -> Iterator[Edited]:
    """Do as `read_edited` for notes of the folder that still have these blob ids."""
    notes = {
        path: data
        for path, blob in blobs.items()
        if is_note_name(path) and (data := read_known(vault.root, path, blob)) is not None
    }
    return read_edited(vault, notes, vault.history.head().commit)


def read_edited(vault: Vault, notes: Mapping[str, bytes], commit: str) -> Iterator[Edited]:
    """Yield each of these notes that can be read, with what it was before: in `commit`."""
    head = HeadTree(vault.state)
    head.follow(vault.history, commit)
    entries = head.entries(notes)
    candidates = Candidates(vault.state)
    for path, data in notes.items():
        entry = entries.get(path)
        if entry is not None and entry.blob == blob_id(data):
            continue
        now = _read_note(path, data)
        if now is None or now.problem:
            continue
        if entry is None:
            yield Edited(now, candidates.find(path) or _is_drafted(vault, path), was_closed=False)
        elif now.state == State.ACTIVE or is_closed(now):
            before = _read_committed(vault, path, entry.blob)
            candidate = before is not None and before.state == State.CANDIDATE
            yield Edited(now, candidate, before is not None and is_closed(before))
        else:  # Whatever it was, it says nothing now.
            yield Edited(now, was_candidate=False, was_closed=False)


def is_closed(note: Note) -> bool:
    """Tell whether it is the note of a session that has ended."""
    prop = note.matter.get("status")
    status = prop.value.strip().lower() if prop and isinstance(prop.value, str) else ""
    return note.path.parts[0] == FOLDER and status in _CLOSED


def _is_drafted(vault: Vault, path: str) -> bool:
    """Tell whether an agent wrote a note as a candidate that no commit has."""
    drafts = vault.journal.find_drafts(path)[:1]
    notes = [_read_note(path, draft.data) for draft in drafts]
    return any(note is not None and note.state == State.CANDIDATE for note in notes)


def _read_committed(vault: Vault, path: str, blob: str) -> Note | None:
    try:
        return _read_note(path, vault.history.objects.read(blob)[1])
    except NoteNotFoundError:
        return None


def _read_note(path: str, data: bytes) -> Note | None:
    try:
        return parse_note(PurePosixPath(path), data)
    except UnreadableNoteError:
        return None
