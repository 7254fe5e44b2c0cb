"""Merge three versions of a frontmatter block, property by property."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from vaultmem.core.lifecycle import OWNER_KINDS, rank_state
from vaultmem.core.merging.lists import Value, merge_list
from vaultmem.core.merging.merged import Loss
from vaultmem.core.merging.parts import BlockPart, Settled, changed_by, keeps_comments, merge_parts
from vaultmem.core.notes.frontmatter import Frontmatter
from vaultmem.core.notes.properties import Property
from vaultmem.core.notes.values import read_timestamp

_TRUE = frozenset(["true", "yes", "on"])

#: Where a note came from: of two that say the same, the first one counts, also in what it lacks.
_ORIGIN = frozenset(["created", "agent", "session", "source", "tool_call"])


class Block(NamedTuple):
    """The text between the two `---` lines and its properties; both empty where there is none."""

    text: str
    properties: tuple[Property, ...]


class MergedBlock(NamedTuple):
    """A merged block, what reading it must give, and what could not stay."""

    text: str
    values: dict[str, Value]
    losses: tuple[Loss, ...]


class Rules(NamedTuple):
    """Whose value counts where both changed one: of the side that is `later`, if that is known.

    `first` is the side of the note that was made first, of two that came from nothing.
    """

    later: str = ""
    first: str = ""


class _Written(NamedTuple):
    """A property as one side has it, and its lines."""

    prop: Property
    text: str


def read_block(text: str, matter: Frontmatter) -> Block:
    """Return the block of a note's text."""
    return Block(text[matter.start : matter.end], matter.properties)


def merge_blocks(base: Block, ours: Block, theirs: Block, rules: Rules) -> MergedBlock | None:
    """Merge three blocks; None if their lines cannot be told apart by property."""
    divided = [_divide(block) for block in (base, ours, theirs)]
    parts = [side for side in divided if side is not None]
    if len(parts) < 3:
        return None
    written = [_name_properties(*side) for side in zip((base, ours, theirs), parts, strict=True)]
    merged = merge_parts(parts[0], parts[1], parts[2], partial(_settle, written, rules))
    return MergedBlock(
        "".join(part.text for part in merged),
        {part.name: part.value for part in merged if part.value is not None},
        tuple(part.loss for part in merged if part.loss is not None),
    )


def _divide(block: Block) -> list[BlockPart] | None:
    """Return the properties and the lines between them; None if two share a line."""
    lines = block.text.splitlines(keepends=True)
    parts: list[BlockPart] = []
    at = 0
    for prop in sorted(block.properties, key=lambda prop: prop.first):
        if prop.first < at or not prop.name:
            return None
        parts += (BlockPart("", line) for line in lines[at : prop.first])
        parts.append(BlockPart(prop.name, "".join(lines[prop.first : prop.last])))
        at = prop.last
    return [*parts, *(BlockPart("", line) for line in lines[at:])]


def _name_properties(block: Block, parts: Sequence[BlockPart]) -> dict[str, _Written]:
    texts = {part.name: part.text for part in parts}
    return {prop.name: _Written(prop, texts[prop.name]) for prop in block.properties}


def _settle(
    written: Sequence[dict[str, _Written]],
    rules: Rules,
    name: str,
    base: str | None,
    ours: str | None,
    theirs: str | None,
) -> Settled:
    """Decide what becomes of one property."""
    before, mine, other = (side.get(name) for side in written)
    if name in _ORIGIN and rules.first:
        return _take(name, mine if rules.first == "ours" else other)
    side = changed_by(base, ours, theirs)
    if side == "both":
        side = _find_equal(before, mine, other)
    if side != "both":
        return _take(name, mine if side == "ours" else other)
    if (merged := merge_list(name, base, ours, theirs)) is not None:
        return Settled(name, merged[0], merged[1])
    side = _choose_side(name, written[1:], rules)
    kept, lost = (mine, other) if side == "ours" else (other, mine)
    return _take(name, kept)._replace(loss=_describe_loss(name, before, kept, lost))


def _take(name: str, written: _Written | None) -> Settled:
    if written is None:
        return Settled(name, "")
    return Settled(name, written.text, written.prop.value)


def _find_equal(base: _Written | None, ours: _Written | None, theirs: _Written | None) -> str:
    """Return whose lines are taken for a scalar that both changed, or "both" if none can.

    They can if the value is the same, or `updated` and the later time; and if no comment that
    the other added is lost with its lines.
    """
    if ours is None or theirs is None:
        return "both"
    mine, other = ours.prop, theirs.prop
    if isinstance(mine.value, tuple) or isinstance(other.value, tuple):
        return "both"
    sides = ["ours", "theirs"] if mine.kind == other.kind != "map" else []
    if mine.value != other.value or not sides:
        sides = []
        times = read_timestamp(mine.value), read_timestamp(other.value)
        if mine.name == "updated" and times[0] is not None and times[1] is not None:
            sides = ["ours"] if times[0] > times[1] else ["theirs"]
            sides = ["ours", "theirs"] if times[0] == times[1] else sides
    old = base.text if base else None
    for side in sides:
        text = ours.text if side == "ours" else theirs.text
        if keeps_comments(text, old, ours.text, theirs.text):
            return side
    return "both"


def _choose_side(name: str, sides: Sequence[dict[str, _Written]], rules: Rules) -> str:
    """Return the side whose value lets the note do less, else the later one, else the greater."""
    deciding = "state" if name == "state_reason" else name
    ranks = [_rank_restriction(deciding, side.get(deciding)) for side in sides]
    if ranks[0] != ranks[1]:
        return "ours" if ranks[0] > ranks[1] else "theirs"
    if rules.later:
        return rules.later
    texts = [side[name].text.encode() if name in side else b"" for side in sides]
    return "ours" if texts[0] >= texts[1] else "theirs"


def _rank_restriction(name: str, written: _Written | None) -> int:
    """Return how much a value of a property restricts its note, 0 for all other properties."""
    said = written.prop.value if written else ""
    word = said.strip().lower() if isinstance(said, str) else "?"
    if name == "state":
        return rank_state(word)
    if name == "kind":
        return int(word not in OWNER_KINDS)
    return int(name == "pinned" and word not in _TRUE)


def _describe_loss(
    name: str, base: _Written | None, kept: _Written | None, lost: _Written | None
) -> Loss:
    """Return what was lost as a value, or as lines where the value does not tell the difference."""
    values = [_show_value(side) for side in (base, kept, lost)]
    unclear = values[1] == values[2] or (base is not None and values[0] in values[1:])
    if unclear or None in values:
        values = [side.text.rstrip() if side else "" for side in (base, kept, lost)]
    return Loss(f'property "{name}"', values[2] or "(removed)")


def _show_value(written: _Written | None) -> str | None:
    """Return a scalar's value, "" for none; None for what has to be shown as it is written."""
    if written is None:
        return ""
    if isinstance(written.prop.value, tuple) or written.prop.kind == "map":
        return None
    return written.prop.value
