"""Scores by words, by meaning and along links, brought together; the best of several vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

#: How many of the nearest a question is moved towards, and how far.
FEEDBACK = 3
FEEDBACK_WEIGHT = 0.5


def blend_scores(
    words: NDArray[np.floating[Any]], meaning: NDArray[np.floating[Any]], weight: float
) -> NDArray[np.float32]:
    """Return the blended scores of one query's candidates, 0..1 (shape: candidates).

    `weight` is the share of `words`, 0 to 1. A candidate whose meaning is not known (nan) gets
    the mean of the others: it is judged by its words alone.
    """
    known = np.isfinite(meaning)
    scaled = np.full(len(meaning), 0.0, np.float64)
    if known.any():
        scaled[known] = _scale(meaning[known])
        scaled[~known] = scaled[known].mean()
    blended: NDArray[np.float32] = (weight * _scale(words) + (1 - weight) * scaled).astype(
        np.float32
    )
    return blended


def best_of_each(
    scores: NDArray[np.float32], order: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the highest score of each group (shape: groups).

    `order` puts the scores of a group side by side, `starts` is where each group begins then.
    """
    if not len(starts):
        return np.zeros(0, np.float32)
    best: NDArray[np.float32] = np.maximum.reduceat(scores[order], starts)
    return best


def best_groups(scores: NDArray[np.float32], limit: int) -> list[int]:
    """Return at most `limit` groups, best first, those of lower number first where equal.

    Groups of -inf are left out. The numbers are those of sorted keys, so that an index with
    another past chooses the same.
    """
    limit = min(limit, len(scores))
    least = np.partition(scores, len(scores) - limit)[len(scores) - limit] if limit else 0.0
    top = np.flatnonzero((scores >= least) & (scores > -np.inf))
    return [int(group) for group in top[np.lexsort((top, -scores[top]))][:limit]]


def move_towards(asked: NDArray[np.float32], nearest: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a question's vector moved towards the nearest ones (shape: nearest, dimensions)."""
    moved = asked + FEEDBACK_WEIGHT * nearest.mean(axis=0)
    scaled: NDArray[np.float32] = (moved / max(float(np.linalg.norm(moved)), 1e-12)).astype(
        np.float32
    )
    return scaled


def _scale(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the values with the lowest as 0 and the highest as 1; all 0 where they are equal."""
    if not len(values):
        return np.zeros(0, np.float64)
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-12:
        return np.zeros(len(values), np.float64)
    return (values.astype(np.float64) - low) / (high - low)


K = TypeVar("K")

#: What a linked section gets of the score of the best section that links to it.
LINK_SHARE = 0.3


def share_scores(
    ranked: Sequence[tuple[K, float]], links: Mapping[K, Sequence[K]], share: float = LINK_SHARE
) -> list[tuple[K, float, K | None]]:
    """Return sections with their new scores, best first, and which one each got a share from.

    `ranked` are sections with their own scores, `links` the sections that each of these links to.
    A share is passed on once: it is of a section's own score, never of what it was given. Among
    equal scores, what came first stays first.
    """
    own = dict(ranked)
    given: dict[K, tuple[float, K]] = {}
    for key, score in ranked:
        for target in links.get(key, ()):
            if target != key and score * share > given.get(target, (0.0, key))[0]:
                given[target] = (score * share, key)
    found = [(key, score + given.get(key, (0.0,))[0], given.get(key)) for key, score in ranked]
    found += [(key, gift[0], gift) for key, gift in given.items() if key not in own]
    found.sort(key=lambda each: -round(each[1], 5))
    return [(key, score, gift[1] if gift else None) for key, score, gift in found]
