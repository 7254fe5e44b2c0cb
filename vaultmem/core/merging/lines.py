"""Merge three versions of a text line by line (diff3)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from vaultmem.core.delta.lines import (
    Hunk,
    diff_lines,
    find_line_end,
    join_lines,
    split_keys,
    split_lines,
    strip_end,
)
from vaultmem.core.merging.items import combine_insertions, join_items, leaves_fence_open
from vaultmem.core.merging.merged import MergeConflict
from vaultmem.core.notes.sections import find_fences

Span = tuple[int, int]
Texts = tuple["_Text", "_Text", "_Text"]


class Region(NamedTuple):
    """A stretch that one side or both changed, as half-open line numbers of the three texts.

    Changes that touch are one region, so between two regions all three texts agree.
    """

    base: Span
    ours: Span
    theirs: Span
    our_hunks: tuple[Hunk, ...]
    their_hunks: tuple[Hunk, ...]


class _Text(NamedTuple):
    """A text as lines, as lines without their ends, and the lines of its code fences."""

    lines: list[str]
    keys: list[str]
    fences: list[Span]

    def is_in_fence(self, place: int) -> bool:
        """Tell whether a line put in front of line `place` would be code."""
        index = bisect_right(self.fences, (place - 1, len(self.lines))) - 1
        return index >= 0 and place <= self.fences[index][1]


class Clash(NamedTuple):
    """A conflict, and which lines of the merged text (`start` to `end`) ours are in it."""

    start: int
    end: int
    conflict: MergeConflict


class MergedLines(NamedTuple):
    """Merged lines; in each clash ours are taken."""

    lines: list[str]
    clashes: tuple[Clash, ...]

    @property
    def text(self) -> str:
        """The merged text."""
        return "".join(self.lines)


def merge_lines(
    base: str, ours: str, theirs: str, first: int = 0, prose: int | None = None
) -> MergedLines:
    """Merge what two sides made of `base`; a line that one side changed alone is that side's.

    Line ends are not compared, and each line keeps its own. `first` is how many lines stand
    before `ours` in its file, for the names of conflicts. From the base's line `prose` on, list
    items and sections that both sides added at one place are both kept; None: nowhere.
    """
    texts = (_read_text(base), _read_text(ours), _read_text(theirs))
    line_end = find_line_end(ours, base, theirs)
    merged: list[str] = []
    clashes: list[Clash] = []
    at = (0, 0, 0)
    for region in find_regions(*(text.keys for text in texts)):
        merged += _take_agreed(texts, at, region.base[0])
        at = (region.base[1], region.ours[1], region.theirs[1])
        may_combine = prose is not None and region.base[0] >= prose
        lines = _merge_region(texts, region, may_combine)
        if lines is None:
            before, mine, _, behind = _isolate(texts, region)
            conflict = _describe(texts, region, (len(before), len(behind)), first)
            start = len(merged) + len(before)
            clashes.append(Clash(start, start + len(mine), conflict))
            lines = [*before, *mine, *behind]
        merged += lines
    merged += _take_agreed(texts, at, len(texts[0].lines))
    return MergedLines(split_lines(join_lines(merged, line_end)), tuple(clashes))


def find_regions(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]
) -> Iterator[Region]:
    """Yield the regions in which the lines of three texts do not all agree, in order."""
    hunks = [(hunk, True) for hunk in diff_lines(base, ours)]
    hunks += [(hunk, False) for hunk in diff_lines(base, theirs)]
    hunks.sort(key=lambda item: (item[0].start, item[0].end))
    our_shift = their_shift = index = 0
    while index < len(hunks):
        start, end = hunks[index][0].start, hunks[index][0].end
        first = index
        while index < len(hunks) and hunks[index][0].start <= end:
            end = max(end, hunks[index][0].end)
            index += 1
        mine = tuple(hunk for hunk, is_ours in hunks[first:index] if is_ours)
        other = tuple(hunk for hunk, is_ours in hunks[first:index] if not is_ours)
        our_start, their_start = start + our_shift, start + their_shift
        our_shift += sum(map(_measure_growth, mine))
        their_shift += sum(map(_measure_growth, other))
        our_span, their_span = (our_start, end + our_shift), (their_start, end + their_shift)
        yield Region(
            base=(start, end), ours=our_span, theirs=their_span, our_hunks=mine, their_hunks=other
        )


def _measure_growth(hunk: Hunk) -> int:
    return hunk.new_end - hunk.new_start - (hunk.end - hunk.start)


def _read_text(text: str) -> _Text:
    lines = split_lines(text)
    spans = find_fences(text, 0)
    starts = list(accumulate(map(len, lines), initial=0)) if spans else []
    fences = [
        (bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1) for start, end in spans
    ]
    if fences and fences[-1][1] == len(lines) - 1 and leaves_fence_open(lines):
        fences[-1] = (fences[-1][0], len(lines))
    return _Text(lines, split_keys(text), fences)


def _take_agreed(texts: Texts, at: tuple[int, int, int], end: int) -> list[str]:
    """Return lines on which all agree; a line end that one side changed is that side's."""
    length = end - at[0]
    base, ours, theirs = (
        text.lines[start : start + length] for text, start in zip(texts, at, strict=True)
    )
    if base == ours:
        return theirs
    if base == theirs:
        return ours
    triples = zip(base, ours, theirs, strict=True)
    return [other if mine == old else mine for old, mine, other in triples]


def _merge_region(texts: Texts, region: Region, may_combine: bool) -> list[str] | None:
    """Return a region's merged lines, or None if both sides changed it differently."""
    base, ours, theirs = texts
    mine = ours.lines[slice(*region.ours)]
    other = theirs.lines[slice(*region.theirs)]
    if not region.our_hunks:
        return other
    if not region.their_hunks:
        return mine
    if ours.keys[slice(*region.ours)] == theirs.keys[slice(*region.theirs)]:
        return mine
    if region.base[0] == region.base[1] and (held := _find_holding(mine, other)) is not None:
        return held
    in_code = ours.is_in_fence(region.ours[0]) or theirs.is_in_fence(region.theirs[0])
    if not may_combine or in_code:
        return None
    behind = range(region.base[1], len(base.keys))
    following = next((base.keys[place] for place in behind if base.keys[place].strip()), None)
    if region.base[0] == region.base[1]:
        return combine_insertions(mine, other, following, any(map(str.strip, base.keys)))
    return _join_hunks(texts, region, following)


def _find_holding(ours: list[str], theirs: list[str]) -> list[str] | None:
    """Return the side that has all lines of the other in their order, if one has."""
    for mine, other in ((ours, theirs), (theirs, ours)):
        rest = iter(map(strip_end, other))
        if all(strip_end(line) in rest for line in mine):
            return other
    return None


def _join_hunks(texts: Texts, region: Region, following: str | None) -> list[str] | None:
    """Return a region in which each line of base was changed by one side only, else None."""
    base, ours, theirs = texts
    hunks = [(hunk, False) for hunk in region.our_hunks]
    hunks += [(hunk, True) for hunk in region.their_hunks]
    hunks.sort(key=lambda item: (item[0].start, item[0].end))
    if any(behind.start < hunk.end for (hunk, _), (behind, _) in pairwise(hunks)):
        return None
    changes = []
    for hunk, is_theirs in hunks:
        new = (theirs if is_theirs else ours).lines[hunk.new_start : hunk.new_end]
        changes.append((base.lines[hunk.start : hunk.end], new, is_theirs))
    return join_items(changes, following)


def _isolate(texts: Texts, region: Region) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return what both sides have before a conflict, each side's own, and both have behind."""
    _, ours, theirs = texts
    start, end = region.ours
    other_start, other_end = region.theirs
    while start < end and other_start < other_end and ours.keys[start] == theirs.keys[other_start]:
        start, other_start = start + 1, other_start + 1
    while start < end and other_start < other_end:
        if ours.keys[end - 1] != theirs.keys[other_end - 1]:
            break
        end, other_end = end - 1, other_end - 1
    before = ours.lines[region.ours[0] : start]
    behind = ours.lines[end : region.ours[1]]
    return before, ours.lines[start:end], theirs.lines[other_start:other_end], behind


def _describe(texts: Texts, region: Region, agreed: Span, first: int) -> MergeConflict:
    """Return a conflict of which `agreed` lines at start and end are the same on both sides."""
    base, ours, theirs = texts
    start, end = region.ours[0] + agreed[0], region.ours[1] - agreed[1]
    if end > start + 1:
        what = f"lines {first + start + 1}-{first + end}"
    else:
        what = f"line {first + end}" if end > start else f"behind line {first + start}"
    return MergeConflict(
        what,
        "".join(base.lines[slice(*region.base)]),
        "".join(ours.lines[start:end]),
        "".join(theirs.lines[region.theirs[0] + agreed[0] : region.theirs[1] - agreed[1]]),
    )
