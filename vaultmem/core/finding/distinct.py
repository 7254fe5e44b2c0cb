"""Distinct numbers, without what `numpy.unique` imports on its first use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def sort_distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the different numbers in ascending order."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]
