"""Lines shared by several results: columns, commits, omitted files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vaultmem.core.text.display import one_line, pad, width
from vaultmem.operations.declaration import Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vaultmem.services.changes.commit import CommitReport

_MAX_WIDTH = 32


def align(rows: Sequence[Sequence[str]], longest: int = _MAX_WIDTH) -> list[str]:
    """Return rows as lines with aligned columns; empty columns are omitted."""
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    widths = [min(max(map(width, column)), longest) for column in columns]
    lines = zip(*columns, strict=True) if columns else ([] for _ in rows)
    return [
        "  ".join(pad(text, columns) for text, columns in zip(line, widths, strict=False))
        for line in lines
    ]


def commit_lines(commits: Iterable[tuple[str, str]]) -> Iterator[Line]:
    """Yield a line for each new commit, given as id and subject."""
    for commit, subject in commits:
        yield Line(commit[:7], "yellow", f"  {subject}")


def report_lines(report: CommitReport) -> Iterator[Line]:
    """Yield the new commits and the omitted files."""
    from vaultmem.services.changes.ownership import describe_skipped

    yield from commit_lines(report.commits)
    for line in describe_skipped(report.skipped):
        yield Line(f"left out  {line}")
    yield from candidate_lines(report.candidates)


def candidate_lines(paths: Iterable[str]) -> Iterator[Line]:
    """Yield the notes that stay candidates because an agent changed them."""
    for path in paths:
        yield Line(f"candidate  {one_line(path)}: only a person makes it active")
