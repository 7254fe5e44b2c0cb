"""One thing that two texts say differently."""

from __future__ import annotations

from typing import NamedTuple

#: Differences that leave the subject as it is. Another name or word may be another subject.
_VALUES = frozenset(["number", "date", "time", "negation", "limit", "modality", "quantifier"])


class Difference(NamedTuple):
    """One thing that two texts say differently; a side that says nothing of it is empty."""

    kind: str
    ours: str
    theirs: str

    @property
    def is_value(self) -> bool:
        """Tell whether both name a value of one thing, so that they contradict each other."""
        return self.kind in _VALUES and (self.kind == "negation" or bool(self.ours and self.theirs))
