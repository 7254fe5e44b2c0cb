"""Words of the vault that are spelt almost as one that is not there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: A byte's bit in a word's set of letters: one for each letter, one for all else.
_BITS = np.array(
    [1 << (byte - 97 if 97 <= byte <= 122 else 26) for byte in range(256)], dtype=np.uint32
)
_COUNTS = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


def allow_distance(word: str) -> int:
    """Return how many letters may be wrong: 1 from 4 letters on, 2 from 6, none in numbers."""
    if not word.isalpha() or len(word) < 4:
        return 0
    return 1 if len(word) < 6 else 2


def find_similar(
    term: str, names: bytes, starts: NDArray[np.uint32], most: int
) -> list[tuple[int, str]]:
    """Return distance and name of the terms that differ in at most `most` letters, nearest first.

    `names` are the terms' UTF-8, joined, and `starts` where each begins and the last ends.
    """
    if len(starts) < 2:
        return []
    key = term.encode()
    lengths = np.diff(starts.astype(np.int64))
    near = np.abs(lengths - len(key)) <= most
    letters = _BITS[np.frombuffer(names, np.uint8)]
    sets = np.bitwise_or.reduceat(letters, starts[:-1].astype(np.int64))
    wanted = np.bitwise_or.reduce(_BITS[np.frombuffer(key, np.uint8)])
    # A wrong letter changes the set of letters by two at most.
    different = _COUNTS[(sets ^ wanted).view(np.uint8)].reshape(-1, 4).sum(1)
    found = []
    for number in np.flatnonzero(near & (different <= 2 * most)).tolist():
        name = names[starts[number] : starts[number + 1]].decode("utf-8", "replace")
        distance = measure_distance(term, name, most)
        if distance <= most:
            found.append((distance, name))
    return sorted(found)


def measure_distance(one: str, other: str, most: int) -> int:
    """Return how many letters are wrong, missing, too many or exchanged with the next.

    Beyond `most`, any larger number. Source: the "optimal string alignment" distance.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]
