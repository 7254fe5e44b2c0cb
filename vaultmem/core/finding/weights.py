"""The parameters of the ranking, and the figures that a score takes from all sections.

benchmarks/README.md has what each parameter was measured to do. Statistics of several vaults are
added up, so that a section's score is the one it would have in a single vault of all their notes
(J. Callan, "Distributed Information Retrieval", 2000: global against local statistics).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class RankingWeights(NamedTuple):
    """The parameters of the score, see `core.finding.ranking`.

    Pairs named `short` and `long` are for vaults whose sections have `short_length` terms or
    fewer in the mean, and `long_length` or more; between them they go over in a straight line.
    """

    title: float = 2.0
    tags: float = 1.5
    body: float = 1.0
    short_length: float = 50.0
    long_length: float = 150.0
    short_k1: float = 0.9
    long_k1: float = 1.75
    short_b: float = 0.2
    long_b: float = 0.85
    #: What a weak word counts for among others.
    weak: float = 0.5
    #: What the nearest word counts for where the question's own is not in the vault.
    near: float = 0.7
    #: Of a side-by-side pair of query terms, in shares of the smaller idf; of the whole query
    #: as a phrase, in shares of all idf.
    pair: float = 0.6
    phrase: float = 0.3
    #: Of a title that is the question's words, in shares of all idf.
    named: float = 1.0
    #: Of a turn whose speaker the question names, in shares of its own score.
    speaker: float = 0.25
    #: What the length part of a section counts times that is links to other notes alone.
    links_alone: float = 4.0
    #: Terms of a passage, and the share of the best one in the score of a longer section.
    passage_terms: int = 80
    passage_share: float = 0.5
    #: What the nearest and the second nearest neighbour give of their scores, before and after
    #: alike, and the most terms that a note with neighbours has.
    neighbours: tuple[float, ...] = (0.3, 0.1)
    neighbour_terms: int = 120
    #: Neighbours lift a note in full up to the score that this many have by themselves, and by
    #: this share of the rest beyond it.
    lift_place: int = 5
    lift_share: float = 0.1
    #: Days between neighbours by a tag alone, at most.
    neighbour_days: float = 30.0
    #: Days after which recency is half.
    half_life: float = 30.0
    #: The best sections by words whose neighbours and age count, at least; and of these, those
    #: whose words' order is looked at.
    candidates: int = 96
    read: int = 32

    def choose_k1(self, mean: float) -> float:
        """Return k1 for a mean length in weighted terms."""
        return self._between(self.short_k1, self.long_k1, mean)

    def choose_b(self, mean: float) -> float:
        """Return b for a mean length in weighted terms."""
        return self._between(self.short_b, self.long_b, mean)

    def _between(self, short: float, long: float, mean: float) -> float:
        share = (mean - self.short_length) / (self.long_length - self.short_length)
        return short + (long - short) * min(max(share, 0.0), 1.0)


#: One configuration for all vaults.
WEIGHTS = RankingWeights()


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
