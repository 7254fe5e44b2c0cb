"""What any repository says of its files: which commits changed them, and which are the newest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.notes.encoding import read_escapes
from vaultmem.storage.git.commit_draft import TreeEntry
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.git.repository import check_repository, refuse_bare
from vaultmem.storage.git.runner import GitRunner
from vaultmem.storage.git.times import read_time

#: Commits that are looked at, at most.
_MAX_COMMITS = 2_000

#: How a commit begins: not even a subject or a file's name can look like this.
_START = re.compile(r"(?:^|\0)\x01(?=[0-9a-f]{40}\0\d+\0\d{4}-\d\d-\d\d\0)")

_FIELDS = "%H%x00%ct%x00%cs%x00%an%x00%s"
_PLAIN = ("--no-show-signature", "--no-notes", "--no-decorate", "--no-color", "--encoding=UTF-8")


class FileCommit(NamedTuple):
    """A commit of people's files; `at` is its time in seconds since the epoch."""

    commit: str
    at: int
    day: str
    author: str
    subject: str


def open_repository(folder: Path) -> GitRunner | None:
    """Return what runs git in the repository around a folder, None if there is none.

    Raises:
        VaultError: it is somebody else's, bare, or of a kind that is not read.
    """
    found = find_git_folder(folder)
    if found is None:
        return None
    refuse_bare(found[0])
    check_repository(*found)
    return GitRunner(*found)


def find_oldest_root(git: GitRunner) -> str:
    """Return the oldest commit without parents in HEAD's history, "" if there is no commit."""
    walk = ("rev-list", "--max-parents=0", "--timestamp", "HEAD", "--")
    rows = [line.split() for line in git.run(*walk, check=False).splitlines()]
    return min(((int(at), commit) for at, commit in rows), default=(0, ""))[1]


def has_commit(git: GitRunner, commit: str) -> bool:
    """Tell whether the repository has a commit."""
    return git.run("cat-file", "-t", commit, check=False) == "commit"


def list_remote_urls(git: GitRunner) -> list[str]:
    """Return the addresses of the remotes in the repository's own settings, origin's first."""
    pattern = r"^remote\..*\.url$"
    out = git.run("config", "--local", "-z", "--get-regexp", pattern, check=False)
    rows = [row.partition("\n") for row in out.split("\0") if row]
    rows.sort(key=lambda row: row[0] != "remote.origin.url")
    return [read_escapes(url) for _, _, url in rows]


def list_file_commits(
    git: GitRunner, paths: Sequence[str], since: int
) -> dict[str, list[FileCommit]]:
    """Return the commits of HEAD since a time that changed these files, newest first, by path.

    Paths are relative to the work tree, `since` is in seconds since the epoch.
    """
    found: dict[str, list[FileCommit]] = {path: [] for path in paths}
    if not paths or not git.run("rev-parse", "-q", "--verify", "HEAD", check=False):
        return found
    out = git.run(
        *("log", "-z", *_PLAIN, "--no-ext-diff", "--no-textconv", "--no-renames", "--name-only"),
        *(f"--max-count={_MAX_COMMITS}", f"--since=@{max(since, 0)}"),
        *(f"--format=%x01{_FIELDS}", "HEAD"),
        *("--", *paths),
    )
    for block in _START.split(out)[1:]:
        commit, at, day, author, subject, *names = block.split("\0")
        for name in names:
            if (path := name.lstrip("\n")) in found:
                told = read_escapes(author), read_escapes(subject)
                found[path].append(FileCommit(commit, read_time(at), day, *told))
    return found


def list_entries(git: GitRunner, paths: Sequence[str]) -> dict[str, TreeEntry]:
    """Return those of the files that HEAD has."""
    if not paths or not git.run("rev-parse", "-q", "--verify", "HEAD", check=False):
        return {}
    found = {}
    out = git.run("ls-tree", "-z", "--full-tree", "HEAD", "--", *paths)
    for line in filter(None, out.split("\0")):
        meta, _, path = line.partition("\t")
        mode, _, name = meta.split()
        found[path] = TreeEntry(mode, name)
    return found


def list_recent(git: GitRunner, limit: int) -> list[FileCommit]:
    """Return the newest commits of HEAD, newest first; none before the first."""
    if not git.run("rev-parse", "-q", "--verify", "HEAD", check=False):
        return []
    out = git.run(
        *("log", "-z", *_PLAIN, "--no-ext-diff", "--no-textconv", f"--max-count={limit}"),
        *(f"--format={_FIELDS}", "HEAD", "--"),
    )
    fields = read_escapes(out).split("\0")
    rows = zip(*(fields[n::5] for n in range(5)), strict=False)
    return [FileCommit(c, read_time(at), *told) for c, at, *told in rows]
