"""Merge three versions of a note: its properties one by one, its body line by line.

Nothing that either side added is lost by a clean merge. Where the properties cannot be merged
safely, the whole text is merged as lines; where that would break them, all of it is a conflict.
"""

from __future__ import annotations

from typing import TypeVar

from vaultmem.core.delta.lines import find_line_end, split_lines
from vaultmem.core.merging.lines import merge_lines
from vaultmem.core.merging.merged import Labels, MergeConflict, Merged, mark_conflict
from vaultmem.core.merging.properties import merge_blocks, read_block
from vaultmem.core.notes.frontmatter import Frontmatter, read_frontmatter

__all__ = ["MergeConflict", "Merged", "merge_texts"]

_BOM = "\ufeff"

_T = TypeVar("_T", str, tuple[str, str])

Texts = tuple[str, str, str]
Matters = tuple[Frontmatter, Frontmatter, Frontmatter]


def merge_texts(
    path: str, base: str, ours: str, theirs: str, labels: Labels = ("ours", "theirs")
) -> Merged:
    """Merge what two sides made of `base`; only markdown (by `path`) is read as a note.

    An empty `base` means a file that both sides added.
    """
    if theirs in (base, ours):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    marks = [_BOM if text.startswith(_BOM) else "" for text in (base, ours, theirs)]
    texts = (base.removeprefix(_BOM), ours.removeprefix(_BOM), theirs.removeprefix(_BOM))
    if not path.lower().endswith(".md"):
        merged = merge_lines(*texts, labels)
    else:
        merged = _merge_note(texts, labels)
    return Merged(_pick(*marks) + merged.text, merged.conflicts)


def _merge_note(texts: Texts, labels: Labels) -> Merged:
    base, ours, theirs = texts
    matters = (read_frontmatter(base), read_frontmatter(ours), read_frontmatter(theirs))
    readable = not any(matter.problem or matter.warnings for matter in matters)
    if readable and any(matter.body for matter in matters):
        merged = _merge_by_property(texts, matters, labels)
        if merged is not None:
            return merged
    body = base.count("\n", 0, matters[0].body) if matters[0].problem else 0
    merged = merge_lines(*texts, labels, prose=body)
    if merged.conflicts or _is_sound(merged.text, matters):
        return merged
    marked = mark_conflict([ours], [theirs], labels, find_line_end(ours, theirs))
    what = f"lines 1-{len(split_lines(ours))}"
    return Merged("".join(marked), (MergeConflict(what, base, ours, theirs),))


def _merge_by_property(texts: Texts, matters: Matters, labels: Labels) -> Merged | None:
    """Merge block and body apart; None if reading the result would not give what was merged."""
    sides = list(zip(texts, matters, strict=True))
    old, mine, other = (read_block(text, matter) for text, matter in sides)
    block = merge_blocks(old, mine, other, labels)
    if block is None:
        return None
    frames = [_read_frame(text, matter) for text, matter in sides]
    frame = _pick(*frames)
    if block.plain and not frame[0]:
        frame = next(filter(lambda frame: frame[0], (frames[1], frames[2], frames[0])))
    was, our_body, their_body = (text[matter.body :] for text, matter in sides)
    first = texts[1].count("\n", 0, matters[1].body)
    body = merge_lines(was, our_body, their_body, labels, first, prose=0)
    head, close = (_end_line(part, texts[1], bool(body.text)) for part in frame)
    found = read_frontmatter(plain := head + block.plain + close + body.text)
    told = found.problem or found.warnings
    if told or _read_values(found) != block.values or plain[found.body :] != body.text:
        return None
    return Merged(head + block.text + close + body.text, block.conflicts + body.conflicts)


def _read_frame(text: str, matter: Frontmatter) -> tuple[str, str]:
    """Return the lines around the block, both empty where there is none."""
    return text[: matter.start], text[matter.end : matter.body]


def _end_line(line: str, text: str, goes_on: bool) -> str:
    """Return a line of the frame with the end that it needs if something follows."""
    missing = line and goes_on and not line.endswith("\n")
    return line + find_line_end(text) if missing else line


def _is_sound(merged: str, matters: Matters) -> bool:
    """Tell whether properties that both sides could read are still read, as one of them has it."""
    _, ours, theirs = matters
    if any(side.problem or side.warnings for side in (ours, theirs)):
        return True
    found = read_frontmatter(merged)
    mine, other = (_read_values(side) for side in (ours, theirs))
    values = _read_values(found)
    if found.problem or found.warnings or not mine.keys() & other.keys() <= values.keys():
        return False
    return all(value in (mine.get(name), other.get(name)) for name, value in values.items())


def _read_values(matter: Frontmatter) -> dict[str, str | tuple[str, ...]]:
    return {prop.name: prop.value for prop in matter.properties}


def _pick(base: _T, ours: _T, theirs: _T) -> _T:
    return theirs if ours == base else ours
