"""Comments between two `%%`, as Obsidian has them.

Source: Obsidian Help, "Basic formatting syntax" (comments).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vaultmem.core.notes.comments import Scan, Span, is_first

_REST = re.compile(r"[ \t\r]*+(?:\n|\Z)")


class Percent(NamedTuple):
    """One `%%`: its line, whether it is the first or last of it, whether it may be no mark."""

    start: int
    line: int
    is_first: bool
    is_last: bool
    is_doubtful: bool


def _list_percent(text: str, body: int, scan: Scan) -> Iterator[Percent]:
    """Yield each `%%` that is not certainly in code."""
    code, *doubts = (_edges(spans) for spans in (scan.code, scan.comments, scan.unclear))
    line, counted = 0, body
    for match in re.finditer("%%+", text[body:]):
        start, end = match.start() + body, match.end() + body
        if bisect_right(code, start) % 2:
            continue
        line, counted = line + text.count("\n", counted, start), start
        is_doubtful = end - start > 2 or any(bisect_right(each, start) % 2 for each in doubts)
        is_last = _REST.match(text, end) is not None
        yield Percent(start, line, is_first(text, start), is_last, is_doubtful)


def _edges(spans: Sequence[Span]) -> list[int]:
    return [edge for span in spans for edge in span]


def find_percent(text: str, body: int, scan: Scan) -> tuple[list[Span], int]:
    """Return what `%%` hides, and the mark that hides more than a reader may think, else -1.

    Certain are the marks of one line, two and two, and those that begin and end a block. From
    where it is not certain on, all up to the last mark is hidden.
    """
    marks = list(_list_percent(text, body, scan))
    spans: list[Span] = []
    at = 0
    while at < len(marks):
        many = sum(each.line == marks[at].line for each in marks[at : at + 64])
        group = marks[at : at + many]
        if many == 1 and at + 1 < len(marks) and _is_block(marks, at):
            group = marks[at : at + 2]
        if len(group) % 2 or any(each.is_doubtful for each in group):
            break
        spans += [(a.start, b.start + 2) for a, b in zip(group[::2], group[1::2], strict=True)]
        at += len(group)
    held = [start for start, end in scan.code if "%%" in text[start:end]]
    for start, end in spans:
        place = bisect_right(held, start)
        if place < len(held) and held[place] < end:  # Code, or where the comment ends.
            return [(start, len(text))], start
    left = marks[at:]
    if not left or (len(left) == 1 and not left[0].is_first):
        return spans, -1
    first, last = left[0], left[-1]
    if len(left) == 2:
        return [*spans, (first.start, _end_run(text, last.start))], -1
    end = len(text) if len(left) % 2 and last.is_first else _end_run(text, last.start)
    return [*spans, (first.start, end)], first.start


def _is_block(marks: Sequence[Percent], at: int) -> bool:
    """Tell whether a mark begins its line, and the next one alone ends a later one."""
    first, second = marks[at : at + 2]
    is_alone = at + 2 == len(marks) or marks[at + 2].line != second.line
    return first.is_first and is_alone and (second.is_first or second.is_last)


def _end_run(text: str, place: int) -> int:
    while text[place : place + 1] == "%":
        place += 1
    return place
