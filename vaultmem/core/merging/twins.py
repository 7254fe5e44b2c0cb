"""Twins, the same statement made on two sides: one note remains, confirmed by the other author."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePosixPath

from vaultmem.core.merging.properties import divide_block, merge_blocks
from vaultmem.core.merging.text import Loss, Merged
from vaultmem.core.notes.confirm import MAX_CONFIRMATIONS, Saying, has_room
from vaultmem.core.notes.edit_properties import add_to_list, list_items, set_property
from vaultmem.core.notes.frontmatter import Frontmatter
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.notes.values import read_timestamp
from vaultmem.core.similarity.canonical import Titled, read_title, state_same
from vaultmem.errors import RefusedError


def merge_twins(paths: tuple[str, str], ours: str, theirs: str, later: str = "") -> Merged | None:
    """Return one note of two that say the same; None if they do not.

    The one made first stays as it is worded, whichever side that is; of the other, who said it
    and in which words is kept as `remember` keeps it. A title that one was given stays.
    """
    notes = [
        parse_note(PurePosixPath(path), text.encode("utf-8"))
        for path, text in zip(paths, (ours, theirs), strict=True)
    ]
    if not all(each.matter.body and not each.problem and not each.warnings for each in notes):
        return None
    if not state_same(*(Titled(x.visible_body, x.title, x.path.stem) for x in notes)):
        return None
    is_ours = is_first(ours, theirs, *(each.matter for each in notes))
    first, second = notes if is_ours else reversed(notes)
    if later and not is_ours:
        later = "ours" if later == "theirs" else "theirs"
    try:
        return _join(_call(first, second), _call(second, first), later)
    except RefusedError:  # Its properties cannot be edited by position.
        return None


def is_first(ours: str, theirs: str, mine: Frontmatter, other: Frontmatter) -> bool:
    """Tell whether ours was made first; where that is not known, any side, but always the same."""
    made = [_read_time(matter, "created") for matter in (mine, other)]
    if made[0] != made[1]:
        return made[0] < made[1]
    return ours <= theirs


def name_author(note: Note) -> str:
    """Return who made a note, as `confirmed_by` names it."""
    return Saying(note.agent, note.session, datetime.min).who


def _read_time(matter: Frontmatter, name: str) -> float:
    prop = matter.get(name)
    at = read_timestamp(prop.value) if prop and isinstance(prop.value, str) else None
    return float("inf") if at is None else at


def _call(note: Note, other: Note) -> Note:
    """Return a note under the other's title, where only that one says what its text does not."""
    if read_title(note.title, note.visible_body) or not read_title(other.title, other.visible_body):
        return note
    return parse_note(note.path, set_property(note.text, "title", other.title).encode("utf-8"))


def _join(first: Note, second: Note, later: str) -> Merged | None:
    mine, other = (divide_block(each.text, each.matter) for each in (first, second))
    if mine is None or other is None:
        return None
    parts = merge_blocks((), mine, other, later, first="ours")
    block = "".join(part.text for part in parts)
    text = f"{first.text[: first.matter.start]}{block}{first.text[first.matter.end :]}"
    note = parse_note(first.path, text.encode("utf-8"))
    values = {part.name: part.prop.value for part in parts if part.prop}
    if note.problem or {prop.name: prop.value for prop in note.matter.properties} != values:
        return None
    losses = tuple(part.loss for part in parts if part.loss)
    wording = second.visible_body.strip()
    if wording == first.visible_body.strip():
        wording = ""
    elif not has_room(note, wording):
        losses, wording = (*losses, Loss("", "words", wording)), ""
    text = _confirm(text, note, first, second, wording)
    return Merged(text, (), losses, is_twin=True)


def _confirm(text: str, merged: Note, first: Note, second: Note, wording: str) -> str:
    """Return the merged text with who said it again, between those who said it before and after."""
    said = Saying(second.agent, second.session, datetime.min, wording=wording)
    text = add_to_list(text, merged, "also_said", said.said)
    names = (*list_items(first, "confirmed_by"), said.who, *list_items(second, "confirmed_by"))
    wanted = tuple(name for name in dict.fromkeys(names) if name != name_author(first))[
        -MAX_CONFIRMATIONS:
    ]
    if wanted != list_items(merged, "confirmed_by"):
        text = set_property(text, "confirmed_by", wanted)
    made, known = read_timestamp(second.created), read_timestamp(merged.updated)
    if made is not None and second.created != first.created and made > (known or 0.0):
        text = set_property(text, "updated", datetime.fromisoformat(second.created))
    return text
