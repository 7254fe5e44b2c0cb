"""Lines of a text, and which of them two texts have in common."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import isqrt
from typing import NamedTuple

#: Steps that one comparison may take; what is left then counts as replaced.
_MAX_STEPS = 4_000_000
#: Edits that are looked for between two places that are surely the same.
_MAX_EDITS = 1_000

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

Match = tuple[int, int, int]


class Hunk(NamedTuple):
    """Lines `start` to `end` of the old text that are `new_start` to `new_end` of the new one.

    0-based, the end exclusive; an empty span is the place in front of that line.
    """

    start: int
    end: int
    new_start: int
    new_end: int


def split_lines(text: str) -> list[str]:
    r"""Return the lines with their ends; only `\n` divides, as in git."""
    return _LINE.findall(text)


def split_keys(text: str) -> list[str]:
    """Return the lines without their ends: what is compared."""
    keys = text.replace("\r\n", "\n").split("\n")
    return keys if keys[-1] else keys[:-1]


def split_bytes(data: bytes) -> list[str]:
    """Return a file's lines as git divides them, without line ends; bad bytes are surrogates."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return lines if lines[-1] else lines[:-1]


def strip_end(line: str) -> str:
    r"""Return a line without its `\n` or `\r\n`."""
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def find_line_end(*texts: str) -> str:
    """Return the line end of the first text that has one."""
    for text in texts:
        newline = text.find("\n")
        if newline >= 0:
            return "\r\n" if text[newline - 1 : newline] == "\r" else "\n"
    return "\n"


def join_lines(lines: Sequence[str], line_end: str) -> str:
    """Return lines as a text; one without an end gets it if another line follows."""
    ended = [line if line.endswith("\n") else line + line_end for line in lines[:-1]]
    return "".join([*ended, *lines[-1:]])


def diff_lines(old: Sequence[str], new: Sequence[str], most: int = _MAX_STEPS) -> list[Hunk]:
    """Return what has to be replaced to make `new` of `old`, in order; no two hunks touch."""
    hunks: list[Hunk] = []
    at = new_at = 0
    for start, new_start, length in [*match_lines(old, new, most), (len(old), len(new), 0)]:
        if start > at or new_start > new_at:
            hunks.append(Hunk(at, start, new_at, new_start))
        at, new_at = start + length, new_start + length
    return hunks


def match_lines(old: Sequence[str], new: Sequence[str], most: int = _MAX_STEPS) -> list[Match]:
    """Return the runs of equal lines as (place in old, place in new, length), in order.

    Lines that are unique on both sides are matched first (patience diff, Bram Cohen), the rest
    by the shortest edit (Myers 1986). The work is bounded by `most` steps: where texts of thousands
    of repeated lines differ all over, less is matched than could be.
    """
    matches: list[Match] = []
    steps = 0
    spans = [(0, len(old), 0, len(new))]
    while spans:
        low, high, new_low, new_high = span = _trim(old, new, spans.pop(), matches)
        if low == high or new_low == new_high:
            continue
        steps += high - low + new_high - new_low
        if steps > most:
            continue
        anchors = _match_unique(old, new, span)
        if anchors:
            stops = [(low, new_low), *anchors, (high, new_high)]
            spans += [(a, c, b, d) for (a, b), (c, d) in pairwise(stops)]
            continue
        limit = min(_MAX_EDITS, isqrt(most - steps))
        found, edits = _find_shortest_edit(old[low:high], new[new_low:new_high], limit)
        steps += edits * edits
        matches += [(low + a, new_low + b, length) for a, b, length in found]
    return _join_runs(sorted(matches))


def _trim(
    old: Sequence[str], new: Sequence[str], span: tuple[int, int, int, int], matches: list[Match]
) -> tuple[int, int, int, int]:
    """Match what a span starts and ends with on both sides, and return the rest."""
    low, high, new_low, new_high = span
    start = low
    while low < high and new_low < new_high and old[low] == new[new_low]:
        low, new_low = low + 1, new_low + 1
    if low > start:
        matches.append((start, new_low - (low - start), low - start))
    end = high
    while low < high and new_low < new_high and old[high - 1] == new[new_high - 1]:
        high, new_high = high - 1, new_high - 1
    if high < end:
        matches.append((high, new_high, end - high))
    return low, high, new_low, new_high


def _match_unique(
    old: Sequence[str], new: Sequence[str], span: tuple[int, int, int, int]
) -> list[tuple[int, int]]:
    """Return the most lines, each unique on both sides, that are in the same order on both."""
    low, high, new_low, new_high = span
    counts = Counter(old[low:high])
    new_counts = Counter(new[new_low:new_high])
    places = {line: new_low + at for at, line in enumerate(new[new_low:new_high])}
    pairs = [
        (at, places[line])
        for at, line in enumerate(old[low:high], low)
        if counts[line] == 1 and new_counts.get(line) == 1
    ]
    return _longest_rise(pairs)


def _longest_rise(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs whose second numbers rise."""
    tops: list[int] = []  # The lowest number that a run of each length can end with.
    ends: list[int] = []  # Which pair that is.
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(tops, place)
        before.append(ends[length - 1] if length else -1)
        tops[length : length + 1] = [place]
        ends[length : length + 1] = [index]
    run: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def _find_shortest_edit(
    old: Sequence[str], new: Sequence[str], limit: int
) -> tuple[list[Match], int]:
    """Return the matches of the shortest edit and its length; none if it is beyond `limit`.

    Source: E. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986).
    """
    goal = len(old) - len(new)
    reached = [0] * (2 * limit + 3)  # By diagonal: how far into `old` this many edits come.
    middle = limit + 1
    history: list[list[int]] = []
    for edits in range(limit + 1):
        history.append(reached[middle - edits - 1 : middle + edits + 2])
        for diagonal in range(-edits, edits + 1, 2):
            place = middle + diagonal
            down = diagonal == -edits or (
                diagonal != edits and reached[place - 1] < reached[place + 1]
            )
            x = reached[place + 1] if down else reached[place - 1] + 1
            y = x - diagonal
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reached[place] = x
            if diagonal == goal and x >= len(old):
                return _trace_back(history, len(old), len(new)), edits
    return [], limit


def _trace_back(history: list[list[int]], x: int, y: int) -> list[Match]:
    matches: list[Match] = []
    for edits in range(len(history) - 1, -1, -1):
        reached, middle = history[edits], edits + 1
        diagonal = x - y
        place = middle + diagonal
        down = diagonal == -edits or (diagonal != edits and reached[place - 1] < reached[place + 1])
        start = reached[place + 1] if down else reached[place - 1] + 1
        start = start if edits else 0
        if x > start:
            matches.append((start, start - diagonal, x - start))
        x, y = (start, start - diagonal - 1) if down else (start - 1, start - diagonal)
    return matches


def _join_runs(matches: list[Match]) -> list[Match]:
    joined: list[Match] = []
    for match in matches:
        if joined:
            start, new_start, length = joined[-1]
            if (start + length, new_start + length) == match[:2]:
                joined[-1] = (start, new_start, length + match[2])
                continue
        joined.append(match)
    return joined
