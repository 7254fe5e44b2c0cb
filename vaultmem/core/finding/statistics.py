"""What the score of a section takes from all the others: figures that vaults can add up.

With the sum over several vaults, a section's score is what it would be in one vault of all their
notes (J. Callan, "Distributed Information Retrieval", 2000: global against local statistics). A
plain value: whoever counts need not be the process that scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Statistics(NamedTuple):
    """How many sections can be found, their weighted terms, the newest's date, and what has what.

    `newest` is in seconds since the epoch; `counts` says of each term of a question how many of
    the sections have it.
    """

    sections: int = 0
    length: float = 0.0
    newest: float = 0.0
    counts: Mapping[str, int] = {}

    @property
    def mean(self) -> float:
        """The mean length of a section in weighted terms."""
        return self.length / self.sections if self.sections else 1.0


def add_statistics(parts: Iterable[Statistics]) -> Statistics:
    """Return the figures of several vaults as those of one."""
    sections, length, newest = 0, 0.0, 0.0
    counts: dict[str, int] = {}
    for part in parts:
        sections += part.sections
        length += part.length
        newest = max(newest, part.newest)
        for term, count in part.counts.items():
            counts[term] = counts.get(term, 0) + count
    return Statistics(sections, length, newest, counts)
