"""Merge three versions of a note: properties one by one, the body line by line.

A merge always succeeds. Changes by one side are kept. For a property that both changed, one value
is kept and the other reported as lost. For text that both changed, ours stays and theirs follows as
a callout. The merged state is never freer than the freer side's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple, TypeVar

from vaultmem.core.lifecycle import HIDDEN_STATES, rank_state
from vaultmem.core.merging.merge_properties import merge_blocks, split_block
from vaultmem.core.merging.text import (
    Conflict,
    DiscardedValue,
    MergedText,
    merge_lines,
    merge_words,
)
from vaultmem.core.notes.agent_changes import MAX_CONFIRMATIONS, Attestation, has_room
from vaultmem.core.notes.conflict import (
    OTHER_TEXT,
    Callout,
    PlacedCallout,
    Speaker,
    insert_callouts,
)
from vaultmem.core.notes.edit_properties import (
    add_to_list,
    list_items,
    quarantine_unread,
    set_property,
)
from vaultmem.core.notes.frontmatter import (
    Frontmatter,
    read_frontmatter,
    read_state_lines,
    read_timestamp,
)
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.similarity.canonical import TitledText, read_title, state_same
from vaultmem.core.text.line_diff import find_line_end, split_keys, split_lines
from vaultmem.errors import RefusedError

# Duplicates made on two sides: one note remains, confirmed by the other author.


def merge_twins(
    paths: tuple[str, str], ours: str, theirs: str, later: str = ""
) -> MergedText | None:
    """Return one note of two that state the same; None if they do not.

    The wording of the note made first stays, from either side. The other's author and wording are
    kept as in `remember`. A title that only one note has stays.
    """
    notes = [
        parse_note(PurePosixPath(path), text.encode("utf-8"))
        for path, text in zip(paths, (ours, theirs), strict=True)
    ]
    if not all(each.frontmatter.body and not each.problem and not each.warnings for each in notes):
        return None
    if not state_same(*(TitledText(x.visible_body, x.title, x.path.stem) for x in notes)):
        return None
    is_ours = is_first(ours, theirs, *(each.frontmatter for each in notes))
    first, second = notes if is_ours else reversed(notes)
    if later and not is_ours:
        later = "ours" if later == "theirs" else "theirs"
    try:
        return _join(_call(first, second), _call(second, first), later)
    except RefusedError:  # Its properties have no positions.
        return None


def is_first(
    ours: str, theirs: str, our_frontmatter: Frontmatter, their_frontmatter: Frontmatter
) -> bool:
    """Return whether ours was made first; if unknown, choose the same text on each side."""
    times = [
        _read_time(frontmatter, "created") for frontmatter in (our_frontmatter, their_frontmatter)
    ]
    if times[0] != times[1]:
        return times[0] < times[1]
    return ours <= theirs


def get_author_name(note: Note) -> str:
    """Return a note's author in the form of `confirmed_by`."""
    return Attestation(note.agent, note.session, datetime.min).author


def _read_time(frontmatter: Frontmatter, name: str) -> float:
    prop = frontmatter.get(name)
    timestamp = read_timestamp(prop.value) if prop and isinstance(prop.value, str) else None
    return float("inf") if timestamp is None else timestamp


def _call(note: Note, other: Note) -> Note:
    """Return a note with the other's title, if only that adds to the text."""
    if read_title(note.title, note.visible_body) or not read_title(other.title, other.visible_body):
        return note
    return parse_note(note.path, set_property(note.text, "title", other.title).encode("utf-8"))


def _join(first: Note, second: Note, later: str) -> MergedText | None:
    first_parts, second_parts = (
        split_block(each.text, each.frontmatter) for each in (first, second)
    )
    if first_parts is None or second_parts is None:
        return None
    parts = merge_blocks((), first_parts, second_parts, later, first="ours")
    block = "".join(part.text for part in parts)
    text = f"{first.text[: first.frontmatter.start]}{block}{first.text[first.frontmatter.end :]}"
    note = parse_note(first.path, text.encode("utf-8"))
    values = {part.name: part.prop.value for part in parts if part.prop}
    if note.problem or {prop.name: prop.value for prop in note.frontmatter.properties} != values:
        return None
    losses = tuple(part.loss for part in parts if part.loss)
    wording = second.visible_body.strip()
    if wording == first.visible_body.strip():
        wording = ""
    elif not has_room(note, wording):
        losses, wording = (*losses, DiscardedValue("", "words", wording)), ""
    text = _confirm(text, note, first, second, wording)
    return MergedText(text, (), losses, is_twin=True)


def _confirm(text: str, merged: Note, first: Note, second: Note, wording: str) -> str:
    """Return the merged text with the second author's confirmation, in order."""
    attestation = Attestation(second.agent, second.session, datetime.min, wording=wording)
    text = add_to_list(text, merged, "also_said", attestation.quotation)
    names = (
        *list_items(first, "confirmed_by"),
        attestation.author,
        *list_items(second, "confirmed_by"),
    )
    confirmations = tuple(name for name in dict.fromkeys(names) if name != get_author_name(first))[
        -MAX_CONFIRMATIONS:
    ]
    if confirmations != list_items(merged, "confirmed_by"):
        text = set_property(text, "confirmed_by", confirmations)
    created, updated = read_timestamp(second.created), read_timestamp(merged.updated)
    if created is not None and second.created != first.created and created > (updated or 0.0):
        text = set_property(text, "updated", datetime.fromisoformat(second.created))
    return text


_BOM = "\ufeff"

#: The author of a side with an unknown author.
UNKNOWN_SPEAKER = Speaker()

_T = TypeVar("_T", str, tuple[str, str])


class _Version(NamedTuple):
    """A version of a note."""

    text: str
    frontmatter: Frontmatter

    @property
    def is_readable(self) -> bool:
        return not (self.frontmatter.problem or self.frontmatter.warnings or self._has_odd_state)

    @property
    def _has_odd_state(self) -> bool:
        """Return whether another state than the property `state` hides it."""
        state = self.frontmatter.get("state")
        others = {*self.frontmatter.states} - {state and state.value}
        return not HIDDEN_STATES.isdisjoint(others)

    @property
    def front(self) -> str:
        return self.text[: self.frontmatter.body]

    @property
    def body(self) -> str:
        return self.text[self.frontmatter.body :]

    @property
    def frame(self) -> tuple[str, str]:
        """The lines around the frontmatter block, both empty without one."""
        return self.text[: self.frontmatter.start], self.text[
            self.frontmatter.end : self.frontmatter.body
        ]

    @property
    def values(self) -> dict[str, str | tuple[str, ...]]:
        return {prop.name: prop.value for prop in self.frontmatter.properties}

    @property
    def state_rank(self) -> int:
        """The rank of its most restricted state, found without parsing."""
        has_block = self.frontmatter.body or self.frontmatter.problem
        states = read_state_lines(self.text, self.frontmatter) if has_block else []
        return max(map(rank_state, states), default=rank_state(""))


def is_note(path: str) -> bool:
    """Return whether a file is merged as a note."""
    return path.lower().endswith(".md")


def merge_texts(
    path: str,
    base: str,
    ours: str,
    theirs: str,
    later: str = "",
    speaker: Speaker = UNKNOWN_SPEAKER,
) -> MergedText:
    """Merge two sides' changes of `base`; only markdown (by `path`) is read as a note.

    An empty `base` means a file that both sides added. Other texts are merged by lines; for lines
    that both changed, ours stay. `later` is the side (`ours`, `theirs`) with the later commit, ""
    if unknown, and `speaker` the author of theirs.
    """
    if theirs in (base, ours):
        return MergedText(ours)
    if ours == base:
        return MergedText(theirs)
    marks = [_BOM if text.startswith(_BOM) else "" for text in (base, ours, theirs)]
    base, ours, theirs = (text.removeprefix(_BOM) for text in (base, ours, theirs))
    if is_note(path):
        merged = _merge_note(path, base, ours, theirs, later, speaker)
    else:
        merged = merge_lines(base, ours, theirs)
    return merged._replace(
        text=_pick(*marks) + merged.text,
        conflicts=tuple(each._replace(path=path) for each in merged.conflicts),
        losses=tuple(each._replace(path=path) for each in merged.losses),
    )


def _merge_note(
    path: str, base: str, ours: str, theirs: str, later: str, speaker: Speaker
) -> MergedText:
    if not base and (twins := merge_twins((path, path), ours, theirs, later)) is not None:
        return twins
    base_version, our_version, their_version = (_read(text) for text in (base, ours, theirs))
    later = later or _find_later(our_version, their_version)
    if our_version.is_readable and their_version.is_readable:
        merged = _merge_by_property(base_version, our_version, their_version, later, speaker)
        if merged is not None:
            return merged
    first = (
        base.count("\n", 0, base_version.frontmatter.body)
        if base_version.frontmatter.problem
        else 0
    )
    lines = merge_lines(base, ours, theirs, prose=first)
    if not lines.conflicts and _is_sound(lines.text, our_version, their_version):
        return lines
    return _merge_around(base_version, our_version, their_version, later, speaker)


def _read(text: str) -> _Version:
    return _Version(text, read_frontmatter(text))


def _find_later(ours: _Version, theirs: _Version) -> str:
    """Return the side with the later `updated`, "" if they are equal."""
    times = []
    for side in (ours, theirs):
        prop = side.frontmatter.get("updated")
        timestamp = read_timestamp(prop.value) if prop and isinstance(prop.value, str) else None
        times.append(timestamp or 0.0)
    return "" if times[0] == times[1] else "ours" if times[0] > times[1] else "theirs"


def _merge_by_property(
    base: _Version, ours: _Version, theirs: _Version, later: str, speaker: Speaker
) -> MergedText | None:
    """Merge block and body separately; None if the result would be read differently."""
    readable_base = base if base.is_readable else _Version("", Frontmatter())
    sides = [split_block(side.text, side.frontmatter) for side in (readable_base, ours, theirs)]
    blocks = [side for side in sides if side is not None]
    if len(blocks) < 3:
        return None
    first = "" if base.text else _find_first(ours, theirs)
    parts = merge_blocks(blocks[0], blocks[1], blocks[2], later, first)
    block = "".join(part.text for part in parts)
    frames = [side.frame for side in (base, ours, theirs)]
    frame = _pick(*frames)
    if block and not frame[0]:
        frame = next(filter(lambda frame: frame[0], (frames[1], frames[2], frames[0])))
    body = _merge_bodies(base, ours, theirs, speaker)
    head, close = (_end_line(part, ours.text, bool(body.text)) for part in frame)
    version = _read(head + block + close + body.text)
    is_unclear = version.frontmatter.problem or version.frontmatter.warnings
    values = {part.name: part.prop.value for part in parts if part.prop}
    if is_unclear or version.values != values or version.body != body.text:
        return None
    return MergedText(version.text, body.conflicts, tuple(part.loss for part in parts if part.loss))


def _find_first(ours: _Version, theirs: _Version) -> str:

    is_ours = is_first(ours.text, theirs.text, ours.frontmatter, theirs.frontmatter)
    return "ours" if is_ours else "theirs"


def _merge_bodies(base: _Version, ours: _Version, theirs: _Version, speaker: Speaker) -> MergedText:
    first = ours.text.count("\n", 0, ours.frontmatter.body)
    return merge_words(base.body, ours.body, theirs.body, speaker, first)


def _merge_around(
    base: _Version, ours: _Version, theirs: _Version, later: str, speaker: Speaker
) -> MergedText:
    """Keep one side's frontmatter if they cannot be merged, and merge the bodies."""
    fronts = [side.front for side in (base, ours, theirs)]
    front = _pick(*fronts)
    if fronts[0] not in fronts[1:] and fronts[1] != fronts[2]:
        front = fronts[1 if _is_chosen(ours, theirs, later) else 2]
    body = _merge_bodies(base, ours, theirs, speaker)
    text = _end_line(front, ours.text, bool(body.text)) + body.text
    if ours.is_readable and theirs.is_readable and not _read(text).is_readable:
        text, conflict = _append_all(ours.text, theirs.text, speaker)
        text = _restrict(text, ours, theirs)
        return MergedText(text, (conflict,), _find_lost(base, [ours], text))
    text = _restrict(text, ours, theirs)
    front = text.removesuffix(body.text)
    return MergedText(text, body.conflicts, _find_lost(base, [ours, theirs], front))


def _find_lost(base: _Version, sides: Sequence[_Version], front: str) -> tuple[DiscardedValue, ...]:
    """Return the sides' changes of frontmatter that `front` lacks."""
    lines: Counter[str] = Counter()
    for side in sides:
        lines |= Counter(side.front.splitlines())
    lost_lines = lines - (Counter(base.front.splitlines()) | Counter(front.splitlines()))
    losses = (
        [DiscardedValue("", "properties", "\n".join(lost_lines.elements()))] if lost_lines else []
    )
    for name in sorted(base.values.keys() & _read(front).values.keys()):
        if any(side.is_readable and side.frontmatter.get(name) is None for side in sides):
            losses.append(DiscardedValue("", f'property "{name}"', "(removed)"))
    return tuple(losses)


def _append_all(ours: str, theirs: str, speaker: Speaker) -> tuple[str, Conflict]:
    """Return ours followed by all of theirs as a callout, if nothing else is readable."""
    count = len(split_lines(ours))
    callout = Callout(OTHER_TEXT, speaker, tuple(split_keys(theirs)), 0)
    conflict = Conflict("", f"lines 1-{count}", ours, theirs)
    return insert_callouts(ours, [PlacedCallout(callout, count)]), conflict


def _is_chosen(ours: _Version, theirs: _Version, later: str) -> bool:
    """Return whether to keep our frontmatter: the readable one, or the more restricted one."""
    ranks = [(bool(side.front) and side.is_readable, side.state_rank) for side in (ours, theirs)]
    if ranks[0] != ranks[1]:
        return ranks[0] > ranks[1]
    return later == "ours" or (not later and ours.front >= theirs.front)


def _restrict(text: str, ours: _Version, theirs: _Version) -> str:
    """Return a note's text with a state at least as restricted as on both sides."""
    version = max(ours, theirs, key=lambda side: side.state_rank)
    if _read(text).state_rank >= version.state_rank:
        return text
    states = read_state_lines(version.text, version.frontmatter)
    try:
        return set_property(text, "state", max(states, key=rank_state))
    except RefusedError:
        return quarantine_unread(text)


def _end_line(line: str, text: str, goes_on: bool) -> str:
    """Return a line of the frame, with a line end if text follows."""
    missing = line and goes_on and not line.endswith("\n")
    return line + find_line_end(text) if missing else line


def _is_sound(merged: str, ours: _Version, theirs: _Version) -> bool:
    """Return whether properties that both sides could read still have a value of one side."""
    if not (ours.is_readable and theirs.is_readable):
        return True
    version = _read(merged)
    our_values, their_values, values = ours.values, theirs.values, version.values
    if version.frontmatter.problem or version.frontmatter.warnings:
        return False
    if not our_values.keys() & their_values.keys() <= values.keys():
        return False
    return all(
        value in (our_values.get(name), their_values.get(name)) for name, value in values.items()
    )


def _pick(base: _T, ours: _T, theirs: _T) -> _T:
    return theirs if ours == base else ours
