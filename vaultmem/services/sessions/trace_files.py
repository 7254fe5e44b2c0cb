"""What became of the files that sessions touched, as git and the disk tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.core.notes.values import parse_moment
from vaultmem.core.plain_text import one_line
from vaultmem.core.sessions.restore_material import FileFate
from vaultmem.errors import VaultError
from vaultmem.services.sessions.touch import place_of, short_blob
from vaultmem.storage.git.file_log import (
    FileCommit,
    list_entries,
    list_file_commits,
    open_repository,
)

if TYPE_CHECKING:
    from vaultmem.core.sessions.session import Session

#: Files that git is asked about; of more, the disk alone tells.
_MAX_FILES = 1_000


def trace_files(sessions: Sequence[Session], workspace: Path) -> dict[str, FileFate]:
    """Return what became of each file since a session first touched it, the last session first.

    Sessions of a workspace of another name are passed over: their files are elsewhere.
    """
    left: dict[str, tuple[str, float]] = {}
    for session in sessions:
        if session.facts.workspace not in {"", workspace.name}:
            continue
        since = parse_moment(session.facts.started) or 0.0
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
        words.append("1 commit" if len(later) == 1 else f"{len(later):,} commits")
    short = ", ".join(words)
    if not later:
        return FileFate(short, short)
    last = later[0]
    told = f'last {last.commit[:7]} {last.day} "{one_line(last.subject)[:80]}" ({last.author})'
    return FileFate(short, f"{short}, {told}")
