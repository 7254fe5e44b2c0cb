"""Merge three versions of a text line by line (diff3).

Lines that one side changed are that side's. For lines that both changed, ours stay, and in a note's
body theirs follow as a callout. Existing callouts are removed before the merge and put back. So
none is nested in another, and the order of merges does not matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice, pairwise
from typing import NamedTuple

from vaultmem.core.notes.conflict import (
    LEFT_OUT,
    SAID,
    Callout,
    Placed,
    Speaker,
    extract_callouts,
    insert_callouts,
)
from vaultmem.core.notes.sections import find_fences
from vaultmem.core.text.line_diff import (
    Hunk,
    diff_lines,
    find_line_end,
    join_lines,
    match_lines,
    split_keys,
    split_lines,
    strip_end,
)

_ITEM = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|$)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")

#: Numbers of lines from 0, the end exclusive.
Span = tuple[int, int]

#: Our and their lines in place of the same lines of base, and the single changes in them, each with
#: whether it is theirs.
_Region = tuple[Hunk, Hunk, list[tuple[Hunk, bool]]]


class Conflict(NamedTuple):
    """Different changes by both sides: of a property, of lines, or of the whole file.

    For lines, `what` names ours: `lines 12-14`, `line 12`, or `after line 12` if ours has none. The
    texts are each side's, empty for none. `our_author` and `their_author` wrote them; for a removed
    text, they made that side's last change of the note.
    """

    path: str
    what: str
    ours: str
    theirs: str
    our_author: str = ""
    their_author: str = ""


class DiscardedValue(NamedTuple):
    """A value of one side that the merge lacks: `property "confidence"`, and the value."""

    path: str
    what: str
    value: str


class Merged(NamedTuple):
    """A merged text: in conflicts it has ours; `losses` are discarded values.

    `is_twin`: both sides were new notes that state the same.
    """

    text: str
    conflicts: tuple[Conflict, ...] = ()
    losses: tuple[DiscardedValue, ...] = ()
    is_twin: bool = False


class ConflictChoice(StrEnum):
    """The side whose text stays when a conflict is resolved."""

    OURS = "ours"
    THEIRS = "theirs"
    BOTH = "both"


def merge_lines(base: str, ours: str, theirs: str, prose: int | None = None) -> Merged:
    """Merge two sides' changes of `base`; in conflicts ours stays.

    Line ends are ignored, and each line keeps its own. From the base's line `prose` on, list items
    and sections that both sides added at one place are both kept; None: nowhere.
    """
    lines, clashes = _merge_regions(base, ours, theirs, 0, prose)
    return Merged("".join(lines), tuple(conflict for conflict, _ in clashes))


def merge_words(base: str, ours: str, theirs: str, speaker: Speaker, first: int = 0) -> Merged:
    """Merge three bodies; conflicts keep ours, followed by a callout.

    `speaker` is the author of theirs; `first` is the number of lines before `ours` in its file.
    """
    taken = [extract_callouts(text) for text in (base, ours, theirs)]
    bare, placed = [text for text, _ in taken], [found for _, found in taken]
    lines, clashes = _merge_regions(bare[0], bare[1], bare[2], first, 0)
    clashes = [clash for clash in clashes if clash[0].ours.strip() or clash[0].theirs.strip()]
    text = "".join(lines)
    kept = _filter_known(placed, bare, text) if any(placed) else []
    code = _find_code(text) if clashes or kept else []
    kept = [each._replace(place=_leave_code(each.place, code, len(lines))) for each in kept]
    known = {each.callout for each in kept}
    fresh = (_make_callout(conflict, span, lines, code, speaker) for conflict, span in clashes)
    kept += [each for each in fresh if each.callout not in known]
    kept.sort(key=lambda x: (x.place, x.callout.speaker.date, x.callout))
    return Merged(insert_callouts(text, kept), tuple(conflict for conflict, _ in clashes))


def resolve_callouts(body: str, choice: ConflictChoice, numbers: Collection[int] = ()) -> str:
    """Return a note's body without the callouts of these numbers (from 1; none: all).

    Ours stay, theirs replace them, or both stay.
    """
    bare, placed = extract_callouts(body)
    lines, line_end = split_lines(bare), find_line_end(body)
    left: list[Placed] = []
    by_place: dict[int, list[Placed]] = {}
    for number, each in enumerate(placed, 1):
        if numbers and number not in numbers:
            left.append(each)
        elif choice is not ConflictChoice.OURS:
            by_place.setdefault(each.place, []).append(each)
    for place in sorted(by_place, reverse=True):
        said = [f"{line}{line_end}" for each in by_place[place] for line in each.callout.lines]
        count = by_place[place][0].callout.about if choice is ConflictChoice.THEIRS else 0
        start = max(place - count, 0)
        lines[start:place] = said
        grown = len(said) - (place - start)
        moved = [x.place if x.place <= start else max(x.place + grown, start) for x in left]
        left = [x._replace(place=to) for x, to in zip(left, moved, strict=True)]
    return insert_callouts(join_lines(lines, line_end), left)


class Reverted(NamedTuple):
    """A text without one change; `changed` lines of it stay because others changed them.

    `lost` are earlier lines that are not restored because others wrote in their place.
    """

    text: str
    changed: int
    lost: tuple[str, ...]


def revert_lines(before: str, after: str, now: str) -> Reverted:
    """Return `now` without the change from `before` to `after`; other lines keep their bytes.

    Replaced or removed lines are restored if none of their replacements was changed since. Lines
    that others inserted between reverted ones stay.
    """
    old, present = split_lines(before), split_lines(now)
    keys = split_keys(after)
    found = match_lines(keys, split_keys(now))
    place = {start + n: at + n for start, at, length in found for n in range(length)}
    place[-1] = -1
    gone: set[int] = set()
    back: dict[int, list[str]] = {}
    changed, lost = 0, list[str]()
    for hunk in diff_lines(split_keys(before), keys):
        own = [place[n] for n in range(hunk.new_start, hunk.new_end) if n in place]
        gone.update(own)
        missing = hunk.new_end - hunk.new_start - len(own)
        changed += missing
        if hunk.new_start - 1 in place:
            at = place[hunk.new_start - 1] + 1
        else:
            at = place.get(hunk.new_end, -1)
        lines = old[hunk.start : hunk.end]
        at = own[0] if own else at
        if missing or at < 0:
            lost += lines
        elif own or lines not in (present[at : at + len(lines)], present[at - len(lines) : at]):
            back[at] = lines
    left = [
        line
        for number in range(len(present) + 1)
        for line in (*back.get(number, ()), *present[number : number + 1][number in gone :])
    ]
    return Reverted(join_lines(left, find_line_end(now, before)), changed, tuple(lost))


# ---- lines


def _merge_regions(
    base: str, ours: str, theirs: str, first: int, prose: int | None
) -> tuple[list[str], list[tuple[Conflict, Span]]]:
    """Return the merged lines, and each conflict with the range of our lines in it.

    `first` is the number of lines before `ours` in its file, for conflict names.
    """
    texts = [split_lines(text) for text in (base, ours, theirs)]
    keys = [split_keys(text) for text in (base, ours, theirs)]
    code = [_find_code(text) for text in (ours, theirs)] if prose is not None else []
    merged: list[str] = []
    clashes: list[tuple[Conflict, Span]] = []
    at = (0, 0, 0)
    for region in _find_regions(keys[0], keys[1], keys[2]):
        mine, other, _ = region
        merged += _merge_agreed(texts, at, mine.start)
        at = (mine.end, mine.new_end, other.new_end)
        is_prose = prose is not None and mine.start >= prose
        lines = _merge_region(texts, region, code if is_prose else None)
        if lines is None:
            lines = texts[1][mine.new_start : mine.new_end]
            their = texts[2][other.new_start : other.new_end]
            head, tail = _count_agreed(lines, their)
            what = _format_lines(first + mine.new_start + head, first + mine.new_end - tail)
            clash = ("".join(side[head : len(side) - tail]) for side in (lines, their))
            span = len(merged) + head, len(merged) + len(lines) - tail
            clashes.append((Conflict("", what, *clash), span))
        merged += lines
    merged += _merge_agreed(texts, at, len(texts[0]))
    line_end = find_line_end(ours, base, theirs)
    return split_lines(join_lines(merged, line_end)), clashes


def _find_regions(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]
) -> Iterator[_Region]:
    """Yield the regions where three texts do not all agree, in order.

    Adjacent changes are one region, so all three texts agree between two regions.
    """
    hunks = [(hunk, False) for hunk in diff_lines(base, ours)]
    hunks += [(hunk, True) for hunk in diff_lines(base, theirs)]
    hunks.sort(key=lambda item: (item[0].start, item[0].end))
    shifts = [0, 0]
    index = 0
    while index < len(hunks):
        start, end = hunks[index][0].start, hunks[index][0].end
        first = index
        begins = [start + shift for shift in shifts]
        while index < len(hunks) and hunks[index][0].start <= end:
            hunk, is_theirs = hunks[index]
            end = max(end, hunk.end)
            shifts[is_theirs] += hunk.new_end - hunk.new_start - (hunk.end - hunk.start)
            index += 1
        mine, other = (
            Hunk(start, end, begin, end + shift)
            for begin, shift in zip(begins, shifts, strict=True)
        )
        yield mine, other, hunks[first:index]


def _merge_agreed(texts: Sequence[list[str]], at: tuple[int, int, int], end: int) -> list[str]:
    """Return lines on which all agree; a line end changed by one side is that side's."""
    length = end - at[0]
    base, ours, theirs = (
        lines[start : start + length] for lines, start in zip(texts, at, strict=True)
    )
    if base == ours:
        return theirs
    if base == theirs:
        return ours
    triples = zip(base, ours, theirs, strict=True)
    return [other if mine == old else mine for old, mine, other in triples]


def _merge_region(
    texts: Sequence[list[str]], region: _Region, code: Sequence[list[Span]] | None
) -> list[str] | None:
    """Return a region's merged lines, or None if both sides changed it differently.

    `code` is both sides' fenced code, in which no items are combined; None combines none
    anywhere.
    """
    mine, other, changes = region
    old = texts[0][mine.start : mine.end]
    own = texts[1][mine.new_start : mine.new_end]
    their = texts[2][other.new_start : other.new_end]
    lines = _choose_side(old, own, their)
    if lines is not None or code is None:
        return lines
    places = zip((mine.new_start, other.new_start), code, strict=True)
    if any(start < place < end for place, found in places for start, end in found):
        return None
    following = next(filter(str.strip, islice(texts[0], mine.end, None)), None)
    if old:
        return _join_changes(texts, changes, following)
    return _combine_insertions(own, their, following, any(map(str.strip, texts[0])))


def _choose_side(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """Return the side that alone changed lines, or that contains all the other inserted."""
    old, mine, other = (list(map(strip_end, lines)) for lines in (base, ours, theirs))
    if mine == old:
        return theirs
    if other in (old, mine):
        return ours
    if base:
        return None
    for held, held_by, lines in ((mine, other, theirs), (other, mine, ours)):
        rest = iter(held_by)
        if all(line in rest for line in held):
            return lines
    return None


def _count_agreed(ours: Sequence[str], theirs: Sequence[str]) -> tuple[int, int]:
    """Return how many lines at the start and end of a conflict are equal on both sides."""
    mine, other = (list(map(strip_end, lines)) for lines in (ours, theirs))
    most = min(len(mine), len(other))
    head = tail = 0
    while head < most and mine[head] == other[head]:
        head += 1
    while tail < most - head and mine[-1 - tail] == other[-1 - tail]:
        tail += 1
    return head, tail


def _format_lines(start: int, end: int) -> str:
    if end > start + 1:
        return f"lines {start + 1}-{end}"
    return f"line {end}" if end > start else f"after line {start}"


def _find_code(text: str) -> list[Span]:
    """Return the lines of each fenced code; an unclosed one ends after the text."""
    found = []
    for start, end in find_fences(text, 0):
        first = text.count("\n", 0, start)
        found.append((first, first + len(split_lines(text[start:end]))))
    if found and _leaves_fence_open(lines := split_lines(text)):
        found[-1] = (found[-1][0], len(lines) + 1)
    return found


def _leaves_fence_open(lines: Sequence[str]) -> bool:
    """Return whether these lines leave a code fence open."""
    text = "\n".join(map(strip_end, lines)) + "\n.\n"
    spans = find_fences(text, 0)
    return bool(spans) and spans[-1][1] == len(text)


# ---- list items and sections, which two sides can add next to each other

#: Whole list items of one depth (columns; -1 without items), then whole sections.
_Pieces = tuple[list[list[str]], int, list[str]]


def _combine_insertions(
    ours: Sequence[str], theirs: Sequence[str], following: str | None, into_text: bool
) -> list[str] | None:
    """Return both sides' insertions at one place, ours first; None if not combinable.

    Both must be whole list items, or sections, or items and then sections. Equal items are kept
    once. `following` is the next line with text, None at the end. `into_text` is whether the note
    had any text: of two whole texts, neither is a section of the other.
    """
    shared = _count_shared(ours, theirs)
    for cut in sorted({shared, 0}, reverse=True):
        head = list(ours[:cut])
        known = into_text or any(map(_HEADING.match, head))
        if _leaves_fence_open(head):
            continue
        combined = _combine(ours[cut:], theirs[cut:], following, known)
        if combined is not None:
            return head + combined
    return None


def _join_changes(
    texts: Sequence[list[str]],
    changes: Sequence[tuple[Hunk, bool]],
    following: str | None,
) -> list[str] | None:
    """Return the new lines of successive changes, each by one side.

    None if both sides changed a line, or if a change is not only whole list items: adjacent changes
    can then be about the same statement.
    """
    if any(after.start < hunk.end for (hunk, _), (after, _) in pairwise(changes)):
        return None
    depths: set[int] = set()
    known: Counter[str] = Counter()
    joined: list[tuple[list[str], bool]] = []
    for hunk, is_theirs in changes:
        new = texts[2 if is_theirs else 1][hunk.new_start : hunk.new_end]
        before, after = _read_pieces(texts[0][hunk.start : hunk.end]), _read_pieces(new)
        if before is None or after is None or _leaves_fence_open(new):
            return None
        if _has_text(before[2]) or _has_text(after[2]):
            return None
        depths |= {depth for items, depth, _ in (before, after) if items}
        items, _, rest = after
        known.update(_item_key(item) for item in items if not is_theirs)
        joined += [(item, is_theirs) for item in (*items, rest)]
    if len(depths) != 1 or not _may_precede(following, min(depths)):
        return None
    return [
        line
        for item, is_theirs in joined
        if not (is_theirs and _is_known(item, known))
        for line in item
    ]


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
    mine, other = _read_pieces(ours), _read_pieces(theirs)
    if mine is None or other is None or _leaves_fence_open(ours) or _leaves_fence_open(theirs):
        return None
    if _has_text(mine[2]) or _has_text(other[2]):
        ends = following is None or _HEADING.match(following) is not None
        if not ends or not into_text:
            return None
    if not all(_may_precede(following, depth) for items, depth, _ in (mine, other) if items):
        return None
    # Deeper items belong to the text above, other items to the section before.
    first, second = (mine, other) if mine[1] >= other[1] else (other, mine)
    known = Counter(map(_item_key, first[0]))
    items = [*first[0], *(item for item in second[0] if not _is_known(item, known))]
    rests = [mine[2]]
    if _item_key(mine[2]) != _item_key(other[2]):
        rests.append(other[2])
    return [line for piece in (*items, *rests) for line in piece]


def _has_text(lines: Iterable[str]) -> bool:
    return any(line.strip() for line in lines)


def _is_known(item: Sequence[str], known: Counter[str]) -> bool:
    """Return whether the other side has the item too; each of its items matches once."""
    key = _item_key(item)
    if not key or not known[key]:
        return False
    known[key] -= 1
    return True


def _item_key(item: Sequence[str]) -> str:
    """Return an item's text for comparison, without surrounding blank lines."""
    return "\n".join(map(strip_end, item)).strip("\n")


def _may_precede(following: str | None, depth: int) -> bool:
    """Return whether the next line does not continue an item that is put before it."""
    return following is None or _measure_indent(following) <= depth


def _measure_indent(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip(" "))


def _read_pieces(lines: Sequence[str]) -> _Pieces | None:
    """Split lines into whole items and sections; None for anything else."""
    items: list[list[str]] = []
    lead: list[str] = []
    depth = -1
    for number, line in enumerate(lines):
        if not line.strip():
            (items[-1] if items else lead).append(line)
        elif _HEADING.match(line):
            while items and not items[-1][-1].strip():
                lead.insert(0, items[-1].pop())
            return items, depth, [*lead, *lines[number:]]
        elif _ITEM.match(line) and depth in {-1, _measure_indent(line)}:
            items.append([*lead, line])
            lead, depth = [], _measure_indent(line)
        elif items and _measure_indent(line) > depth:
            items[-1].append(line)
        else:
            return None
    return items, depth, lead


# ---- callouts


def _filter_known(
    placed: Sequence[tuple[Placed, ...]], bare: Sequence[str], merged: str
) -> list[Placed]:
    """Return the callouts that neither side removed, each once and at its place."""
    base, ours, theirs = ({each.callout for each in side} for side in placed)
    keys = split_keys(merged)
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
    """Return each place's index in another text: after the same line."""
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
    conflict: Conflict,
    span: Span,
    lines: Sequence[str],
    code: Sequence[Span],
    speaker: Speaker,
) -> Placed:
    """Return a conflict as a callout after our lines, or after the code that contains them."""
    start, last = span
    end = _leave_code(last, code, len(lines))
    if end < last:  # Unclosed code: nothing can follow it.
        place = _leave_code(min(end, start), code, len(lines))
        return Placed(Callout(SAID, speaker, tuple(split_keys(conflict.theirs)), 0), place)
    if not conflict.theirs.strip():
        return Placed(Callout(LEFT_OUT, speaker, (), end - start), end)
    said = split_keys(conflict.theirs + "".join(lines[last:end]))
    return Placed(Callout(SAID, speaker, tuple(said), end - start), end)


def _leave_code(place: int, code: Iterable[Span], count: int) -> int:
    """Return the place after the code that contains a place, or before unclosed code."""
    for start, end in code:
        if start < place < end:
            return start if end > count else end
    return place
