"""Blame a file, and find the last change of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.notes.conflict import Speaker
from vaultmem.storage.git.runner import GitRunner, parse_export_time, read_time
from vaultmem.storage.git.vault_history import VaultHistory

_HEADER = re.compile(r"([0-9a-f]{40}) ([0-9]+) ([0-9]+)(?: [0-9]+)?")


class LineOrigin(NamedTuple):
    r"""A line without its `\n`, and the commit that wrote it; invalid UTF-8 is lone surrogates.

    `path` (in the repository) and `number` (1-based) are the line's place in that commit.
    """

    commit: str
    text: str
    path: str
    number: int


def blame_file(history: VaultHistory, commit: str, path: str) -> list[LineOrigin]:
    """Return the origin of each line of a file in a commit.

    `commit` is a full id, so git reads no file of the work tree and runs no filter. Source of the
    format: `git blame --help`, "THE PORCELAIN FORMAT".
    """
    out = history.git.run(
        *("blame", "--porcelain", "--no-textconv", "--no-ignore-revs-file", "--root"),
        *(commit, "--", history.prefix + path),
    )
    origins: list[LineOrigin] = []
    at, number = "", 0
    paths: dict[str, str] = {}  # Repeated only if a commit has lines from several paths.
    for line in out.split("\n"):
        if line.startswith("\t"):
            origins.append(LineOrigin(at, line[1:], paths.get(at, ""), number))
        elif line.startswith("filename "):
            paths[at] = line.removeprefix("filename ")
        elif header := _HEADER.fullmatch(line):
            at, number = header[1], int(header[2])
    return origins


# The last change of a file on one side of a merge, and the commit that git is merging now.

_FORMAT = "%ct%x00%cI%x00%an%x00%(trailers:key=Agent-Id,valueonly,separator=%x2C)"
_ID = re.compile(r"[0-9a-f]{40}")
#: Files in which git names the other commit of an operation in progress.
_OPERATION_HEADS = ("MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD")


def find_last_change(git: GitRunner, commit: str, path: str = "") -> tuple[int, Speaker]:
    """Return the time and the author of a file's last change in a commit's history.

    `path` is from the repository's root. If the history lacks it, the commit itself is used. The
    time is in seconds since the epoch, 0 if there is no commit.
    """
    command = ("log", "-1", "--no-show-signature", "--no-notes", f"--format={_FORMAT}", commit)
    pathspec = ("--", path) if path else ()
    fields = git.run(*command, *pathspec).split("\0") if commit else [""]
    if len(fields) < 4:
        return find_last_change(git, commit) if path and commit else (0, Speaker())
    at = read_time(fields[0])
    return at, Speaker(fields[3].strip() or fields[2], parse_export_time(fields[1], at)[:10])


def find_theirs(git_folder: Path, environment: Mapping[str, str]) -> tuple[str, str, bool]:
    """Return the commit that git is merging, git's name for it, and whether it is replayed.

    The commit is "" if unknown. `git merge` passes it to its merge driver as `GITHEAD_{commit}`. A
    rebase replays it.
    """
    heads = {
        name.removeprefix("GITHEAD_"): label
        for name, label in environment.items()
        if name.startswith("GITHEAD_")
    }
    if len(heads) == 1:
        ((commit, label),) = heads.items()
        return commit, ("" if _ID.fullmatch(label) else label), False
    last_step = _read(git_folder / "rebase-merge/done").rstrip("\n").rpartition("\n")[2].split()
    if len(last_step) > 1 and re.fullmatch(r"[0-9a-f]{4,40}", last_step[1]):
        return last_step[1], "", True
    commit = next(filter(None, (_read(git_folder / name)[:40] for name in _OPERATION_HEADS)), "")
    return commit, "", False


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
