"""Whether a sentence tells of something that happened, and not of how something is."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

from vaultmem.core.languages import read_pairs
from vaultmem.core.similarity import words as traits
from vaultmem.core.similarity.figures import MONTHS

_WORD = re.compile(r"[^\W\d_]+")

#: A note of a day: "3 July 2023: we met" or "On 3 July 2023, we met".
_DAY = re.compile(
    rf"\W*(?:(?:On|Am) )?(?:\d{{4}}-\d\d-\d\d|\d{{1,2}}\.\d{{1,2}}\.\d{{4}}"
    rf"|\d{{1,2}}\.? {MONTHS} \d{{4}}|{MONTHS} \d{{1,2}}, \d{{4}})"
)

#: Behind these a form in the past is a participle.
_NO_PAST = (traits.COPULAS - traits.PAST) | {"has", "have", "been", "the", "a", "an", "by", "to"}

#: Forms of the table that are of the present too, or of no verb.
_PRESENT = frozenset({"children", "feet", "indices", "lives", "matrices", "men", "mice", "people"})


def tells_event(text: str) -> bool:
    """Tell whether a sentence begins with its day, or has a verb in the past."""
    return _DAY.match(text) is not None or any(map(is_past, _WORD.findall(text)))


def tells_past(text: str) -> bool:
    """Tell whether a sentence has a verb in the past; "is used" and "has moved" are none."""
    found = _WORD.findall(text)
    return any(
        word.lower() in traits.PAST or (is_past(word) and before.lower() not in _NO_PAST)
        for before, word in pairwise(["", *found])
    )


def is_past(word: str) -> bool:
    """Tell whether a word is written as a verb in the past is; a participle may be one too."""
    lower = word.lower()
    return lower in traits.PAST or lower in _read_forms() or (word == lower and word[-2:] == "ed")


@cache
def _read_forms() -> frozenset[str]:
    return frozenset(read_pairs("irregular_forms")) - _PRESENT
