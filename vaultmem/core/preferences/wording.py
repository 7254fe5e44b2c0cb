"""The words by which a standing wish is known, from the tables `standing.txt` of all languages."""

from __future__ import annotations

import re
from functools import cache

from vaultmem.core.languages import read_lines

#: A sentence that is looked at has words of one of these sorts in it, or forbids with exceptions.
_SIGNS = ("always", "anchor", "lasting", "leave", "wish", "taste", "third")

_NEVER = re.compile(r"(?!)")


@cache
def read_sort(sort: str) -> frozenset[str]:
    """Return the words and phrases of a sort."""
    found = (line.partition(" ") for line in read_lines("standing"))
    return frozenset(said for name, _, said in found if name == sort)


@cache
def match_sort(*sorts: str) -> re.Pattern[str]:
    """Return an expression that finds the whole words of any of these sorts, the longest first."""
    said = frozenset().union(*map(read_sort, sorts))
    if not said:
        return _NEVER
    listed = "|".join(re.escape(each) for each in sorted(said, key=lambda each: (-len(each), each)))
    return re.compile(rf"(?<![\w'])(?:{listed})(?![\w'])")


def has_sign(text: str) -> bool:
    """Tell whether a text in lower case may hold a standing wish at all.

    Most do not, and are told so without an expression: to make these ready takes milliseconds.
    """
    words = frozenset(re.findall(r"[^\W_]+(?:'[^\W_]+)*", text))
    if _sign_words().isdisjoint(words):
        return False
    flat = " ".join(text.split())
    return _has_phrase(flat, *_SIGNS) or (_has_phrase(flat, "unless") and _has_phrase(flat, "dont"))


def _has_phrase(flat: str, *sorts: str) -> bool:
    return any(phrase in flat for sort in sorts for phrase in read_sort(sort))


@cache
def _sign_words() -> frozenset[str]:
    """Return the longest word of each phrase that a standing wish has at least one of."""
    phrases = frozenset().union(*map(read_sort, (*_SIGNS, "unless")))
    return frozenset(max(each.replace(",", "").split(), key=len) for each in phrases)
