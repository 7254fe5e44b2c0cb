"""What the score of a section takes from all the others: figures that vaults can add up.

With the sum over several vaults, a section's score is what it would be in one vault of all their
notes (J. Callan, "Distributed Information Retrieval", 2000: global against local statistics). A
plain value: whoever counts need not be the process that scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from vaultmem.core.finding.weights import RankingWeights


class Statistics(NamedTuple):
    """How many sections can be found, their terms, the newest's date, and what has what.

    `lengths` are the terms of all titles, tags and bodies: whole numbers, so that the sum is the
    same however vaults are put into groups. `newest` is in seconds since the epoch; `counts` says
    of each term of a question how many of the sections have it.
    """

    sections: int = 0
    lengths: tuple[int, int, int] = (0, 0, 0)
    newest: float = 0.0
    counts: Mapping[str, int] = {}

    def mean(self, weights: RankingWeights) -> float:
        """Return the mean length of a section in weighted terms."""
        title, tags, body = self.lengths
        length = weights.title * title + weights.tags * tags + weights.body * body
        return length / self.sections if self.sections else 1.0


def add_statistics(parts: Iterable[Statistics]) -> Statistics:
    """Return the figures of several vaults as those of one."""
    sections, newest = 0, 0.0
    title = tags = body = 0
    counts: dict[str, int] = {}
    for part in parts:
        sections += part.sections
        title += part.lengths[0]
        tags += part.lengths[1]
        body += part.lengths[2]
        newest = max(newest, part.newest)
        for term, count in part.counts.items():
            counts[term] = counts.get(term, 0) + count
    return Statistics(sections, (title, tags, body), newest, counts)
