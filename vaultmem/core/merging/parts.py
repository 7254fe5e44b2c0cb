"""Merge three versions of something made of named parts, which may have lines between them.

A frontmatter block is properties with comments between them; a list is items with comments
between them. Parts are found by their name, lines that belong to no part by their text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vaultmem.core.delta.lines import match_lines, strip_end
from vaultmem.core.merging.merged import Loss

_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\r\n]*", re.MULTILINE)


class BlockPart(NamedTuple):
    """The whole lines of a part; without a name, one line that belongs to none."""

    name: str
    text: str

    @property
    def key(self) -> str:
        """What the part is found by in another version."""
        return f"+{self.name}" if self.name else f"-{strip_end(self.text)}"


class Settled(NamedTuple):
    """What became of a part: its lines, what reading them must give (None: no such part).

    `loss` is what one side said that could not stay.
    """

    name: str
    text: str
    value: str | tuple[str, ...] | None = None
    loss: Loss | None = None


#: Decides about a part: its name, and its lines in base, ours and theirs (None: not there).
Settle = Callable[[str, str | None, str | None, str | None], Settled]


def merge_parts(
    base: Sequence[BlockPart],
    ours: Sequence[BlockPart],
    theirs: Sequence[BlockPart],
    settle: Settle,
    append: bool = False,
) -> list[Settled]:
    """Return the merged parts in our order; what they added comes after what it followed.

    With `append`, parts that they added come last, each behind the comments right above it.
    """
    our_base, their_base = _pair(base, ours), _pair(base, theirs)
    twins = _find_twins(ours, theirs, our_base, their_base)
    placed: dict[int, list[Settled]] = {}
    last: list[Settled] = []
    waiting: list[Settled] = []
    shared = set(our_base) | set(twins.values())
    anchor = _skip_own(-1, len(ours), shared)
    for place, part in enumerate(theirs):
        if place in twins:
            placed.setdefault(anchor, []).extend(waiting)
            waiting = []
            anchor = _skip_own(twins[place], len(ours), shared)
            continue
        before = base[their_base[place]].text if place in their_base else None
        waiting.append(_settle_part(settle, part.name, before, None, part.text))
        if part.name and append:
            last, waiting = last + waiting, []
    placed.setdefault(anchor, []).extend(waiting)
    merged = list(placed.get(-1, []))
    other = {mine: place for place, mine in twins.items()}
    for place, part in enumerate(ours):
        before = base[our_base[place]].text if place in our_base else None
        behind = theirs[other[place]].text if place in other else None
        merged.append(_settle_part(settle, part.name, before, part.text, behind))
        merged += placed.get(place, [])
    return merged + last


def changed_by(base: str | None, ours: str | None, theirs: str | None) -> str:
    """Return "ours" or "theirs", whose version is to be taken, or "both".

    Line ends are not compared, but a side that changed nothing else is the one to take.
    """
    old, mine, other = (
        None if x is None else x.replace("\r\n", "\n") for x in (base, ours, theirs)
    )
    if mine == other:
        return "theirs" if ours == base else "ours"
    if other == old:
        return "ours"
    return "theirs" if mine == old else "both"


def keeps_comments(text: str, base: str | None, ours: str | None, theirs: str | None) -> bool:
    """Tell whether a merged part has every comment that neither side removed."""
    old, mine, other, kept = (set(_find_comments(x or "")) for x in (base, ours, theirs, text))
    removed = (old - mine) | (old - other)
    return (mine | other) - removed <= kept


def _find_comments(text: str) -> list[str]:
    """Return what may be a comment; `#` inside quotes is taken for one, to be on the safe side."""
    return [found.rstrip() for found in _COMMENT.findall(text)]


def _settle_part(
    settle: Settle, name: str, base: str | None, ours: str | None, theirs: str | None
) -> Settled:
    if name:
        return settle(name, base, ours, theirs)
    if base is not None and (ours is None or theirs is None):
        return Settled("", "")  # A line that one side removed.
    text = (theirs if changed_by(base, ours, theirs) == "theirs" and theirs else ours) or theirs
    return Settled("", text or "")


def _pair(base: Sequence[BlockPart], side: Sequence[BlockPart]) -> dict[int, int]:
    """Return which part of base each part of a side is."""
    named = {part.name: place for place, part in enumerate(base) if part.name}
    pairs = {place: named[part.name] for place, part in enumerate(side) if part.name in named}
    for start, other, length in match_lines([x.key for x in base], [x.key for x in side]):
        for offset in range(length):
            if not base[start + offset].name:
                pairs[other + offset] = start + offset
    return pairs


def _find_twins(
    ours: Sequence[BlockPart],
    theirs: Sequence[BlockPart],
    our_base: dict[int, int],
    their_base: dict[int, int],
) -> dict[int, int]:
    """Return for parts of theirs which part of ours is the same one."""
    by_base = {old: place for place, old in our_base.items()}
    added: dict[str, list[int]] = {}
    for place in range(len(ours) - 1, -1, -1):
        if place not in our_base:
            added.setdefault(ours[place].key, []).append(place)
    twins: dict[int, int] = {}
    for place, part in enumerate(theirs):
        if place in their_base:
            if their_base[place] in by_base:
                twins[place] = by_base[their_base[place]]
        elif added.get(part.key):
            twins[place] = added[part.key].pop()
    return twins


def _skip_own(place: int, length: int, shared: set[int]) -> int:
    """Return the last of the parts that only we have, right behind `place`."""
    while place + 1 < length and place + 1 not in shared:
        place += 1
    return place
