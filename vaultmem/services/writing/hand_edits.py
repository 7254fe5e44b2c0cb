"""What a person or an agent said with nothing but an edit: this note is active, this session over.

It is told by what HEAD has of a note, so that nobody has to have looked in between. What no commit
has was a candidate if vaultmem wrote it as one, or somebody saw it be one.
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
from vaultmem.storage.journal import Author, Candidates
from vaultmem.vault import Vault

#: Values of `status` that end a session.
_CLOSED = frozenset({"ok", "error", "canceled"})


class Edited(NamedTuple):
    """A note as it is on disk; was it a candidate before, and a session that HEAD has as ended?"""

    note: Note
    was_candidate: bool
    was_closed: bool
    by_command: bool

    @property
    def is_promoted(self) -> bool:
        """Tell whether somebody made it active by hand."""
        return self.was_candidate and self.note.state == State.ACTIVE and not self.by_command

    @property
    def is_closed(self) -> bool:
        """Tell whether somebody ended its session by hand."""
        return not self.was_closed and is_closed(self.note) and not self.by_command

    @property
    def is_candidate(self) -> bool:
        """Tell whether it is a candidate now."""
        return self.note.state == State.CANDIDATE


def read_edited(vault: Vault, paths: Iterable[str]) -> Iterator[Edited]:
    """Yield each of these notes that can be read, with what it was before."""
    names = list(paths)
    head = HeadTree(vault.state)
    head.follow(vault.history, vault.history.head().commit)
    entries = head.entries(names)
    candidates = Candidates(vault.state)
    for path in names:
        now = _read_note(vault, path)
        if now is None:
            continue
        by_command = vault.journal.find_author(path, now.blob) is not None
        entry = entries.get(path)
        if entry is None:
            candidate = candidates.find(path) or _is_drafted(vault, path)
            yield Edited(now, candidate, False, by_command)
        elif entry.blob != now.blob:
            before = _read_committed(vault, path, entry.blob)
            candidate = before is not None and before.state == State.CANDIDATE
            yield Edited(now, candidate, before is not None and is_closed(before), by_command)


def make_promotion(paths: Iterable[str], without: Iterable[str] = ()) -> Event:
    """Return the event of notes that a person made active by hand."""
    only = tuple(paths)
    lines = tuple(f"{path}: candidate to active" for path in only)
    event = Event("promote", "promote", Author(""), lines, "refine", only=only)
    return event._replace(without=tuple(without))


def is_closed(note: Note) -> bool:
    """Tell whether it is the note of a session that has ended."""
    prop = note.matter.get("status")
    status = prop.value.strip().lower() if prop and isinstance(prop.value, str) else ""
    return note.path.parts[0] == "sessions" and status in _CLOSED


def _read_note(vault: Vault, path: str) -> Note | None:
    try:
        note = parse_note(PurePosixPath(path), read_file(vault.root, PurePosixPath(path)))
    except (UnreadableNoteError, UnsafeFileError, NoteNotFoundError):
        return None
    return None if note.problem else note


def _is_drafted(vault: Vault, path: str) -> bool:
    """Tell whether an agent wrote a note as a candidate that no commit has."""
    drafts = vault.journal.find_drafts(path)[:1]
    return any(parse_note(PurePosixPath(path), d.data).state == State.CANDIDATE for d in drafts)


def _read_committed(vault: Vault, path: str, blob: str) -> Note | None:
    try:
        return parse_note(PurePosixPath(path), vault.history.objects.read(blob)[1])
    except (UnreadableNoteError, NoteNotFoundError):
        return None
