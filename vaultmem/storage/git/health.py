"""What a repository lacks, or suffers from, that vaultmem wants it to have."""

from __future__ import annotations

import re
from pathlib import Path

from vaultmem.storage.git.history import History
from vaultmem.storage.git.merge_setup import name_driver

#: The first version of git that can merge without a work tree (`git merge-tree --write-tree`).
MERGES_SINCE = (2, 38)

_LOOKED_AT = 1_000


def read_git_version(history: History) -> tuple[int, ...]:
    """Return git's version, such as (2, 39, 5); () if it does not say."""
    found = re.search(r"\d+(\.\d+)+", history.git.run("version"))
    return tuple(map(int, found.group().split("."))) if found else ()


def find_driver_lack(history: History) -> str:
    """Return why git would not merge notes with this vaultmem, empty if it would."""
    path = f"{history.prefix}notes/x.md"
    out = history.git.run("check-attr", "-z", "merge", "--", path)
    if out.split("\0")[2:3] != ["vaultmem"]:
        return "git merges notes line by line"
    driver = history.git.run("config", "--get", "merge.vaultmem.driver", check=False)
    if not driver:
        return "git is told to merge notes with vaultmem, but not how"
    return "" if driver == name_driver() else "git merges notes with another vaultmem or Python"


def find_future_commits(history: History, commit: str, now: float) -> list[str]:
    """Return those of the last commits whose time is more than a minute after `now`."""
    if not commit:
        return []
    options = (f"--max-count={_LOOKED_AT}", "--no-show-signature", "--format=%H %ct")
    out = history.git.run("log", "--no-ext-diff", "--no-textconv", *options, commit, "--")
    pairs = (line.split() for line in out.splitlines())
    return [name for name, at in pairs if int(at) > now + 60]


def find_lock_age(git_folder: Path, now: float) -> float | None:
    """Return for how many seconds git's index has been locked, None if it is not."""
    try:
        return now - (git_folder / "index.lock").stat().st_mtime
    except OSError:
        return None
