"""The score of a section for a query: BM25F over title, tags and body, plus closeness.

BM25F: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009),
in its simple form with one length norm for all fields:

    tf(t, d)  = sum over fields f of  w_f * count of t in field f of d
    len(d)    = sum over fields f of  w_f * terms in field f of d
    score     = sum over terms t of  idf(t) * (k1 + 1) * tf / (tf + k1 * (1 - b + b * len / mean))
    idf(t)    = ln(1 + (N - n_t + 0.5) / (n_t + 0.5))

N, n_t and the mean are counted over the eligible sections alone, so a filter or another commit
gives the scores that a vault of just those notes would give.

Closeness: query terms that stand side by side in the text add 0.6 of the smaller idf of each
pair (T. Tao, C. Zhai, "An Exploration of Proximity Measures in Information Retrieval", 2007,
measures why), the whole query as a phrase another 0.3 of all idf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Scores = NDArray[np.float32]
Postings = Mapping[str, tuple[Numbers, NDArray[np.float32]]]

PAIR_WEIGHT = 0.6
PHRASE_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """The parameters of the formula above."""

    k1: float = 1.2
    b: float = 0.5
    fields: Mapping[str, float] = field(
        default_factory=lambda: {"title": 3.0, "tags": 1.5, "body": 1.0}
    )


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scores of all sections (shape: sections), and each term's idf and share (same shape)."""

    total: Scores
    idf: tuple[float, ...]
    shares: tuple[Scores, ...]


def score_sections(
    postings: Sequence[Postings],
    lengths: Mapping[str, Numbers],
    eligible: NDArray[np.bool_],
    weights: RankingWeights,
) -> Scoring:
    """Score every section; `postings` has one mapping of field to postings for each query term.

    Sections that are not eligible score 0.
    """
    size = len(eligible)
    count = int(np.count_nonzero(eligible))
    length = np.zeros(size, np.float32)
    for name, weight in weights.fields.items():
        length += weight * lengths[name].astype(np.float32)
    mean = float(length[eligible].mean()) if count else 1.0
    norm = weights.k1 * (1 - weights.b + weights.b * length / max(mean, 1e-9))
    total = np.zeros(size, np.float32)
    idf: list[float] = []
    shares: list[Scores] = []
    for fields in postings:
        frequency = np.zeros(size, np.float32)
        for name, weight in weights.fields.items():
            numbers, counts = fields[name]
            frequency[numbers] += weight * counts
        frequency *= eligible
        found = int(np.count_nonzero(frequency))
        rarity = float(np.log1p((count - found + 0.5) / (found + 0.5)))
        gain = np.float32(rarity * (weights.k1 + 1))
        share: Scores = (gain * frequency / (frequency + norm)).astype(np.float32)
        idf.append(rarity)
        shares.append(share)
        total += share
    return Scoring(total, tuple(idf), tuple(shares))


def best_sections(total: Scores, limit: int) -> list[int]:
    """Return the numbers of at most `limit` sections that score above 0, best first.

    Of sections with the same score, those of lower number come first.
    """
    limit = min(limit, int(np.count_nonzero(total)))
    if limit <= 0:
        return []
    least = np.partition(total, len(total) - limit)[len(total) - limit]
    top = np.flatnonzero(total >= least)
    return [int(number) for number in top[np.lexsort((top, -total[top]))][:limit]]


def measure_closeness(terms: Sequence[str], idf: Sequence[float], text: Sequence[str]) -> float:
    """Return what the order of words adds to a score.

    `terms` is the query in order and `idf` its terms' rarity; `text` is a section's terms in order.
    """
    if len(terms) < 2:
        return 0.0
    pairs = set(pairwise(text))
    wanted = list(pairwise(terms))
    bonus = sum(
        PAIR_WEIGHT * min(idf[i], idf[i + 1]) for i, pair in enumerate(wanted) if pair in pairs
    )
    if all(pair in pairs for pair in wanted) and _has_phrase(terms, text):
        bonus += PHRASE_WEIGHT * sum(idf)
    return bonus


def _has_phrase(terms: Sequence[str], text: Sequence[str]) -> bool:
    first, length = terms[0], len(terms)
    wanted = list(terms)
    return any(
        word == first and list(text[start : start + length]) == wanted
        for start, word in enumerate(text)
    )
