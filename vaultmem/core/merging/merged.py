"""What comes of merging two versions of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: What the two sides are called in a conflict.
Labels = tuple[str, str]


class MergeConflict(NamedTuple):
    """A place that both sides changed in different ways.

    `what` is `property "state"`, or which lines of ours: `lines 12-14`, `line 12`, or
    `behind line 12` where ours has none. The texts are a property's values, or lines with their
    ends; empty where a side has nothing there.
    """

    what: str
    base: str
    ours: str
    theirs: str


class Merged(NamedTuple):
    """A merged text; it is clean without conflicts, else each is in it between markers."""

    text: str
    conflicts: tuple[MergeConflict, ...] = ()


def mark_conflict(
    ours: Sequence[str], theirs: Sequence[str], labels: Labels, line_end: str
) -> list[str]:
    """Return the lines of both sides between git's markers, each with a line end."""
    lines = [f"<<<<<<< {labels[0]}", *ours, "=======", *theirs, f">>>>>>> {labels[1]}"]
    return [line if line.endswith("\n") else line + line_end for line in lines]
