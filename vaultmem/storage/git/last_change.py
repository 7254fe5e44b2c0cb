"""Who changed a file last on one side of a merge, and which commits git is merging just now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from vaultmem.core.notes.conflict import Speaker
from vaultmem.storage.git.runner import GitRunner
from vaultmem.storage.git.times import read_moment, read_time

_FORMAT = "%ct%x00%cI%x00%an%x00%(trailers:key=Agent-Id,valueonly,separator=%x2C)"
_ID = re.compile(r"[0-9a-f]{40}")
#: What git writes where it stops, or works, at a commit of somebody's: each names it first.
_WHERE = ("MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD")


def find_last_change(git: GitRunner, commit: str, path: str = "") -> tuple[int, Speaker]:
    """Return when a file was last changed in a commit's history, and by whom.

    `path` is from the repository's root; where the history has none of it, the commit itself
    counts. The time is in seconds since the epoch, 0 if there is no commit.
    """
    command = ("log", "-1", "--no-show-signature", "--no-notes", f"--format={_FORMAT}", commit)
    where = ("--", path) if path else ()
    found = git.run(*command, *where).split("\0") if commit else [""]
    if len(found) < 4:
        return find_last_change(git, commit) if path and commit else (0, Speaker())
    at = read_time(found[0])
    return at, Speaker(found[3].strip() or found[2], read_moment(found[1], at)[:10])


def find_theirs(git_folder: Path, environment: Mapping[str, str]) -> tuple[str, str, bool]:
    """Return the commit that git is merging, how git calls it, and whether it is replayed.

    The commit is empty where it is unknown. `git merge` says it to its merge driver by
    `GITHEAD_{commit}`; a rebase replays a commit on what is there.
    """
    heads = {
        name.removeprefix("GITHEAD_"): called
        for name, called in environment.items()
        if name.startswith("GITHEAD_")
    }
    if len(heads) == 1:
        ((commit, called),) = heads.items()
        return commit, ("" if _ID.fullmatch(called) else called), False
    done = _read(git_folder / "rebase-merge/done").rstrip("\n").rpartition("\n")[2].split()
    if len(done) > 1 and re.fullmatch(r"[0-9a-f]{4,40}", done[1]):
        return done[1], "", True
    commit = next(filter(None, (_read(git_folder / name)[:40] for name in _WHERE)), "")
    return commit, "", False


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
