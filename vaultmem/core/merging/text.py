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
    OTHER_TEXT,
    REMOVED_TEXT,
    Callout,
    PlacedCallout,
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


class MergedText(NamedTuple):
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


def merge_lines(base: str, ours: str, theirs: str, prose: int | None = None) -> MergedText:
    """Merge two sides' changes of `base`; in conflicts ours stays.

    Line ends are ignored, and each line keeps its own. From the base's line `prose` on, list items
    and sections that both sides added at one place are both kept; None: nowhere.
    """
    lines, clashes = _merge_regions(base, ours, theirs, 0, prose)
    return MergedText("".join(lines), tuple(conflict for conflict, _ in clashes))


def merge_words(base: str, ours: str, theirs: str, speaker: Speaker, first: int = 0) -> MergedText:
    """Merge three bodies; conflicts keep ours, followed by a callout.

    `speaker` is the author of theirs; `first` is the number of lines before `ours` in its file.
    """
    pairs = [extract_callouts(text) for text in (base, ours, theirs)]
    texts, groups = [text for text, _ in pairs], [group for _, group in pairs]
    lines, clashes = _merge_regions(texts[0], texts[1], texts[2], first, 0)
    clashes = [clash for clash in clashes if clash[0].ours.strip() or clash[0].theirs.strip()]
    text = "".join(lines)
    callouts = _filter_known(groups, texts, text) if any(groups) else []
    code = _find_code(text) if clashes or callouts else []
    callouts = [each._replace(place=_leave_code(each.place, code, len(lines))) for each in callouts]
    existing = {each.callout for each in callouts}
    fresh = (_make_callout(conflict, span, lines, code, speaker) for conflict, span in clashes)
    callouts += [each for each in fresh if each.callout not in existing]
    callouts.sort(key=lambda x: (x.place, x.callout.speaker.date, x.callout))
    return MergedText(insert_callouts(text, callouts), tuple(conflict for conflict, _ in clashes))


def resolve_callouts(body: str, choice: ConflictChoice, numbers: Collection[int] = ()) -> str:
    """Return a note's body without the callouts of these numbers (from 1; none: all).

    Ours stay, theirs replace them, or both stay.
    """
    text, placed = extract_callouts(body)
    lines, line_end = split_lines(text), find_line_end(body)
    rest: list[PlacedCallout] = []
    by_place: dict[int, list[PlacedCallout]] = {}
    for number, each in enumerate(placed, 1):
        if numbers and number not in numbers:
            rest.append(each)
        elif choice is not ConflictChoice.OURS:
            by_place.setdefault(each.place, []).append(each)
    for place in sorted(by_place, reverse=True):
        their_lines = [
            f"{line}{line_end}" for each in by_place[place] for line in each.callout.lines
        ]
        count = by_place[place][0].callout.our_line_count if choice is ConflictChoice.THEIRS else 0
        start = max(place - count, 0)
        lines[start:place] = their_lines
        growth = len(their_lines) - (place - start)
        new_places = [x.place if x.place <= start else max(x.place + growth, start) for x in rest]
        rest = [x._replace(place=new_place) for x, new_place in zip(rest, new_places, strict=True)]
    return insert_callouts(join_lines(lines, line_end), rest)


class RevertedText(NamedTuple):
    """A text without one change; `changed` lines of it stay because others changed them.

    `lost` are earlier lines that are not restored because others wrote in their place.
    """

    text: str
    changed: int
    lost: tuple[str, ...]


def revert_lines(before: str, after: str, now: str) -> RevertedText:
    """Return `now` without the change from `before` to `after`; other lines keep their bytes.

    Replaced or removed lines are restored if none of their replacements was changed since. Lines
    that others inserted between reverted ones stay.
    """
    old, present = split_lines(before), split_lines(now)
    keys = split_keys(after)
    matches = match_lines(keys, split_keys(now))
    places = {start + n: position + n for start, position, length in matches for n in range(length)}
    places[-1] = -1
    removals: set[int] = set()
    insertions: dict[int, list[str]] = {}
    changed, lost = 0, list[str]()
    for hunk in diff_lines(split_keys(before), keys):
        own = [places[n] for n in range(hunk.new_start, hunk.new_end) if n in places]
        removals.update(own)
        missing = hunk.new_end - hunk.new_start - len(own)
        changed += missing
        if hunk.new_start - 1 in places:
            position = places[hunk.new_start - 1] + 1
        else:
            position = places.get(hunk.new_end, -1)
        lines = old[hunk.start : hunk.end]
        position = own[0] if own else position
        if missing or position < 0:
            lost += lines
        elif own or lines not in (
            present[position : position + len(lines)],
            present[position - len(lines) : position],
        ):
            insertions[position] = lines
    new_lines = [
        line
        for number in range(len(present) + 1)
        for line in (
            *insertions.get(number, ()),
            *present[number : number + 1][number in removals :],
        )
    ]
    return RevertedText(join_lines(new_lines, find_line_end(now, before)), changed, tuple(lost))


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
    positions = (0, 0, 0)
    for region in _find_regions(keys[0], keys[1], keys[2]):
        our_hunk, their_hunk, _ = region
        merged += _merge_agreed(texts, positions, our_hunk.start)
        positions = (our_hunk.end, our_hunk.new_end, their_hunk.new_end)
        is_prose = prose is not None and our_hunk.start >= prose
        lines = _merge_region(texts, region, code if is_prose else None)
        if lines is None:
            lines = texts[1][our_hunk.new_start : our_hunk.new_end]
            their_lines = texts[2][their_hunk.new_start : their_hunk.new_end]
            head, tail = _count_agreed(lines, their_lines)
            label = _format_lines(
                first + our_hunk.new_start + head, first + our_hunk.new_end - tail
            )
            versions = ("".join(side[head : len(side) - tail]) for side in (lines, their_lines))
            span = len(merged) + head, len(merged) + len(lines) - tail
            clashes.append((Conflict("", label, *versions), span))
        merged += lines
    merged += _merge_agreed(texts, positions, len(texts[0]))
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
        our_hunk, their_hunk = (
            Hunk(start, end, begin, end + shift)
            for begin, shift in zip(begins, shifts, strict=True)
        )
        yield our_hunk, their_hunk, hunks[first:index]


def _merge_agreed(
    texts: Sequence[list[str]], positions: tuple[int, int, int], end: int
) -> list[str]:
    """Return lines on which all agree; a line end changed by one side is that side's."""
    length = end - positions[0]
    base, ours, theirs = (
        lines[start : start + length] for lines, start in zip(texts, positions, strict=True)
    )
    if base == ours:
        return theirs
    if base == theirs:
        return ours
    triples = zip(base, ours, theirs, strict=True)
    return [
        their_line if our_line == base_line else our_line
        for base_line, our_line, their_line in triples
    ]


def _merge_region(
    texts: Sequence[list[str]], region: _Region, code: Sequence[list[Span]] | None
) -> list[str] | None:
    """Return a region's merged lines, or None if both sides changed it differently.

    `code` is both sides' fenced code, in which no items are combined; None combines none
    anywhere.
    """
    our_hunk, their_hunk, changes = region
    base_lines = texts[0][our_hunk.start : our_hunk.end]
    our_lines = texts[1][our_hunk.new_start : our_hunk.new_end]
    their_lines = texts[2][their_hunk.new_start : their_hunk.new_end]
    lines = _choose_side(base_lines, our_lines, their_lines)
    if lines is not None or code is None:
        return lines
    places = zip((our_hunk.new_start, their_hunk.new_start), code, strict=True)
    if any(start < place < end for place, spans in places for start, end in spans):
        return None
    following = next(filter(str.strip, islice(texts[0], our_hunk.end, None)), None)
    if base_lines:
        return _join_changes(texts, changes, following)
    return _combine_insertions(our_lines, their_lines, following, any(map(str.strip, texts[0])))


def _choose_side(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """Return the side that alone changed lines, or that contains all the other inserted."""
    base_keys, our_keys, their_keys = (
        list(map(strip_end, lines)) for lines in (base, ours, theirs)
    )
    if our_keys == base_keys:
        return theirs
    if their_keys in (base_keys, our_keys):
        return ours
    if base:
        return None
    for part, whole, lines in ((our_keys, their_keys, theirs), (their_keys, our_keys, ours)):
        rest = iter(whole)
        if all(line in rest for line in part):
            return lines
    return None


def _count_agreed(ours: Sequence[str], theirs: Sequence[str]) -> tuple[int, int]:
    """Return how many lines at the start and end of a conflict are equal on both sides."""
    our_keys, their_keys = (list(map(strip_end, lines)) for lines in (ours, theirs))
    limit = min(len(our_keys), len(their_keys))
    head = tail = 0
    while head < limit and our_keys[head] == their_keys[head]:
        head += 1
    while tail < limit - head and our_keys[-1 - tail] == their_keys[-1 - tail]:
        tail += 1
    return head, tail


def _format_lines(start: int, end: int) -> str:
    if end > start + 1:
        return f"lines {start + 1}-{end}"
    return f"line {end}" if end > start else f"after line {start}"


def _find_code(text: str) -> list[Span]:
    """Return the lines of each fenced code; an unclosed one ends after the text."""
    spans = []
    for start, end in find_fences(text, 0):
        first = text.count("\n", 0, start)
        spans.append((first, first + len(split_lines(text[start:end]))))
    if spans and _leaves_fence_open(lines := split_lines(text)):
        spans[-1] = (spans[-1][0], len(lines) + 1)
    return spans


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
        follows_text = into_text or any(map(_HEADING.match, head))
        if _leaves_fence_open(head):
            continue
        combined = _combine(ours[cut:], theirs[cut:], following, follows_text)
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
    if any(next_hunk.start < hunk.end for (hunk, _), (next_hunk, _) in pairwise(changes)):
        return None
    depths: set[int] = set()
    counts: Counter[str] = Counter()
    joined: list[tuple[list[str], bool]] = []
    for hunk, is_theirs in changes:
        new_lines = texts[2 if is_theirs else 1][hunk.new_start : hunk.new_end]
        old_pieces, new_pieces = (
            _read_pieces(texts[0][hunk.start : hunk.end]),
            _read_pieces(new_lines),
        )
        if old_pieces is None or new_pieces is None or _leaves_fence_open(new_lines):
            return None
        if _has_text(old_pieces[2]) or _has_text(new_pieces[2]):
            return None
        depths |= {depth for items, depth, _ in (old_pieces, new_pieces) if items}
        items, _, rest = new_pieces
        counts.update(_item_key(item) for item in items if not is_theirs)
        joined += [(item, is_theirs) for item in (*items, rest)]
    if len(depths) != 1 or not _may_precede(following, min(depths)):
        return None
    return [
        line
        for item, is_theirs in joined
        if not (is_theirs and _is_known(item, counts))
        for line in item
    ]


def _count_shared(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return how many lines both start with; blank ones count if they follow a heading."""
    count = 0
    for our_line, their_line in zip(ours, theirs, strict=False):
        if strip_end(our_line) != strip_end(their_line):
            break
        count += 1
    filled = count
    while filled and not ours[filled - 1].strip():
        filled -= 1
    return count if filled and _HEADING.match(ours[filled - 1]) else filled


def _combine(
    ours: Sequence[str], theirs: Sequence[str], following: str | None, into_text: bool
) -> list[str] | None:
    our_pieces, their_pieces = _read_pieces(ours), _read_pieces(theirs)
    if (
        our_pieces is None
        or their_pieces is None
        or _leaves_fence_open(ours)
        or _leaves_fence_open(theirs)
    ):
        return None
    if _has_text(our_pieces[2]) or _has_text(their_pieces[2]):
        ends = following is None or _HEADING.match(following) is not None
        if not ends or not into_text:
            return None
    if not all(
        _may_precede(following, depth) for items, depth, _ in (our_pieces, their_pieces) if items
    ):
        return None
    # Deeper items belong to the text above, other items to the section before.
    first, second = (
        (our_pieces, their_pieces)
        if our_pieces[1] >= their_pieces[1]
        else (their_pieces, our_pieces)
    )
    counts = Counter(map(_item_key, first[0]))
    items = [*first[0], *(item for item in second[0] if not _is_known(item, counts))]
    rests = [our_pieces[2]]
    if _item_key(our_pieces[2]) != _item_key(their_pieces[2]):
        rests.append(their_pieces[2])
    return [line for piece in (*items, *rests) for line in piece]


def _has_text(lines: Iterable[str]) -> bool:
    return any(line.strip() for line in lines)


def _is_known(item: Sequence[str], counts: Counter[str]) -> bool:
    """Return whether the other side has the item too; each of its items matches once."""
    key = _item_key(item)
    if not key or not counts[key]:
        return False
    counts[key] -= 1
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
    groups: Sequence[tuple[PlacedCallout, ...]], texts: Sequence[str], merged: str
) -> list[PlacedCallout]:
    """Return the callouts that neither side removed, each once and at its place."""
    base, ours, theirs = ({each.callout for each in side} for side in groups)
    keys = split_keys(merged)
    callouts: dict[Callout, PlacedCallout] = {}
    for text, side, other in ((texts[1], groups[1], theirs), (texts[2], groups[2], ours)):
        places = _follow(split_keys(text), keys)
        for each in side:
            callout = each.callout
            is_resolved = callout in base and callout not in other
            if callout not in callouts and not is_resolved:
                callouts[callout] = each._replace(place=places[min(each.place, len(places) - 1)])
    return list(callouts.values())


def _follow(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """Return each place's index in another text: after the same line."""
    matches = {
        old_start + offset + 1: new_start + offset + 1
        for old_start, new_start, length in match_lines(old, new)
        for offset in range(length)
    }
    places = [0]
    for place in range(1, len(old) + 1):
        places.append(matches.get(place, places[-1]))
    return places


def _make_callout(
    conflict: Conflict,
    span: Span,
    lines: Sequence[str],
    code: Sequence[Span],
    speaker: Speaker,
) -> PlacedCallout:
    """Return a conflict as a callout after our lines, or after the code that contains them."""
    start, last = span
    end = _leave_code(last, code, len(lines))
    if end < last:  # Unclosed code: nothing can follow it.
        place = _leave_code(min(end, start), code, len(lines))
        return PlacedCallout(
            Callout(OTHER_TEXT, speaker, tuple(split_keys(conflict.theirs)), 0), place
        )
    if not conflict.theirs.strip():
        return PlacedCallout(Callout(REMOVED_TEXT, speaker, (), end - start), end)
    their_lines = split_keys(conflict.theirs + "".join(lines[last:end]))
    return PlacedCallout(Callout(OTHER_TEXT, speaker, tuple(their_lines), end - start), end)


def _leave_code(place: int, code: Iterable[Span], count: int) -> int:
    """Return the place after the code that contains a place, or before unclosed code."""
    for start, end in code:
        if start < place < end:
            return start if end > count else end
    return place
