"""What a person or an agent said with nothing but an edit: this note is active, this session over.

It is told by what a note was before: in HEAD, or, where no commit has it, when it was last seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.lifecycle import State
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.writing.divide import Event
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.git.head_tree import HeadTree
from vaultmem.storage.journal import Author, Unfinished
from vaultmem.vault import Vault

#: Values of `status` that end a session.
_CLOSED = frozenset({"ok", "error", "canceled"})


class Edited(NamedTuple):
    """A note as it is on disk, and whether it was a candidate or an open session before."""

    note: Note
    was_candidate: bool
    was_open: bool
    by_command: bool

    @property
    def is_promoted(self) -> bool:
        """Tell whether somebody made it active by hand."""
        return self.was_candidate and self.note.state == State.ACTIVE and not self.by_command

    @property
    def is_closed(self) -> bool:
        """Tell whether somebody ended its session by hand."""
        return self.was_open and read_status(self.note) in _CLOSED and not self.by_command

    @property
    def is_candidate(self) -> bool:
        """Tell whether it is a candidate now."""
        return self.note.state == State.CANDIDATE

    @property
    def is_open(self) -> bool:
        """Tell whether it is an open session's note now."""
        return _is_open(self.note)


def read_edited(vault: Vault, paths: Iterable[str]) -> Iterator[Edited]:
    """Yield each of these notes that can be read, with what it was before."""
    names = list(paths)
    head = HeadTree(vault.state)
    head.follow(vault.history, vault.history.head().commit)
    entries = head.entries(names)
    unfinished = Unfinished(vault.state)
    for path in names:
        now = _read_note(vault, path)
        if now is None:
            continue
        by_command = vault.journal.find_author(path, now.blob) is not None
        if path not in entries:
            yield Edited(now, *unfinished.find(path), by_command)
        elif entries[path].blob != now.blob:
            before = _read_committed(vault, path, entries[path].blob)
            candidate = before is not None and before.state == State.CANDIDATE
            yield Edited(now, candidate, before is not None and _is_open(before), by_command)


def make_promotion(paths: Iterable[str], without: Iterable[str] = ()) -> Event:
    """Return the event of notes that a person made active by hand."""
    only = tuple(paths)
    lines = tuple(f"{path}: candidate to active" for path in only)
    event = Event("promote", "promote", Author(""), lines, "refine", only=only)
    return event._replace(without=tuple(without))


def read_status(note: Note) -> str:
    """Return what a note has as its `status`, empty if it is no text."""
    prop = note.matter.get("status")
    return prop.value.strip().lower() if prop and isinstance(prop.value, str) else ""


def _is_open(note: Note) -> bool:
    return note.path.parts[0] == "sessions" and read_status(note) not in _CLOSED


def _read_note(vault: Vault, path: str) -> Note | None:
    try:
        return parse_note(PurePosixPath(path), read_file(vault.root, PurePosixPath(path)))
    except (UnreadableNoteError, UnsafeFileError, NoteNotFoundError):
        return None


def _read_committed(vault: Vault, path: str, blob: str) -> Note | None:
    try:
        return parse_note(PurePosixPath(path), vault.history.objects.read(blob)[1])
    except (UnreadableNoteError, NoteNotFoundError):
        return None
