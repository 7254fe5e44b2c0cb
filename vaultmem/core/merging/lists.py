"""Merge a list property as a set in order: our order, their additions, less what either removed."""

from __future__ import annotations

import re

from vaultmem.core.delta.lines import find_line_end
from vaultmem.core.merging.merged import Loss
from vaultmem.core.merging.parts import BlockPart, Settled, changed_by, keeps_comments, merge_parts
from vaultmem.core.notes.edit_properties import format_value, set_property
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.properties import Property
from vaultmem.errors import RefusedError

#: Properties that are lists even where somebody wrote `tags: one, two`.
_LISTS = frozenset(
    [
        "tags",
        "tag",
        "aliases",
        "alias",
        "refs",
        "parents",
        "supersedes",
        "supersedes_part",
        "superseded_by",
        "contradicts",
        "related",
        "differs_from",
        "confirmed_by",
        "also_said",
    ]
)

_QUOTED = re.compile(r"(?<![^\[,\s])(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*')")
_FENCE = "---\n"

Value = str | tuple[str, ...]


def merge_list(
    name: str, base: str | None, ours: str | None, theirs: str | None
) -> tuple[str, Value | None] | None:
    """Return the merged lines of a list property and its value; None if it cannot be merged.

    The sides are the property's lines, None where a side has no such property.
    """
    lists = [_read_items(name, side) for side in (base, ours, theirs)]
    if any(items is None for items in lists):
        return None
    old, mine, other = (items or () for items in lists)
    wanted = _merge_items(old, mine, other)
    if not wanted and (ours is None or theirs is None):
        return ("", None) if keeps_comments("", base, ours, theirs) else None
    candidates = [_merge_hyphens(base, ours, theirs, old)] if wanted else []
    for text in (*candidates, _rewrite(name, ours, theirs, wanted)):
        if text is None or not keeps_comments(text, base, ours, theirs):
            continue
        prop = read_property(text)
        if prop and prop.name == name and _read_items(name, text) == wanted:
            return text, prop.value
    return None


def read_property(text: str) -> Property | None:
    """Return the one property of these lines, placed from line 0; None if it is not one alone."""
    matter = read_frontmatter(f"{_FENCE}{text}{_FENCE}")
    alone = len(matter.properties) == 1 and not matter.warnings
    return matter.properties[0] if alone else None


def _merge_items(
    base: tuple[str, ...], ours: tuple[str, ...], theirs: tuple[str, ...]
) -> tuple[str, ...]:
    old, mine, other = set(base), set(ours), set(theirs)
    kept = [item for item in ours if item in other or item not in old]
    added = [item for item in theirs if item not in mine and item not in old]
    return (*kept, *dict.fromkeys(added))


def _read_items(name: str, text: str | None) -> tuple[str, ...] | None:
    """Return a property's items; None if it is no list, or one with more in it than texts."""
    if text is None:
        return ()
    prop = read_property(text)
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
    """Return what stands between the brackets of a list written as `[a, b]`."""
    start, end = prop.span
    written = text[start:end]
    return written[1:-1] if written[:1] == "[" and written[-1:] == "]" else None


def _merge_hyphens(
    base: str | None, ours: str | None, theirs: str | None, old: tuple[str, ...]
) -> str | None:
    """Merge two hyphen lists item by item, as written, comments included."""
    prop = read_property(ours) if ours is not None else None
    if ours is None or prop is None or not prop.items:
        return None
    lead = _find_lead(ours.splitlines()[prop.items[0]])
    mine, other = _divide(ours, lead), _divide(theirs, lead)
    if mine is None or other is None:
        return None
    before = _divide(base, lead)
    if before is None:
        items = (BlockPart(f"={item}", f"{lead} {format_value(item)}\n") for item in old)
        before = (BlockPart("head", mine[0].text), *items)
    settled = merge_parts(before, mine, other, _settle_item, append=True)
    if any(part.loss for part in settled):
        return None
    return "".join(part.text for part in settled)


def _divide(text: str | None, lead: str) -> tuple[BlockPart, ...] | None:
    """Return a hyphen list's name line, items (named `=value`, led by `lead`) and comments."""
    prop = read_property(text) if text is not None else None
    if text is None or prop is None or len(prop.items) != len(prop.value) or not prop.items:
        return None
    if len(set(prop.value)) != len(prop.value):
        return None
    lines = text.splitlines(keepends=True)
    values = dict(zip(prop.items, prop.value, strict=True))
    parts = [BlockPart("head", "".join(lines[: prop.first + 1]))]
    for number, line in enumerate(lines[prop.first + 1 :], prop.first + 1):
        if number in values:
            line = line.replace(_find_lead(line), lead, 1)
            parts.append(BlockPart(f"={values[number]}", line))
        else:
            parts.append(BlockPart("", line))
    return tuple(parts)


def _find_lead(line: str) -> str:
    return line[: line.index("-") + 1]


def _settle_item(name: str, base: str | None, ours: str | None, theirs: str | None) -> Settled:
    side = changed_by(base, ours, theirs)
    text = ours if side == "ours" else theirs
    if side != "both":
        return Settled(name, text or "")
    for text in (ours, theirs):
        if ours and theirs and text and keeps_comments(text, base, ours, theirs):
            return Settled(name, text)
    return Settled(name, "", loss=Loss(name, theirs or ""))


def _rewrite(
    name: str, ours: str | None, theirs: str | None, wanted: tuple[str, ...]
) -> str | None:
    """Write the items into the side that has some, ours first, in its own form."""
    sides = [side for side in (ours, theirs) if side is not None]
    text = next((side for side in sides if _read_items(name, side)), sides[0])
    prop = read_property(text)
    if prop is None or _read_items(name, text) == wanted:
        return text
    if (longer := _extend(text, prop, wanted)) is not None:
        return longer
    value: Value = wanted
    if isinstance(prop.value, str) and prop.kind != "null" and wanted:
        value = ", ".join(wanted)
    line_end = find_line_end(text)
    try:
        note = set_property(f"---{line_end}{text}---{line_end}", name, value)
    except RefusedError:
        return None
    return note[note.index("\n") + 1 : note.rindex("---")]


def _extend(text: str, prop: Property, wanted: tuple[str, ...]) -> str | None:
    """Add items to a list written as `[a, b]` and leave those that it has as they are."""
    inside = _find_inside(text, prop)
    have = len(prop.value)
    if inside is None or wanted[:have] != prop.value or not isinstance(prop.value, tuple):
        return None
    fresh = ", ".join(map(format_value, wanted[have:]))
    gap = "" if not inside.strip() else " " if inside.rstrip().endswith(",") else ", "
    end = len(text[: prop.span[1] - 1].rstrip())
    longer = f"{text[:end]}{gap}{fresh}{text[end:]}"
    found = read_property(longer)
    return longer if found and found.value == wanted else None
