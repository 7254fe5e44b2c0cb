"""Which sections share most of a text's rare terms, by the index alone: no note is read."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from vaultmem.storage.index.snapshot import Snapshot

#: Postings that one look-up reads; the rarest terms come first, so it does not grow with a vault.
_BUDGET = 10_000

#: Terms that one look-up reads: more of a long text say no more.
_TERMS = 16


class Sharing(NamedTuple):
    """Sections as (document, ordinal), best first, and in how many sections each term stands.

    `shares` says of each section how much (0 to 1) it has of the terms that were looked up.
    """

    sections: tuple[tuple[int, int], ...]
    shares: tuple[float, ...]
    counts: dict[str, int]
    size: int

    def weigh(self, term: str) -> float:
        """Return how rare a term is: 0.5 where it stands everywhere, 1 where it is new."""
        if not self.size or term not in self.counts:
            return 1.0
        rarity = math.log((self.size + 1) / (self.counts[term] + 1)) / math.log(self.size + 1)
        return 0.5 + 0.5 * rarity


def find_sharing(
    snapshot: Snapshot,
    terms: Iterable[str],
    limit: int,
    known: dict[str, int] | None = None,
) -> Sharing:
    """Return at most `limit` sections that share the most terms, weighted by ln(1 + N / n).

    Only the rarest terms are looked up, as many as the budget of postings allows. `known` keeps
    the counts of terms from look-up to look-up.
    """
    cache = {} if known is None else known
    counts = {term: _count(snapshot, term, cache) for term in dict.fromkeys(terms)}
    whole = 0.0
    scores: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for term, weight in _choose_terms(counts, snapshot.size):
        whole += weight
        for place, numbers in snapshot.find_sections(term):
            there = scores[place]
            for number in numbers:
                there[number] = there.get(number, 0.0) + weight
    best = _choose_best(scores, limit)
    return Sharing(
        tuple(snapshot.locate(place, number) for _, place, number in best),
        tuple(-score / whole for score, _, _ in best),
        counts,
        snapshot.size,
    )


def _choose_terms(counts: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """Return the terms to be looked up among `size` sections, the rarest first, and their weights.

    `counts` says in how many sections each stands.
    """
    chosen: list[tuple[str, float]] = []
    left = _BUDGET
    for count, term in sorted((count, term) for term, count in counts.items() if count):
        if len(chosen) == _TERMS or (chosen and count > left):
            break
        left -= count
        chosen.append((term, math.log1p(size / count)))
    return chosen


def _choose_best(
    scores: Mapping[int, Mapping[int, float]], limit: int
) -> list[tuple[float, int, int]]:
    """Return the `limit` best as negative score, place and number, the best first."""
    largest = heapq.nlargest(limit, chain.from_iterable(each.values() for each in scores.values()))
    least = largest[-1] if largest else 0.0
    kept = [
        (-score, place, number)
        for place, there in scores.items()
        for number, score in there.items()
        if score >= least
    ]
    return sorted(kept)[:limit]


def _count(snapshot: Snapshot, term: str, known: dict[str, int]) -> int:
    """Return in how many sections a term stands, those of forgotten notes counted too."""
    count = known.get(term)
    if count is None:
        count = known[term] = snapshot.count_sections(term)
    return count


def find_with_all(
    snapshot: Snapshot, terms: Iterable[str], beside: Iterable[str], limit: int
) -> list[tuple[int, int]]:
    """Return at most `limit` sections that have all terms, first those with most of `beside`.

    A term of more sections than the budget allows is passed over, and none are found by it alone.
    """
    found: set[tuple[int, int]] | None = None
    left = _BUDGET
    for count, term in sorted((snapshot.count_sections(term), term) for term in set(terms)):
        if count > left:
            break
        left -= count
        sections = _list_sections(snapshot, term)
        found = sections if found is None else found & sections
    if not found or len(found) <= limit:
        return [snapshot.locate(*each) for each in sorted(found or ())]
    scores = dict.fromkeys(sorted(found, reverse=True), 0)
    for term in beside:
        if (count := snapshot.count_sections(term)) <= left:
            left -= count
            for each in found & _list_sections(snapshot, term):
                scores[each] += 1
    best = heapq.nlargest(limit, scores, key=scores.__getitem__)
    return [snapshot.locate(*each) for each in best]


def _list_sections(snapshot: Snapshot, term: str) -> set[tuple[int, int]]:
    return {(place, n) for place, numbers in snapshot.find_sections(term) for n in numbers}
