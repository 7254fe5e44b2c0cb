"""Keep in a session's note what the session came to, as its client's transcript tells it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.core.notes.note import parse_note
from vaultmem.core.sessions.record_text import render_told
from vaultmem.core.sessions.session_note import name_session, parse_session
from vaultmem.core.sessions.told import write_told
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.sessions.edit_session import edit_session
from vaultmem.services.sessions.identify import find_begun_in, find_workspace
from vaultmem.services.sessions.import_turns import import_turns, read_record
from vaultmem.services.sessions.read import EXPECTED, find_unsettled
from vaultmem.services.sessions.touched_files import add_touched, name_file, name_touched
from vaultmem.services.writing.leaks import look_for_leaks
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.core.sessions.session import TouchedFile
    from vaultmem.core.transcripts.record import Record

#: Files whose content is noted; of all others the section tells.
_TOUCHED = 60

#: Bytes of a transcript that a start has the time to catch up with.
_MOST = 8 * 1024 * 1024

#: Words below which a first request is no goal: "hi", "go on".
_FEW = 3

_LEFT_OUT = "- (left out: it looks like a credential)"


def keep_record(vault: Vault, session: str, workspace: Path | None = None) -> None:
    """Write what was gathered of a session into its note; what others wrote there stays.

    Raises:
        NoteNotFoundError, RefusedError: as for `edit_session`.
    """
    record = read_record(vault, session)
    base = find_workspace(find_begun_in(vault, session, workspace))
    touched = [*_list_touched(record, base)]

    def change(note: Note) -> str:
        text = write_record(vault, note, record, lambda path: name_file(_place(path, base), base))
        if text is None:
            return note.text
        goal = record.goal
        if len(goal.split()) >= _FEW and not look_for_leaks(vault, str(note.path), goal):
            text = name_session(text, session, goal)
        return add_touched(parse_note(note.path, text.encode("utf-8")), touched)

    edit_session(vault, session, change, closed_too=True)


def catch_up(vault: Vault) -> None:
    """Keep what sessions whose process is gone did after the last that was kept of them.

    What cannot be read any more is lost, as is what is far more than a turn.
    """
    for gone in find_unsettled(vault):
        file = Path(vault.state.get(f"{EXPECTED} {gone.id}") or "")
        with contextlib.suppress(VaultError, OSError):
            if gone.is_gone and file.is_file() and file.stat().st_size < _MOST:
                import_turns(vault, gone.id, file)
                keep_record(vault, gone.id, Path(gone.workspace))


def _list_touched(record: Record, workspace: Path) -> list[TouchedFile]:
    """Return the workspace's files that a session touched, and what it left in each."""
    found = []
    for path in [*record.files][-_TOUCHED:]:
        place = _place(path, workspace)
        if place.is_relative_to(workspace):
            try:
                found.append(name_touched(place, workspace))
            except RefusedError:  # A name that no note can have.
                continue
    return found


def _place(path: str, workspace: Path) -> Path:
    """Return where a file of a record is, in the real folder, as the workspace is named."""
    place = workspace / path
    return Path(os.path.realpath(place.parent), place.name)


def write_record(
    vault: Vault, note: Note, record: Record, name: Callable[[str], str]
) -> str | None:
    """Return a session's note with what it came to; None if there is nothing to tell.

    `name` says how a file is named.
    """
    block = render_told(record, name, frozenset(parse_session(note).answered))
    return write_told(note.text, _leave_out_leaks(vault, str(note.path), block)) if block else None


def _leave_out_leaks(vault: Vault, path: str, block: str) -> str:
    """Return a section without the lines that look like a credential by the vault's own rules."""
    lines = block.split("\n")
    for found in look_for_leaks(vault, path, block):
        if not lines[found.line - 1].startswith("#"):
            lines[found.line - 1] = _LEFT_OUT
    return "\n".join(lines)
