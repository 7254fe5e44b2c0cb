"""Figures that the score of a section takes from all sections, and their sum over several vaults.

With the sum over several vaults, a section's score is the one it would have in a single vault of
all their notes (J. Callan, "Distributed Information Retrieval", 2000: global against local
statistics). Statistics are plain values, so the process that counts need not be the one that
scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from vaultmem.core.finding.weights import RankingWeights


class Statistics(NamedTuple):
    """Figures of the sections that a query can find.

    `lengths` are the terms of all titles, tags and bodies, `newest` the date of the newest section
    in seconds since the epoch. `counts` has the number of these sections that contain each term of
    the query, `totals` the number of all sections that do, whether the query can find them or not.
    `near` has, for each misspelt word, words of the vault with a similar spelling, each with the
    number of sections that contain its term.
    """

    sections: int = 0
    lengths: tuple[int, int, int] = (0, 0, 0)
    newest: float = 0.0
    counts: Mapping[str, int] = {}
    totals: Mapping[str, int] = {}
    near: Mapping[str, Mapping[str, int]] = {}

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
    totals: dict[str, int] = {}
    near: dict[str, dict[str, int]] = {}
    for part in parts:
        sections += part.sections
        title += part.lengths[0]
        tags += part.lengths[1]
        body += part.lengths[2]
        newest = max(newest, part.newest)
        _add(counts, part.counts)
        _add(totals, part.totals)
        for word, others in part.near.items():
            _add(near.setdefault(word, {}), others)
    return Statistics(sections, (title, tags, body), newest, counts, totals, near)


def _add(sums: dict[str, int], counts: Mapping[str, int]) -> None:
    for term, count in counts.items():
        sums[term] = sums.get(term, 0) + count
