"""Settle conflicts that stand in a note as callouts: keep ours, put theirs in place, keep both."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from vaultmem.core.delta.lines import find_line_end, join_lines, split_lines
from vaultmem.core.notes.conflict import Placed, put_in_callouts, take_out_callouts


class Choice(StrEnum):
    """Whose words stay."""

    OURS = "ours"
    THEIRS = "theirs"
    BOTH = "both"


def settle_callouts(body: str, choice: Choice, numbers: Collection[int] = ()) -> str:
    """Return a note's body without the callouts of these numbers (from 1; none: all of them)."""
    bare, placed = take_out_callouts(body)
    lines, line_end = split_lines(bare), find_line_end(body)
    left: list[Placed] = []
    by_place: dict[int, list[Placed]] = {}
    for number, each in enumerate(placed, 1):
        if numbers and number not in numbers:
            left.append(each)
        elif choice is not Choice.OURS:
            by_place.setdefault(each.place, []).append(each)
    for place in sorted(by_place, reverse=True):
        said = _list_words(by_place[place], line_end)
        count = by_place[place][0].callout.about if choice is Choice.THEIRS else 0
        start = max(place - count, 0)
        lines[start:place] = said
        grown = len(said) - (place - start)
        moved = [x.place if x.place <= start else max(x.place + grown, start) for x in left]
        left = [x._replace(place=to) for x, to in zip(left, moved, strict=True)]
    return put_in_callouts(join_lines(lines, line_end), left)


def _list_words(placed: Sequence[Placed], line_end: str) -> list[str]:
    return [f"{line}{line_end}" for each in placed for line in each.callout.lines]
