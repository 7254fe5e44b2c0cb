"""Pack integers into few bytes and unpack them, with array operations.

Each byte has seven bits, lowest first; the eighth bit means that more bytes follow. Source:
"variable byte" coding, C. Manning, P. Raghavan, H. Schütze, "Introduction to Information
Retrieval", 5.3.1 (2008), but there with the highest bits first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_BYTES = 5


def pack_numbers(numbers: NDArray[np.uint32]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the packed bytes, and the start of each number and the end (shape: numbers + 1)."""
    sizes = np.ones(len(numbers), np.int64)
    for more in range(1, _MAX_BYTES):
        sizes += numbers >= np.uint64(1 << 7 * more)
    starts = np.zeros(len(numbers) + 1, np.int64)
    sizes.cumsum(out=starts[1:])
    packed = np.empty(starts[-1], np.uint8)
    places, left = starts[:-1], numbers
    for size in range(1, int(sizes.max(initial=0)) + 1):
        goes_on = sizes > size
        packed[places] = (left & np.uint32(0x7F)) | (goes_on.astype(np.uint32) << np.uint32(7))
        places, left, sizes = places[goes_on] + 1, left[goes_on] >> np.uint32(7), sizes[goes_on]
    return packed, starts


def unpack_numbers(packed: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the numbers packed by `pack_numbers`."""
    ends = (packed < 0x80).nonzero()[0]
    numbers = packed.take(ends).astype(np.uint32)
    sizes = ends.copy()  # Number of bytes before the last byte.
    sizes[1:] -= ends[:-1] + 1
    for back in range(1, _MAX_BYTES):
        longer = (sizes >= back).nonzero()[0]
        if not len(longer):
            break
        low = packed.take(ends.take(longer) - back) & np.uint8(0x7F)
        numbers[longer] = (numbers.take(longer) << np.uint32(7)) | low
    return numbers


def spread(starts: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the positions of several runs, concatenated, from their starts and sizes."""
    before = sizes.cumsum(dtype=np.int64) - sizes
    places: NDArray[np.int64] = np.repeat(starts - before, sizes)
    return places + np.arange(len(places))
