"""What the door of a hub refuses, why, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: How many refusals whoever pushes is told of, and how many (and refs) are on record.
TOLD, KEPT = 20, 200


class Refusal(NamedTuple):
    """One thing that is refused: what it is, why, and what helps."""

    what: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}; {self.remedy}"


def cut_refusals(refusals: Sequence[Refusal], most: int) -> list[str]:
    """Return so many of them as lines, and how many more there are."""
    more = [f"and {len(refusals) - most:,} more"] if len(refusals) > most else []
    return [*map(str, refusals[:most]), *more]


class Update(NamedTuple):
    """A ref that a push wants to move: from a commit to another, each 40 zeros for none."""

    ref: str
    old: str
    new: str

    @property
    def is_new(self) -> bool:
        """Tell whether the ref is to be made."""
        return not self.old.strip("0")

    @property
    def is_removal(self) -> bool:
        """Tell whether the ref is to go."""
        return not self.new.strip("0")
