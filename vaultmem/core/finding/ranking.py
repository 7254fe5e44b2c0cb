"""The score of a section for a question, and the order of the best.

BM25F: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009),
in its simple form with one length norm for all fields:

    tf(t, d)  = sum over fields f of  w_f * count of t in field f of d
    len(d)    = sum over fields f of  w_f * terms in field f of d
    words     = sum over terms t of  q(t) * idf(t) * (k1 + 1) * tf / (tf + k1 * (1 - b + b * len / mean))
    idf(t)    = ln(1 + (N - n_t + 0.5) / (n_t + 0.5))
    q(t)      = 2 m / (1 + m) for a term that the question has m times, half of that for a weak word

N, n_t and the mean are counted over the eligible sections alone, so a filter or another commit
gives the scores that a vault of just those notes would give; over several vaults they are sums
(`statistics`). The best by words are looked at
again (`closeness`, `joined`; `named` is what a title or speaker adds that the question names):

    relevance = words + closeness + passage + named + neighbours
    score     = ((1 - w) * relevance + w * best * recency) * state_weight

where best is the largest relevance and w the `recency` of vaultmem.yaml: bounded, so that a strong
old match still wins.
"""  # noqa: E501 - a formula is not broken.

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.finding.eligible import EligibleRows
from vaultmem.core.finding.weights import RankingWeights

Numbers = NDArray[np.int64]
Floats = NDArray[np.float32]

_NO_ROWS, _NO_CODES = np.empty(0, np.int64), np.empty(0, np.uint32)

#: A term's rows, and the codes of its counts in title, tags and body.
Postings = tuple[Numbers, NDArray[np.uint32]]


class Share(NamedTuple):
    """One term's part: its weighted idf, and its rows with the codes of its counts and scores."""

    idf: float
    rows: Numbers
    codes: NDArray[np.uint32]
    scores: Floats
    #: The rows that whom the term names has said.
    said: Numbers


def weigh_query(
    query: Sequence[str], weak: frozenset[str], weights: RankingWeights
) -> dict[str, float]:
    """Return each term of a question with what it counts for."""
    counts = Counter(query)
    only_weak = all(term in weak for term in counts)
    return {
        term: 2 * count / (1 + count) * (weights.weak if term in weak and not only_weak else 1)
        for term, count in counts.items()
    }


def weigh_share(share: Share, weight: float) -> Share:
    """Return a term's part where the term counts `weight` times."""
    if weight == 1:
        return share
    scores = share.scores * np.float32(weight)
    return share._replace(idf=share.idf * weight, scores=scores)


def weigh_counts(counts: NDArray[np.integer[Any]], weights: RankingWeights) -> Floats:
    """Return the weighted frequency for each code (shape of `counts`: codes, 3)."""
    worth = np.array([weights.title, weights.tags, weights.body], np.float32)
    return counts.astype(np.float32) @ worth


def count_rows(rows: Numbers, eligible: EligibleRows) -> int:
    """Return how many of some rows are eligible."""
    return len(rows) if eligible.is_all else int(np.count_nonzero(eligible.mask[rows]))


def measure_idf(sections: int, found: int) -> float:
    """Return the idf of a term that so many of so many sections have."""
    return math.log1p((sections - found + 0.5) / (found + 0.5))


def score_terms(
    postings: Sequence[Postings],
    gains: Sequence[tuple[float, float]],
    frequencies: Floats,
    eligible: EligibleRows,
    total: Floats,
) -> list[Share]:
    """Score the sections that have terms, all at once, and add that to their `total`.

    `gains` are each term's idf and what it counts for. In a small vault the calls take longer than
    the sums, so this is for many vaults; it gives what `score_term`, `weigh_share` and `add_shares`
    give, to the last bit.
    """
    sizes = [len(rows) for rows, _ in postings]
    rows = np.concatenate([_NO_ROWS, *(rows for rows, _ in postings)])
    codes = np.concatenate([_NO_CODES, *(codes for _, codes in postings)])
    scores = frequencies[codes]
    scores /= scores + eligible.norm[rows]
    scores *= np.asarray([idf * (eligible.k1 + 1) for idf, _ in gains], np.float32).repeat(sizes)
    scores *= np.asarray([weight for _, weight in gains], np.float32).repeat(sizes)
    np.add.at(total, rows, scores)
    ends = accumulate(sizes)
    return [
        Share(idf * weight, own, code, scores[end - len(own) : end], _NO_ROWS)
        for (own, code), (idf, weight), end in zip(postings, gains, ends, strict=True)
    ]


def score_term(
    postings: Postings, said: Numbers, frequencies: Floats, eligible: EligibleRows, idf: float
) -> Share:
    """Score the sections that have a term; those that are not eligible score 0.

    `frequencies` are the weighted ones of all codes, `said` the rows that the term marks.
    """
    rows, codes = postings
    scores = frequencies[codes]
    scores /= scores + eligible.norm[rows]  # Infinite where a section is not eligible.
    scores *= idf * (eligible.k1 + 1)
    return Share(idf, rows, codes, scores, said)


def add_shares(shares: Sequence[Share], total: Floats) -> None:
    """Add all terms' scores to those of the rows."""
    for share in shares:
        np.add.at(total, share.rows, share.scores)  # No row twice; quicker than by `+=`.


def best_rows(
    total: Floats, limit: int, place: NDArray[np.integer[Any]], shares: Sequence[Share] = ()
) -> Numbers:
    """Return at most `limit` rows that score above 0, best first, ties by place, then by row.

    What scored least of the `limit` best of one term is a bound that spares looking at most rows.
    """
    rows = (total > max(_find_bound(total, limit, shares), 0.0)).nonzero()[0]
    scores = total[rows]
    if len(rows) > limit > 0:
        at = len(scores) - limit
        kept = scores >= scores[scores.argpartition(at)[at]]
        rows, scores = rows[kept], scores[kept]
    return rows[order_best(scores, place[rows], limit)]


def order_best(
    scores: NDArray[np.floating[Any]], place: NDArray[np.integer[Any]], limit: int
) -> Numbers:
    """Return where the `limit` best scores stand, best first, ties by place, then as they come."""
    return np.lexsort((place, -scores))[: max(limit, 0)]


def _find_bound(total: Floats, limit: int, shares: Sequence[Share]) -> float:
    """Return a score that at least `limit` rows reach, a little lowered; 0 if that is unknown."""
    large = [share for share in shares if len(share.rows) >= limit > 0]
    if not large:
        return 0.0
    rarest = min(large, key=lambda share: len(share.rows))
    scores = total[rarest.rows]
    at = len(scores) - limit
    return float(np.nextafter(scores[scores.argpartition(at)[at]], np.float32(0)))
