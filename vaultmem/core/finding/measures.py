"""How good answers are: recall, nDCG, and how sure a mean over some questions is."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

#: Samples that an interval is made of, and the share of their means that lies in it.
_SAMPLES = 2_000
_INSIDE = 0.95


class Figure(NamedTuple):
    """A mean over questions, and between what it would lie for other questions like these."""

    mean: float
    low: float
    high: float


def measure_share(wanted: Collection[T], found: Container[T]) -> float:
    """Return the share of what is wanted that was found, 0 to 1."""
    return sum(each in found for each in wanted) / len(wanted)


def measure_recall(ranked: Sequence[str], wanted: Collection[str], depth: int) -> float:
    """Return the share of the wanted notes that are among the first `depth`."""
    return measure_share(wanted, ranked[:depth])


def measure_ndcg(ranked: Sequence[str], wanted: Collection[str], depth: int) -> float:
    """Return how far up the wanted notes stand among the first `depth`: 1 if none is before them.

    Each wanted note is as good as another. Source: Järvelin and Kekäläinen, "Cumulated gain-based
    evaluation of IR techniques", 2002, in the form of trec_eval's `ndcg_cut`: rank r counts
    1 / log2(r + 1).
    """
    gains = [1 / math.log2(place + 2) for place in range(depth)]
    found = sum(gain for note, gain in zip(ranked, gains, strict=False) if note in wanted)
    return found / sum(gains[: len(wanted)])


def summarise(values: NDArray[np.float64]) -> list[Figure]:
    """Return the mean of each column (rows are questions) with its 95 % interval.

    By bootstrap with a fixed seed (Efron, "Bootstrap methods", 1979), so equal values give equal
    figures.
    """
    import numpy as np

    chance = np.random.default_rng(0)
    picked = (chance.integers(0, len(values), len(values)) for _ in range(_SAMPLES))
    means = np.array([values[each].mean(0) for each in picked])
    ends = np.percentile(means, [50 * (1 - _INSIDE), 50 * (1 + _INSIDE)], axis=0)
    columns = zip(values.mean(0).tolist(), *ends.tolist(), strict=True)
    return [Figure(*(round(value, 4) for value in column)) for column in columns]
