"""Conflicts of words: ours stay where they are, theirs follow as a callout.

Callouts that stand in the texts already are taken out before these are merged, and put back: so
none comes to stand in another, and who merges in another order gets the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vaultmem.core.delta.lines import match_lines, split_keys, split_lines
from vaultmem.core.merging.items import leaves_fence_open
from vaultmem.core.merging.lines import Clash, MergedLines, merge_lines
from vaultmem.core.merging.merged import Merged, Sides
from vaultmem.core.notes.conflict import (
    LEFT_OUT,
    SAID,
    Callout,
    Placed,
    Speaker,
    put_in_callouts,
    take_out_callouts,
)
from vaultmem.core.notes.sections import find_fences


class _Code(NamedTuple):
    """The lines of fenced code, and the place next to it: behind, or before what never ends."""

    first: int
    end: int
    exit: int


def merge_words(base: str, ours: str, theirs: str, sides: Sides, first: int = 0) -> Merged:
    """Merge three bodies; what both changed differently stays as ours, with a callout behind it.

    `first` is how many lines stand before `ours` in its file.
    """
    taken = [take_out_callouts(text) for text in (base, ours, theirs)]
    bare, placed = [text for text, _ in taken], [found for _, found in taken]
    merged = merge_lines(bare[0], bare[1], bare[2], first, prose=0)
    clashes = [clash for clash in merged.clashes if _says_something(clash)]
    kept = _keep_known(placed, bare, merged) if any(placed) else []
    code = _find_code(merged.text) if clashes or kept else []
    kept = [each._replace(place=_leave_code(each.place, code)) for each in kept]
    fresh = [_make_callout(clash, merged.lines, code, sides.theirs) for clash in clashes]
    known = {each.callout for each in kept}
    kept += [each for each in fresh if each.callout not in known]
    text = put_in_callouts(merged.text, sorted(kept, key=_order))
    return Merged(text, tuple(clash.conflict for clash in clashes))


def _says_something(clash: Clash) -> bool:
    return bool(clash.conflict.ours.strip() or clash.conflict.theirs.strip())


def _order(placed: Placed) -> tuple[int, str, Callout]:
    return placed.place, placed.callout.speaker.date, placed.callout


def _keep_known(
    placed: Sequence[tuple[Placed, ...]], bare: Sequence[str], merged: MergedLines
) -> list[Placed]:
    """Return the callouts that neither side has removed, each once and where it stood."""
    base, ours, theirs = ({each.callout for each in side} for side in placed)
    keys = split_keys(merged.text)
    found: dict[Callout, Placed] = {}
    for text, side, other in ((bare[1], placed[1], theirs), (bare[2], placed[2], ours)):
        places = _follow(split_keys(text), keys)
        for each in side:
            callout = each.callout
            is_resolved = callout in base and callout not in other
            if callout not in found and not is_resolved:
                found[callout] = each._replace(place=places[min(each.place, len(places) - 1)])
    return list(found.values())


def _follow(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """Return for each place in a text which one it is in another: behind the same line."""
    same = {
        start + offset + 1: other + offset + 1
        for start, other, length in match_lines(old, new)
        for offset in range(length)
    }
    places = [0]
    for place in range(1, len(old) + 1):
        places.append(same.get(place, places[-1]))
    return places


def _make_callout(
    clash: Clash, lines: Sequence[str], code: Sequence[_Code], speaker: Speaker
) -> Placed:
    """Return a conflict as a callout behind our lines; not in code, but behind all of it."""
    end = _leave_code(clash.end, code)
    if end < clash.end:  # The code is never closed, so nothing can stand behind it.
        said = split_keys(clash.conflict.theirs)
        place = _leave_code(min(end, clash.start), code)
        return Placed(Callout(SAID, speaker, tuple(said), 0), place)
    count = end - clash.start
    said = split_keys(clash.conflict.theirs + "".join(lines[clash.end : end]))
    if not clash.conflict.theirs.strip():
        return Placed(Callout(LEFT_OUT, speaker, (), count), end)
    return Placed(Callout(SAID, speaker, tuple(said), count), end)


def _leave_code(place: int, code: Sequence[_Code]) -> int:
    return next((each.exit for each in code if each.first < place < each.end), place)


def _find_code(text: str) -> list[_Code]:
    """Return each fenced code of a text."""
    found = []
    for start, end in find_fences(text, 0):
        first = text.count("\n", 0, start)
        last = first + len(split_lines(text[start:end]))
        found.append(_Code(first, last, last))
    if found and leaves_fence_open(text.split("\n")):
        found[-1] = _Code(found[-1].first, found[-1].end + 1, found[-1].first)
    return found
