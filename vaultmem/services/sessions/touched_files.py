"""The files that sessions touched: noted by name and content, and what became of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.core.blob import blob_id
from vaultmem.core.counting import count_things
from vaultmem.core.notes.edit_properties import set_property
from vaultmem.core.notes.values import read_timestamp
from vaultmem.core.safe_text import one_line
from vaultmem.core.sessions.session import (
    FileFate,
    Session,
    TouchedFile,
    Workspace,
    format_touched,
)
from vaultmem.core.sessions.session_note import parse_session
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.sessions.edit_session import edit_session
from vaultmem.services.sessions.identify import find_begun_in
from vaultmem.services.sessions.read import find_path
from vaultmem.storage.git.any_repository import (
    FileCommit,
    list_entries,
    list_file_commits,
    open_repository,
)
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
    base = find_begun_in(vault, path.stem, workspace)
    here = vault.here or Path()
    found = [name_touched(here / Path(file).expanduser(), base) for file in files]

    def change(note: Note) -> str:
        listed = _list_touched(note, found)
        if len(listed) > MAX_TOUCHED:
            raise RefusedError(
                f"{path.stem}: it lists {MAX_TOUCHED} files already; name a folder instead"
            )
        return _set_touched(note, listed)

    return edit_session(vault, path.stem, change)


def add_touched(note: Note, found: Sequence[TouchedFile]) -> str:
    """Return a session note's text with files among those it touched; the oldest go."""
    return _set_touched(note, _list_touched(note, found)[-MAX_TOUCHED:])


def _list_touched(note: Note, found: Sequence[TouchedFile]) -> list[TouchedFile]:
    listed = {each.path: each for each in parse_session(note).touched}
    for each in found:  # What was touched last stands last.
        if listed.get(each.path) != each:
            listed.pop(each.path, None)
            listed[each.path] = each
    return list(listed.values())


def _set_touched(note: Note, listed: Sequence[TouchedFile]) -> str:
    if tuple(listed) == parse_session(note).touched:
        return note.text
    return set_property(note.text, "touched", tuple(map(format_touched, listed)))


def name_touched(file: Path, workspace: Path) -> TouchedFile:
    """Return a file as a session's note lists it; a folder has no blob id.

    Raises:
        RefusedError: its name has line breaks or is not UTF-8.
    """
    place = Path(os.path.abspath(file))
    name = name_file(place, workspace)
    if not name.isprintable():
        raise RefusedError(f"{name!r}: a name that cannot be written in a note; rename the file")
    if place.is_dir():
        return TouchedFile(f"{name}/")
    return TouchedFile(name, short_blob(place))


def name_file(place: Path, workspace: Path) -> str:
    """Return how a note names a file: from the workspace or the user's home, else in full."""
    for base, lead in ((workspace, ""), (Path.home(), "~/")):
        if place.is_relative_to(base) and place != base:
            return lead + place.relative_to(base).as_posix()
    return place.as_posix()


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


#: Files that git is asked about; of more, the disk alone tells.
_MAX_FILES = 1_000


def trace_files(
    sessions: Sequence[Session], workspace: Path, place: Workspace
) -> dict[str, FileFate]:
    """Return what became of each file since a session first touched it, the last session first.

    Sessions that did not work in the `place` of the workspace are passed over: their files are
    elsewhere.
    """
    left: dict[str, tuple[str, float]] = {}
    for session in sessions:
        facts = session.facts
        if (facts.workspace or facts.project) and not place.has(facts):
            continue
        since = read_timestamp(facts.started) or 0.0
        for each in reversed(session.touched):
            blob, before = left.get(each.path, (each.blob, since))
            left[each.path] = (blob, min(before, since))
    commits, heads = _ask_git(left, workspace)
    return {
        path: _tell(path, blob, since, workspace, commits.get(path), heads)
        for path, (blob, since) in left.items()
    }


def _ask_git(
    left: Mapping[str, tuple[str, float]], workspace: Path
) -> tuple[dict[str, list[FileCommit]], dict[str, str] | None]:
    """Return the files' commits, and HEAD's blob ids of those it has; None without git."""
    paths = [path for path in left if not path.startswith(("/", "~"))][:_MAX_FILES]
    try:
        git = open_repository(workspace)
        if git is None or git.work_tree != workspace or not paths:
            return {}, None
        commits = list_file_commits(git, paths, int(min(at for _, at in left.values())))
        return commits, {path: e.blob for path, e in list_entries(git, paths).items()}
    except VaultError:
        return {}, None


def _tell(
    path: str,
    blob: str,
    since: float,
    workspace: Path,
    commits: Sequence[FileCommit] | None,
    heads: Mapping[str, str] | None,
) -> FileFate:
    later = [each for each in commits or () if each.at >= since]
    now = "" if path.endswith("/") else short_blob(place_of(path, workspace))
    words = []
    if now == "gone":
        words.append("removed" if blob == "gone" else "gone since")
    elif blob and now:
        words.append("as left" if now == blob[: len(now)] else "changed since")
    if heads is not None and now and not path.startswith(("/", "~")):
        committed = heads.get(path, "")
        if now == "gone":
            words += ["not committed"] if committed else []
        elif not committed.startswith(now):
            words.append("not committed")
    if later:
        words.append(count_things(len(later), "commit"))
    short = ", ".join(words)
    if not later:
        return FileFate(short, short)
    last = later[0]
    told = f'last {last.commit[:7]} {last.day} "{one_line(last.subject)[:80]}" ({last.author})'
    return FileFate(short, f"{short}, {told}")
