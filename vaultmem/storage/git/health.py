"""What a repository lacks of what vaultmem wants, and what it suffers from."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from vaultmem.core.paths import is_conflict_copy
from vaultmem.errors import VaultError
from vaultmem.storage.git.head import common_folder
from vaultmem.storage.git.setup import is_own_driver
from vaultmem.storage.git.vault_history import History

#: The first version of git that can merge without a work tree (`git merge-tree --write-tree`).
MERGES_SINCE = (2, 38)

_LOOKED_AT = 1_000


def is_git_installed() -> bool:
    """Tell whether there is a git to run."""
    return shutil.which("git") is not None


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
    return "" if is_own_driver(driver) else "git merges notes with another vaultmem or Python"


def find_future_commits(history: History, commit: str, now: float) -> list[str]:
    """Return those of the last commits whose time is more than a minute after `now`."""
    if not commit:
        return []
    options = (f"--max-count={_LOOKED_AT}", "--no-show-signature", "--format=%H %ct")
    out = history.git.run("log", "--no-ext-diff", "--no-textconv", *options, commit, "--")
    pairs = (line.split() for line in out.splitlines())
    return [name for name, at in pairs if int(at) > now + 60]


def find_copies_in_git(git_folder: Path) -> list[Path]:
    """Return what file synchronisation put between git's own files, which git takes for its own."""
    folder = common_folder(git_folder)
    files = (*folder.glob("*"), *(folder / "refs").rglob("*"))
    return sorted(file for file in files if is_conflict_copy(file.name))


def find_broken_objects(history: History) -> list[str]:
    """Return what git says is missing or broken of what commits hold; file contents are not read.

    It costs one walk through all commits and trees.
    """
    check = ("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
    try:
        history.git.run(*check)
    except VaultError as error:
        complaint = str(error).partition("failed: ")[2]
        lines = history.git.run(*check, check=False).splitlines()
        return [complaint, *lines] if not complaint.startswith("status") else lines or [complaint]
    return []


def is_shallow(history: History) -> bool:
    """Tell whether a clone has been cut off from its older commits."""
    return (common_folder(history.git_folder) / "shallow").is_file()


def find_committed(history: History, commit: str, paths: list[str]) -> list[str]:
    """Return those of the files, or folders ending in `/`, that a commit holds something of."""
    if not commit:
        return []
    names = {f"{history.prefix}{path.rstrip('/')}": path for path in paths}
    out = history.git.run("ls-tree", "--name-only", "-z", "--full-tree", commit, "--", *names)
    return [names[name] for name in out.split("\0") if name in names]
