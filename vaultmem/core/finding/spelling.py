"""Words of the vault that are spelt almost as one that is not there."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Letters that a stemmer takes off a word at most.
_SUFFIX = 6

#: A byte's bit in a word's set of letters: one for each letter, one for all else.
_BITS = np.array(
    [1 << (byte - 97 if 97 <= byte <= 122 else 26) for byte in range(256)], dtype=np.uint32
)
_COUNTS = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


def allow_distance(word: str, is_alone: bool = False) -> int:
    """Return how many letters may be wrong: 1 from 5 letters on, 2 from 8, none in numbers.

    Of a word that is alone, whose question has nothing else to go by: from 4 on, and from 6.
    """
    if not word.isalpha():
        return 0
    once, twice = (4, 6) if is_alone else (5, 8)
    return (len(word) >= once) + (len(word) >= twice)


class Spellings(NamedTuple):
    """The terms of a segment: their UTF-8, joined, where each begins, and the letters of each."""

    names: bytes
    starts: NDArray[np.int64]
    sets: NDArray[np.uint32]


def read_spellings(names: bytes, starts: NDArray[np.uint32]) -> Spellings:
    """Return terms, given as joined UTF-8 and where each begins and the last ends."""
    edges = starts.astype(np.int64)
    letters = _BITS[np.frombuffer(names, np.uint8)]
    sets = np.bitwise_or.reduceat(letters, edges[:-1]) if len(edges) > 1 else letters[:0]
    return Spellings(names, edges, sets)


def find_near_stems(
    word: str, stem: str, terms: Spellings, most: int, is_alone: bool = False
) -> list[tuple[int, str]]:
    """Return the terms that may be the stem of the word that was meant, each with a distance.

    They differ in at most `most` letters from the word's own stem, or from how the word begins:
    the stem of `educaton` is the word itself, that of `education` is `educ`. Where only the
    beginning is alike, the first letter must be one of the first two; where
    the word is not alone (`is_alone`), in all of it.
    """
    if not len(terms.sets):
        return []
    key, own = (np.frombuffer(each.encode(), np.uint8) for each in (word, stem))
    lengths = np.diff(terms.starts)
    begins = np.bitwise_or.accumulate(_BITS[key])[np.minimum(lengths, len(key)) - 1]
    firsts = np.frombuffer(terms.names, np.uint8)[terms.starts[:-1]]
    # A wrong letter changes the set of letters by two at most.
    fits = _count_bits(terms.sets ^ begins) <= 2 * most
    fits &= (lengths >= max(3, len(key) - _SUFFIX)) & (lengths < len(key))
    fits &= (firsts == key[0]) | (firsts == key[1])
    alike = _count_bits(terms.sets ^ np.bitwise_or.reduce(_BITS[own])) <= 2 * most
    alike &= np.abs(lengths - len(own)) <= most
    fits |= alike if is_alone else alike & (firsts == key[0])
    found = []
    for number in np.flatnonzero(fits).tolist():
        name = terms.names[terms.starts[number] : terms.starts[number + 1]].decode(
            "utf-8", "replace"
        )
        distance = min(measure_distance(each, name, most) for each in (stem, word[: len(name)]))
        if distance <= most and name.isalpha():
            found.append((distance, name))
    return sorted(found)


def _count_bits(sets: NDArray[np.uint32]) -> NDArray[np.integer[Any]]:
    counts: NDArray[np.integer[Any]] = _COUNTS[sets.view(np.uint8)].reshape(-1, 4).sum(1)
    return counts


@lru_cache(maxsize=16_384)  # Vaults that are asked as one have most of their words in common.
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
