"""What comes of merging two versions of a text."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.notes.conflict import Speaker


class MergeConflict(NamedTuple):
    """A place that both sides changed in different ways.

    `what` is which lines of ours: `lines 12-14`, `line 12`, or `behind line 12` where ours has
    none. The texts are lines with their ends; empty where a side has nothing there.
    """

    what: str
    base: str
    ours: str
    theirs: str


class Loss(NamedTuple):
    """What one side said and the merged text does not: `property "confidence"`, and its value."""

    what: str
    value: str


class Merged(NamedTuple):
    """A merged text: of each conflict ours is in it; what could not stay is in `losses`.

    `is_twin` tells that both sides had said the same.
    """

    text: str
    conflicts: tuple[MergeConflict, ...] = ()
    losses: tuple[Loss, ...] = ()
    is_twin: bool = False


class Sides(NamedTuple):
    """Who speaks on each side, and which (`ours`, `theirs`) has the later commit, "" if unknown."""

    ours: Speaker = Speaker()
    theirs: Speaker = Speaker()
    later: str = ""


#: Nothing is known of the sides.
UNKNOWN = Sides()
