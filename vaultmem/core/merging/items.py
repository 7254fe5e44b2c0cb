"""Statements of their own: list items and sections, which two sides may add side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vaultmem.core.delta.lines import strip_end
from vaultmem.core.notes.sections import find_fences

_ITEM = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|$)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")


class _Pieces(NamedTuple):
    """Lines as whole list items of one depth (columns; -1 without items), then whole sections."""

    items: tuple[tuple[str, ...], ...]
    depth: int
    rest: tuple[str, ...]

    @property
    def has_section(self) -> bool:
        return any(strip_end(line).strip() for line in self.rest)


def combine_insertions(
    ours: Sequence[str], theirs: Sequence[str], following: str | None, into_text: bool
) -> list[str] | None:
    """Return what both sides inserted at one place, ours first; None if that may not be done.

    Both have to be whole list items, or sections, or items with sections behind them. Identical
    items stand once. `following` is the next line with text, None at the end; `into_text` tells
    whether the note had any text, for of two whole texts neither is a section of the other.
    """
    shared = _count_shared(ours, theirs)
    for cut in sorted({shared, 0}, reverse=True):
        head = list(ours[:cut])
        known = into_text or any(map(_HEADING.match, head))
        if leaves_fence_open(head):
            continue
        combined = _combine(ours[cut:], theirs[cut:], following, known)
        if combined is not None:
            return head + combined
    return None


def join_items(
    hunks: Iterable[tuple[Sequence[str], Sequence[str], bool]], following: str | None
) -> list[str] | None:
    """Return the new lines of changes that stand one behind the other, each by one side.

    A change is (old lines, new lines, whether it is theirs). None if one of them is anything but
    whole list items: two changes that touch may then be about the same statement.
    """
    depths: set[int] = set()
    known: Counter[str] = Counter()
    joined: list[tuple[tuple[str, ...], bool]] = []
    for old, new, is_theirs in hunks:
        before, after = _read_pieces(old), _read_pieces(new)
        if before is None or after is None or before.has_section or after.has_section:
            return None
        if leaves_fence_open(new):
            return None
        depths |= {pieces.depth for pieces in (before, after) if pieces.items}
        known.update(_item_key(item) for item in after.items if not is_theirs)
        joined += [(item, is_theirs) for item in (*after.items, after.rest)]
    if len(depths) != 1 or not _may_precede(following, min(depths)):
        return None
    return [
        line for item, is_theirs in joined if not _is_known(item, known, is_theirs) for line in item
    ]


def leaves_fence_open(lines: Sequence[str]) -> bool:
    """Tell whether a code fence is opened and not closed in these lines."""
    text = "\n".join(map(strip_end, lines)) + "\n.\n"
    spans = find_fences(text, 0)
    return bool(spans) and spans[-1][1] == len(text)


def _count_shared(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return how many lines both start with; blank ones count if they follow a heading."""
    count = 0
    for mine, other in zip(ours, theirs, strict=False):
        if strip_end(mine) != strip_end(other):
            break
        count += 1
    filled = count
    while filled and not ours[filled - 1].strip():
        filled -= 1
    return count if filled and _HEADING.match(ours[filled - 1]) else filled


def _combine(
    ours: Sequence[str], theirs: Sequence[str], following: str | None, into_text: bool
) -> list[str] | None:
    sides = [_read_pieces(ours), _read_pieces(theirs)]
    found = [side for side in sides if side is not None]
    if len(found) < 2 or leaves_fence_open(ours) or leaves_fence_open(theirs):
        return None
    if any(side.has_section for side in found):
        ends = following is None or _HEADING.match(following) is not None
        if not ends or not into_text:
            return None
    if not all(_may_precede(following, side.depth) for side in found if side.items):
        return None
    # Deeper items belong to what stands above, items to the section that the others end.
    first, second = sorted(found, key=lambda side: -side.depth)
    known = Counter(map(_item_key, first.items))
    items = [*first.items, *(item for item in second.items if not _is_known(item, known))]
    rests = [found[0].rest]
    if _item_key(found[0].rest) != _item_key(found[1].rest):
        rests.append(found[1].rest)
    return [line for piece in (*items, *rests) for line in piece]


def _is_known(item: Sequence[str], known: Counter[str], is_theirs: bool = True) -> bool:
    """Tell whether the other side has the item too; each of its items answers once."""
    key = _item_key(item)
    if not is_theirs or not key or not known[key]:
        return False
    known[key] -= 1
    return True


def _item_key(item: Sequence[str]) -> str:
    """Return an item's text for comparison, blank lines around it aside."""
    return "\n".join(map(strip_end, item)).strip("\n")


def _may_precede(following: str | None, depth: int) -> bool:
    """Tell whether the next line is no continuation of an item that would stand before it."""
    return following is None or _measure_indent(following) <= depth


def _measure_indent(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip(" "))


def _read_pieces(lines: Sequence[str]) -> _Pieces | None:
    """Divide lines into whole items and sections; None if they are anything else."""
    items: list[list[str]] = []
    lead: list[str] = []
    depth = -1
    for number, line in enumerate(lines):
        if not line.strip():
            (items[-1] if items else lead).append(line)
        elif _HEADING.match(line):
            while items and not items[-1][-1].strip():
                lead.insert(0, items[-1].pop())
            return _Pieces(tuple(map(tuple, items)), depth, (*lead, *lines[number:]))
        elif _ITEM.match(line) and depth in {-1, _measure_indent(line)}:
            items.append([*lead, line])
            lead, depth = [], _measure_indent(line)
        elif items and _measure_indent(line) > depth:
            items[-1].append(line)
        else:
            return None
    return _Pieces(tuple(map(tuple, items)), depth, tuple(lead))
