"""The newest commits of any repository."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.storage.git.runner import GitRunner

_FORMAT = "--format=%H%x00%ct%x00%cs%x00%an%x00%s"
_PLAIN = ("--no-show-signature", "--no-notes", "--no-decorate", "--no-color", "--encoding=UTF-8")


class RecentCommit(NamedTuple):
    """A commit; `at` is its time in seconds since the epoch."""

    commit: str
    at: int
    day: str
    author: str
    subject: str


def list_recent(git: GitRunner, limit: int) -> list[RecentCommit]:
    """Return the newest commits of HEAD, newest first; none before the first."""
    if not git.run("rev-parse", "-q", "--verify", "HEAD", check=False):
        return []
    out = git.run(
        *("log", "-z", *_PLAIN, "--no-ext-diff", "--no-textconv", f"--max-count={limit}"),
        *(_FORMAT, "HEAD", "--"),
    )
    fields = out.split("\0")
    rows = zip(*(fields[n::5] for n in range(5)), strict=False)
    return [RecentCommit(c, int(at), day, author, subject) for c, at, day, author, subject in rows]
