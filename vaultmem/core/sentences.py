"""Where a sentence ends: not at the stop of an abbreviation, an initial or a date.

Most abbreviations are found by how they are written; the rest are in `abbreviations.txt` of each
language. In doubt a sentence goes on, since half a sentence is worse than two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from vaultmem.core.languages import read_lines, read_words

_END = re.compile(r"(?<=[.!?…])[\"'”’)\]*_]*\s+|(?<=[。！？])\s*")
_LAST_WORD = re.compile(r"(?<![\w'’])(?:[^\W_]+\.)*([^\W_]+)\.$")
_NEXT_WORD = re.compile(r"[^\W\d_]+")

#: Characters of the longest abbreviation that a rule finds, and of what is read before a stop.
_SHORT, _READ = 4, 40


def find_sentence_ends(text: str, start: int = 0) -> Iterator[int]:
    """Yield where each sentence but the last ends, behind the blanks that follow it."""
    for match in _END.finditer(text, start):
        if not _goes_on(text, *match.span()):
            yield match.end()


def _goes_on(text: str, stop: int, after: int) -> bool:
    """Tell whether a sentence goes on after the mark before `stop`; the rest begins at `after`."""
    following = text[after : after + 1]
    if following.islower():
        return True
    word = _LAST_WORD.search(text, max(stop - _READ, 0), stop)
    return word is not None and _is_short(word[1], word[0], following, text[after : after + _READ])


def _is_short(word: str, whole: str, following: str, rest: str) -> bool:
    """Tell whether a word that a stop follows is an abbreviation, an initial or part of a date.

    `whole` is the word with what dots join to it, `following` the first character of the `rest`.
    """
    if word.isdigit():  # 3. März
        month = _NEXT_WORD.match(rest) if len(whole) <= len("31.") else None
        return month is not None and month[0].lower() in _months()
    if len(word) == 1:  # J. Smith, e.g. Rome
        return True
    if len(word) <= _SHORT and word.isalpha() and following.isdigit():  # No. 5
        return True
    return _is_without_vowel(word) or word.lower() in read_words("abbreviations")


def _is_without_vowel(word: str) -> bool:
    """Tell whether a word is written as Dr and Mrs are; DNS is not."""
    return (
        len(word) <= _SHORT
        and word.isascii()
        and word.istitle()
        and not set("aeiouy").intersection(word.lower())
    )


@cache
def _months() -> frozenset[str]:
    return frozenset(line.partition(" ")[0] for line in read_lines("months"))
