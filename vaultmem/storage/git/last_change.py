"""Who changed a file last on one side of a merge, and which commits git is merging just now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from vaultmem.storage.git.runner import GitRunner
from vaultmem.storage.git.times import read_moment, read_time

_FORMAT = "%ct%x00%cI%x00%an%x00%(trailers:key=Agent-Id,valueonly,separator=%x2C)"
_ID = re.compile(r"[0-9a-f]{40}")
#: What git writes where it stops, or works, at a commit of somebody's: each names it first.
_WHERE = ("MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD")


class LastChange(NamedTuple):
    """When a file was changed last (seconds since the epoch, and the day there), and by whom."""

    at: int = 0
    day: str = ""
    author: str = ""


def find_last_change(git: GitRunner, commit: str, path: str = "") -> LastChange:
    """Return the last change of a file (from the repository's root) in a commit's history.

    Where that has none of it, the commit itself counts.
    """
    command = ("log", "-1", "--no-show-signature", "--no-notes", f"--format={_FORMAT}", commit)
    where = ("--", path) if path else ()
    found = git.run(*command, *where).split("\0") if commit else [""]
    if len(found) < 4:
        return find_last_change(git, commit) if path and commit else LastChange()
    at = read_time(found[0])
    day = read_moment(found[1], at)[:10]
    return LastChange(at, day, found[3].strip() or found[2])


class Theirs(NamedTuple):
    """A commit that git merges, and how it calls it; or one that it replays on what is there."""

    commit: str = ""
    called: str = ""
    is_replayed: bool = False


def find_theirs(git_folder: Path, environment: Mapping[str, str]) -> Theirs:
    """Return the commit that git is merging, or picks; an empty one where it is unknown.

    `git merge` says it to its merge driver by `GITHEAD_{commit}`.
    """
    heads = {
        name.removeprefix("GITHEAD_"): called
        for name, called in environment.items()
        if name.startswith("GITHEAD_")
    }
    if len(heads) == 1:
        ((commit, called),) = heads.items()
        return Theirs(commit, "" if _ID.fullmatch(called) else called)
    done = _read(git_folder / "rebase-merge/done").rstrip("\n").rpartition("\n")[2].split()
    if len(done) > 1 and re.fullmatch(r"[0-9a-f]{4,40}", done[1]):
        return Theirs(done[1], is_replayed=True)
    return Theirs(next(filter(None, (_read(git_folder / name)[:40] for name in _WHERE)), ""))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
