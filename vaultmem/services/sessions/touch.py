"""Note which files a session touched: named from its workspace, with what it left in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.core.blob import blob_id
from vaultmem.core.notes.properties import set_property
from vaultmem.core.sessions.session import Session, TouchedFile, format_touched
from vaultmem.core.sessions.session_note import parse_session
from vaultmem.errors import RefusedError
from vaultmem.services.sessions.identify import find_workspace
from vaultmem.services.sessions.read import find_path
from vaultmem.services.sessions.write import edit_session
from vaultmem.storage.active_sessions import ActiveSessions
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note

#: Files that a note lists; with many more it would not be read as properties.
MAX_TOUCHED = 400

#: Larger files are named without their blob id.
_MAX_BYTES = 16 * 1024 * 1024

_DIGITS = 7


def touch_files(
    vault: Vault, session: str, files: Sequence[str | Path], workspace: Path | None = None
) -> Session:
    """Note which files a session touched, and what it left in each.

    Files are relative to the current folder; one that is gone counts as removed. They are named
    from the workspace: what the session was begun in, else the current folder's.

    Raises:
        RefusedError: there are too many, or as for `edit_session`.
    """
    path = find_path(vault, session)
    record = ActiveSessions(vault.state_folder).find(path.stem)
    base = workspace or (Path(record.workspace) if record else find_workspace())
    found = [name_touched(Path(file), base) for file in files]

    def change(note: Note) -> str:
        listed = {each.path: each for each in parse_session(note).touched}
        fresh = [each for each in found if listed.get(each.path) != each]
        for each in fresh:  # What was touched last stands last.
            listed.pop(each.path, None)
            listed[each.path] = each
        if len(listed) > MAX_TOUCHED:
            raise RefusedError(
                f"{path.stem}: it lists {MAX_TOUCHED} files already; name a folder instead"
            )
        if not fresh:
            return note.text
        return set_property(note.text, "touched", tuple(map(format_touched, listed.values())))

    return edit_session(vault, path.stem, change)


def name_touched(file: Path, workspace: Path) -> TouchedFile:
    """Return a file as a session's note lists it; a folder has no blob id.

    Raises:
        RefusedError: its name has line breaks or is not UTF-8.
    """
    place = Path(os.path.abspath(file.expanduser()))
    for base, lead in ((workspace, ""), (Path.home(), "~/")):
        if place.is_relative_to(base) and place != base:
            name = lead + place.relative_to(base).as_posix()
            break
    else:
        name = place.as_posix()
    if not name.isprintable():
        raise RefusedError(f"{name!r}: a name that cannot be written in a note; rename the file")
    if place.is_dir():
        return TouchedFile(f"{name}/")
    return TouchedFile(name, short_blob(place))


def place_of(touched: str, workspace: Path) -> Path:
    """Return where a file of a session's note is, or would be, on this machine."""
    return workspace / Path(touched).expanduser()


def short_blob(place: Path) -> str:
    """Return the start of git's blob id of a file, "gone" if there is none, "" if not known."""
    try:
        status = place.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            return ""
        return blob_id(place.read_bytes())[:_DIGITS]
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except OSError:
        return ""
