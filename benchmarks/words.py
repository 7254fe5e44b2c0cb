"""Words for made-up notes: real function words and pronounceable invented ones, by Zipf's law."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

_FUNCTION_TEXT = (
    "the of and to a in is that it for was on with as be at by this have from or are not but "
    "which they you we all were their has been one will there can if when who no more what about "
    "so its up into than them only some could time out these two then do first any like now such "
    "new should did our other may over must after also even most where before through how just "
    "because each between does still while without both until once under during against again"
)

_COMMON_TEXT = (
    "note change test build deploy release service request error data table column index query "
    "user token session login page cache file folder commit branch review decision rule step run "
    "config default value limit timeout retry queue worker job log metric alert backup restore "
    "migration schema version client server endpoint response field format list path key secret"
)

#: The commonest words of English prose, commonest first: two words of five in a made-up note.
FUNCTION_WORDS = tuple(_FUNCTION_TEXT.split())

#: Words that stand in many project notes; they come next in frequency.
COMMON_WORDS = tuple(_COMMON_TEXT.split())

_ONSETS = "b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p pl pr qu r s sh sl sp st t tr v w"
_VOWELS = "a e i o u ai ea ee ie oa oo ou"
_CODAS = "b ck d ft g l ll lt m mp n nd ng nt p r rd rk rm rn rt s sk ss st t th x"
_ENDINGS = ("", "", "", "", "s", "ed", "ing", "er", "ation", "able", "ly", "ment")

#: Zipf-Mandelbrot: a word of rank r comes with a weight of 1 / (r + SHIFT) ** EXPONENT.
_EXPONENT, _SHIFT = 1.05, 2.7


def make_vocabulary(size: int, seed: int) -> list[str]:
    """Return `size` different words, commonest and mostly shortest first; the same for a seed."""
    rng = random.Random(seed)
    real = dict.fromkeys([*FUNCTION_WORDS, *COMMON_WORDS])
    invented: dict[str, None] = {}
    while len(real) + len(invented) < size:
        stem = _make_stem(rng)
        if stem not in real:
            invented.update((stem + ending, None) for ending in rng.sample(_ENDINGS, 2))
    ordered = sorted(invented, key=lambda word: len(word) + rng.random() * 6)
    return [*real, *ordered][:size]


def draw_ranks(
    rng: np.random.Generator, count: int, size: int, skipped: int = 0
) -> NDArray[np.int64]:
    """Draw `count` ranks below `size` by Zipf's law; the first `skipped` never come."""
    weights = 1.0 / (np.arange(skipped, size) + _SHIFT) ** _EXPONENT
    borders = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(borders, rng.random(count)) + skipped, size - 1)


def _make_stem(rng: random.Random) -> str:
    onsets, vowels, codas = _ONSETS.split(), _VOWELS.split(), _CODAS.split()
    first = rng.choice(onsets) + rng.choice(vowels) if rng.random() < 0.7 else ""
    return first + rng.choice(onsets) + rng.choice(vowels) + rng.choice(codas)


def content_words(words: list[str]) -> list[str]:
    """Return the words that mean something; all of them where there is none."""
    return [word for word in words if word not in _FUNCTION_SET and len(word) > 2] or words


_FUNCTION_SET = frozenset(FUNCTION_WORDS)
