"""Operations that look after a vault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vaultmem.operations.declaration import Line


def commit_lines(commits: Iterable[tuple[str, str]]) -> Iterator[Line]:
    """Yield a line for each commit that was made, given as id and subject."""
    for commit, subject in commits:
        yield Line(commit[:7], "yellow", f"  {subject}")


def commits_data(commits: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return commits that are given as id and subject."""
    return [{"commit": commit, "subject": subject} for commit, subject in commits]
