"""Merge three versions of a frontmatter block by property, and lists by item.

A block is properties with comments between them, a list is items with comments between them. These
parts are matched by name, other lines by text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from vaultmem.core.lifecycle import OWNER_KINDS, rank_state
from vaultmem.core.merging.text import DiscardedValue
from vaultmem.core.notes.edit_properties import format_value, set_property
from vaultmem.core.notes.frontmatter import Frontmatter, read_frontmatter, read_timestamp
from vaultmem.core.notes.note import LISTS
from vaultmem.core.notes.properties import Property
from vaultmem.core.text.line_diff import find_line_end, match_lines, strip_end
from vaultmem.errors import RefusedError

_TRUE = frozenset(["true", "yes", "on"])

#: A note's origin: of two duplicates the first one's counts, including its gaps.
_ORIGIN = frozenset(["created", "agent", "session", "source", "tool_call"])

#: Properties that are lists even if written as `tags: one, two`.
_LISTS = LISTS | {"tag", "alias"}

_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\r\n]*", re.MULTILINE)
_QUOTED = re.compile(r"(?<![^\[,\s])(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*')")
_FENCE = "---\n"


class PropertyLines(NamedTuple):
    """The whole lines of a property or an item; without a name, one other line.

    `prop` is the property that the lines must parse to, None for another part. In a merged part,
    `loss` is a discarded value of one side.
    """

    name: str
    text: str
    prop: Property | None = None
    loss: DiscardedValue | None = None

    @property
    def key(self) -> str:
        """The key that matches the part in another version."""
        return f"+{self.name}" if self.name else f"-{strip_end(self.text)}"


#: Merges a part: its name, and its versions in base, ours and theirs (None: missing).
Settle = Callable[
    [str, PropertyLines | None, PropertyLines | None, PropertyLines | None], PropertyLines
]


def split_block(text: str, frontmatter: Frontmatter) -> list[PropertyLines] | None:
    """Return a note's properties and the lines between them; None if two share a line."""
    lines = text[frontmatter.start : frontmatter.end].splitlines(keepends=True)
    parts: list[PropertyLines] = []
    position = 0
    for prop in sorted(frontmatter.properties, key=lambda prop: prop.first):
        if prop.first < position or not prop.name:
            return None
        parts += (PropertyLines("", line) for line in lines[position : prop.first])
        parts.append(PropertyLines(prop.name, "".join(lines[prop.first : prop.last]), prop))
        position = prop.last
    return [*parts, *(PropertyLines("", line) for line in lines[position:])]


def merge_blocks(
    base: Sequence[PropertyLines],
    ours: Sequence[PropertyLines],
    theirs: Sequence[PropertyLines],
    later: str,
    first: str = "",
) -> list[PropertyLines]:
    """Merge three blocks.

    If both changed a value, the one of the side `later` counts, if known. Without a base, `first`
    is the side of the note that was made first.
    """
    sides = [{part.name: part for part in side if part.name} for side in (ours, theirs)]
    return _merge_parts(base, ours, theirs, partial(_resolve, sides, later, first))


# ---- one property


def _resolve(
    sides: Sequence[dict[str, PropertyLines]],
    later: str,
    first: str,
    name: str,
    base: PropertyLines | None,
    ours: PropertyLines | None,
    theirs: PropertyLines | None,
) -> PropertyLines:
    """Return one merged property."""
    removal = PropertyLines(name, "")
    if name in _ORIGIN and first:
        return (ours if first == "ours" else theirs) or removal
    texts = _read_text(base), _read_text(ours), _read_text(theirs)
    side = _changed_by(*texts)
    if side == "both":
        side = _find_equal(base, ours, theirs)
    if side != "both":
        return (ours if side == "ours" else theirs) or removal
    if (merged := _merge_list(name, *texts)) is not None:
        return merged
    winner, loser = ours, theirs
    if _choose_side(name, sides, later) == "theirs":
        winner, loser = theirs, ours
    return (winner or removal)._replace(loss=_describe_loss(name, base, winner, loser))


def _read_text(part: PropertyLines | None) -> str | None:
    return None if part is None else part.text


def _changed_by(base: str | None, ours: str | None, theirs: str | None) -> str:
    """Return the side whose version to use, "ours" or "theirs", or "both".

    Line ends are ignored, but a side that changed only line ends is used.
    """
    base_text, our_text, their_text = (
        None if x is None else x.replace("\r\n", "\n") for x in (base, ours, theirs)
    )
    if our_text == their_text:
        return "theirs" if ours == base else "ours"
    if their_text == base_text:
        return "ours"
    return "theirs" if our_text == base_text else "both"


def _find_equal(
    base: PropertyLines | None, ours: PropertyLines | None, theirs: PropertyLines | None
) -> str:
    """Return the side whose lines to use for a scalar that both changed, or "both".

    A side is used if the values are equal, or for the later `updated`; and if its lines keep the
    other's new comments.
    """
    our_prop, their_prop = ours and ours.prop, theirs and theirs.prop
    if ours is None or theirs is None or our_prop is None or their_prop is None:
        return "both"
    if isinstance(our_prop.value, tuple) or isinstance(their_prop.value, tuple):
        return "both"
    sides = ["ours", "theirs"] if our_prop.kind == their_prop.kind != "map" else []
    if our_prop.value != their_prop.value or not sides:
        sides = []
        times = read_timestamp(our_prop.value), read_timestamp(their_prop.value)
        if our_prop.name == "updated" and times[0] is not None and times[1] is not None:
            sides = ["ours"] if times[0] > times[1] else ["theirs"]
            sides = ["ours", "theirs"] if times[0] == times[1] else sides
    for side in sides:
        text = ours.text if side == "ours" else theirs.text
        if _keeps_comments(text, _read_text(base), ours.text, theirs.text):
            return side
    return "both"


def _choose_side(name: str, sides: Sequence[dict[str, PropertyLines]], later: str) -> str:
    """Return the side with the more restricted value, or the later one, or the greater."""
    deciding = "state" if name == "state_reason" else name
    ranks = [_rank_restriction(deciding, side.get(deciding)) for side in sides]
    if ranks[0] != ranks[1]:
        return "ours" if ranks[0] > ranks[1] else "theirs"
    if later:
        return later
    texts = [side[name].text.encode() if name in side else b"" for side in sides]
    return "ours" if texts[0] >= texts[1] else "theirs"


def _rank_restriction(name: str, part: PropertyLines | None) -> int:
    """Return how much a property's value restricts its note, 0 for all other properties."""
    value = part.prop.value if part and part.prop else ""
    word = value.strip().lower() if isinstance(value, str) else "?"
    if name == "state":
        return rank_state(word)
    if name == "kind":
        return int(word not in OWNER_KINDS)
    return int(name == "pinned" and word not in _TRUE)


def _describe_loss(
    name: str, base: PropertyLines | None, winner: PropertyLines | None, loser: PropertyLines | None
) -> DiscardedValue:
    """Return the discarded value, or its lines if the values are equal."""
    values = [_show_value(side) for side in (base, winner, loser)]
    unclear = values[1] == values[2] or (base is not None and values[0] in values[1:])
    if unclear or None in values:
        values = [side.text.rstrip() if side else "" for side in (base, winner, loser)]
    return DiscardedValue("", f'property "{name}"', values[2] or "(removed)")


def _show_value(part: PropertyLines | None) -> str | None:
    """Return a scalar's value, "" for none; None if only its lines can show it."""
    if part is None or part.prop is None:
        return ""
    value = part.prop.value
    return None if isinstance(value, tuple) or part.prop.kind == "map" else value


# ---- lists, as ordered sets: our order, plus their additions, minus both sides' removals


def _merge_list(
    name: str, base: str | None, ours: str | None, theirs: str | None
) -> PropertyLines | None:
    """Return a merged list property; None if it cannot be merged.

    The sides are the property's lines, None if a side lacks it.
    """
    lists = [_read_items(name, side) for side in (base, ours, theirs)]
    if any(items is None for items in lists):
        return None
    base_items, our_items, their_items = (items or () for items in lists)
    merged = _merge_items(base_items, our_items, their_items)
    if not merged and (ours is None or theirs is None):
        return PropertyLines(name, "") if _keeps_comments("", base, ours, theirs) else None
    candidates = [_merge_hyphens(base, ours, theirs, base_items)] if merged else []
    for text in (*candidates, _rewrite(name, ours, theirs, merged)):
        if text is None or not _keeps_comments(text, base, ours, theirs):
            continue
        prop = _read_property(text)
        if prop and prop.name == name and _read_items(name, text) == merged:
            return PropertyLines(name, text, prop)
    return None


def _read_property(text: str) -> Property | None:
    """Return the only property of these lines, placed from line 0; None if it is not alone."""
    frontmatter = read_frontmatter(f"{_FENCE}{text}{_FENCE}")
    alone = len(frontmatter.properties) == 1 and not frontmatter.warnings
    return frontmatter.properties[0] if alone else None


def _merge_items(
    base: tuple[str, ...], ours: tuple[str, ...], theirs: tuple[str, ...]
) -> tuple[str, ...]:
    base_set, our_set, their_set = set(base), set(ours), set(theirs)
    our_items = [item for item in ours if item in their_set or item not in base_set]
    their_additions = [item for item in theirs if item not in our_set and item not in base_set]
    return (*our_items, *dict.fromkeys(their_additions))


def _read_items(name: str, text: str | None) -> tuple[str, ...] | None:
    """Return a property's items; None if it is not a list of plain texts."""
    if text is None:
        return ()
    prop = _read_property(text)
    if prop is None or prop.kind == "map":
        return None
    if isinstance(prop.value, str):
        if prop.kind == "null":
            return ()
        items = (item.strip() for item in prop.value.split(","))
        return tuple(filter(None, items)) if name in _LISTS else None
    if prop.items:
        return prop.value if len(prop.items) == len(prop.value) else None
    inside = _find_inside(text, prop)
    return None if inside is None or set(_QUOTED.sub("", inside)) & set("[]{}") else prop.value


def _find_inside(text: str, prop: Property) -> str | None:
    """Return the text between the brackets of a list written as `[a, b]`."""
    start, end = prop.span
    written = text[start:end]
    return written[1:-1] if written[:1] == "[" and written[-1:] == "]" else None


def _merge_hyphens(
    base: str | None, ours: str | None, theirs: str | None, base_items: tuple[str, ...]
) -> str | None:
    """Merge two hyphen lists item by item, as written, with comments."""
    prop = _read_property(ours) if ours is not None else None
    if ours is None or prop is None or not prop.items:
        return None
    lead = _find_lead(ours.splitlines()[prop.items[0]])
    our_parts, their_parts = _split_list(ours, lead), _split_list(theirs, lead)
    if our_parts is None or their_parts is None:
        return None
    base_parts = _split_list(base, lead)
    if base_parts is None:
        items = (PropertyLines(f"={item}", f"{lead} {format_value(item)}\n") for item in base_items)
        base_parts = [PropertyLines("head", our_parts[0].text), *items]
    merged = _merge_parts(base_parts, our_parts, their_parts, _resolve_item, append=True)
    if any(part.loss for part in merged):
        return None
    return "".join(part.text for part in merged)


def _split_list(text: str | None, lead: str) -> list[PropertyLines] | None:
    """Return a hyphen list's name line, items (named `=value`, led by `lead`) and comments."""
    prop = _read_property(text) if text is not None else None
    if text is None or prop is None or len(prop.items) != len(prop.value) or not prop.items:
        return None
    if len(set(prop.value)) != len(prop.value):
        return None
    lines = text.splitlines(keepends=True)
    values = dict(zip(prop.items, prop.value, strict=True))
    parts = [PropertyLines("head", "".join(lines[: prop.first + 1]))]
    for number, line in enumerate(lines[prop.first + 1 :], prop.first + 1):
        if number in values:
            line = line.replace(_find_lead(line), lead, 1)
            parts.append(PropertyLines(f"={values[number]}", line))
        else:
            parts.append(PropertyLines("", line))
    return parts


def _find_lead(line: str) -> str:
    return line[: line.index("-") + 1]


def _resolve_item(
    name: str, base: PropertyLines | None, ours: PropertyLines | None, theirs: PropertyLines | None
) -> PropertyLines:
    texts = _read_text(base), _read_text(ours), _read_text(theirs)
    side = _changed_by(*texts)
    if side != "both":
        return (ours if side == "ours" else theirs) or PropertyLines(name, "")
    for part in (ours, theirs):
        if ours and theirs and part and _keeps_comments(part.text, *texts):
            return part
    return PropertyLines(name, "", loss=DiscardedValue("", name, theirs.text if theirs else ""))


def _rewrite(name: str, ours: str | None, theirs: str | None, items: tuple[str, ...]) -> str | None:
    """Write the items in the form of a side that has some, ours first."""
    sides = [side for side in (ours, theirs) if side is not None]
    text = next((side for side in sides if _read_items(name, side)), sides[0])
    prop = _read_property(text)
    if prop is None or _read_items(name, text) == items:
        return text
    if (longer := _extend(text, prop, items)) is not None:
        return longer
    value: str | tuple[str, ...] = items
    if isinstance(prop.value, str) and prop.kind != "null" and items:
        value = ", ".join(items)
    line_end = find_line_end(text)
    try:
        note = set_property(f"---{line_end}{text}---{line_end}", name, value)
    except RefusedError:
        return None
    return note[note.index("\n") + 1 : note.rindex("---")]


def _extend(text: str, prop: Property, items: tuple[str, ...]) -> str | None:
    """Add items to a list written as `[a, b]` without changing its items."""
    inside = _find_inside(text, prop)
    count = len(prop.value)
    if inside is None or items[:count] != prop.value or not isinstance(prop.value, tuple):
        return None
    fresh = ", ".join(map(format_value, items[count:]))
    gap = "" if not inside.strip() else " " if inside.rstrip().endswith(",") else ", "
    end = len(text[: prop.span[1] - 1].rstrip())
    longer = f"{text[:end]}{gap}{fresh}{text[end:]}"
    new_prop = _read_property(longer)
    return longer if new_prop and new_prop.value == items else None


# ---- named parts, with lines between them


def _merge_parts(
    base: Sequence[PropertyLines],
    ours: Sequence[PropertyLines],
    theirs: Sequence[PropertyLines],
    settle: Settle,
    append: bool = False,
) -> list[PropertyLines]:
    """Return the merged parts in our order; their additions follow the part before them.

    With `append`, their additions come last, each after the comments directly above it.
    """
    our_base, their_base = _pair(base, ours), _pair(base, theirs)
    matches = _find_same(ours, theirs, our_base, their_base)
    additions: dict[int, list[PropertyLines]] = {}
    tail: list[PropertyLines] = []
    waiting: list[PropertyLines] = []
    shared = set(our_base) | set(matches.values())
    anchor = _skip_own(-1, len(ours), shared)
    for place, part in enumerate(theirs):
        if place in matches:
            additions.setdefault(anchor, []).extend(waiting)
            waiting = []
            anchor = _skip_own(matches[place], len(ours), shared)
            continue
        base_part = base[their_base[place]] if place in their_base else None
        waiting.append(_resolve_part(settle, base_part, None, part))
        if part.name and append:
            tail, waiting = tail + waiting, []
    additions.setdefault(anchor, []).extend(waiting)
    merged = list(additions.get(-1, []))
    their_places = {our_place: place for place, our_place in matches.items()}
    for place, part in enumerate(ours):
        base_part = base[our_base[place]] if place in our_base else None
        their_part = theirs[their_places[place]] if place in their_places else None
        merged.append(_resolve_part(settle, base_part, part, their_part))
        merged += additions.get(place, [])
    return merged + tail


def _resolve_part(
    settle: Settle,
    base: PropertyLines | None,
    ours: PropertyLines | None,
    theirs: PropertyLines | None,
) -> PropertyLines:
    part = ours or theirs
    if part is None:
        return PropertyLines("", "")
    if part.name:
        return settle(part.name, base, ours, theirs)
    if base is not None and (ours is None or theirs is None):
        return PropertyLines("", "")  # One side removed it.
    side = _changed_by(_read_text(base), _read_text(ours), _read_text(theirs))
    return theirs if side == "theirs" and theirs else part


def _keeps_comments(text: str, base: str | None, ours: str | None, theirs: str | None) -> bool:
    """Return whether a merged part has every comment that neither side removed."""
    base_comments, our_comments, their_comments, comments = (
        set(_find_comments(x or "")) for x in (base, ours, theirs, text)
    )
    removed = (base_comments - our_comments) | (base_comments - their_comments)
    return (our_comments | their_comments) - removed <= comments


def _find_comments(text: str) -> list[str]:
    """Return possible comments; `#` inside quotes counts too, to be safe."""
    return [comment.rstrip() for comment in _COMMENT.findall(text)]


def _pair(base: Sequence[PropertyLines], side: Sequence[PropertyLines]) -> dict[int, int]:
    """Return the index in base of each part of a side."""
    base_places = {part.name: place for place, part in enumerate(base) if part.name}
    pairs = {
        place: base_places[part.name] for place, part in enumerate(side) if part.name in base_places
    }
    for base_start, side_start, length in match_lines([x.key for x in base], [x.key for x in side]):
        for offset in range(length):
            if not base[base_start + offset].name:
                pairs[side_start + offset] = base_start + offset
    return pairs


def _find_same(
    ours: Sequence[PropertyLines],
    theirs: Sequence[PropertyLines],
    our_base: dict[int, int],
    their_base: dict[int, int],
) -> dict[int, int]:
    """Return the index in ours of each equal part of theirs."""
    by_base = {old: place for place, old in our_base.items()}
    our_additions: dict[str, list[int]] = {}
    for place in range(len(ours) - 1, -1, -1):
        if place not in our_base:
            our_additions.setdefault(ours[place].key, []).append(place)
    matches: dict[int, int] = {}
    for place, part in enumerate(theirs):
        if place in their_base:
            if their_base[place] in by_base:
                matches[place] = by_base[their_base[place]]
        elif our_additions.get(part.key):
            matches[place] = our_additions[part.key].pop()
    return matches


def _skip_own(place: int, length: int, shared: set[int]) -> int:
    """Return the last of the parts after `place` that only ours has."""
    while place + 1 < length and place + 1 not in shared:
        place += 1
    return place
