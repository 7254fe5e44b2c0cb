"""Scores by words and by meaning, blended; and the best of a section's several vectors.

Both scores are brought to 0..1 within the candidates of one query (min-max), since neither has a
scale of its own, then mixed: `weight * words + (1 - weight) * meaning` (J. H. Lee, "Analyses of
Multiple Evidence Combination", 1997; S. Bruch et al., "An Analysis of Fusion Functions for Hybrid
Retrieval", 2023, finds it better than the fusion of ranks).

A question is moved towards what it finds first and asked again (J. Rocchio, "Relevance Feedback
in Information Retrieval", 1971; H. Li et al., "Pseudo Relevance Feedback with Deep Language Models
and Dense Retrievers", 2021, measures it for vectors).
"""

from __future__ import annotations

from typing import Any

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
