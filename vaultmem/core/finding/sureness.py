"""How sure an answer is, by what its best section has of what was asked.

A section's `strength` is its relevance by words over the idf of all that was asked, where a word
that the vault does not have counts as the rarest: a mean gain for each word, which neither the
length of the question nor the size of the vault shifts. `coverage` is the share of that idf that
stands in the section. docs/decisions/0014 has how often evidence was there at each level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.terms import is_stop_term

#: Strength from which an answer is no accident, and from which it is strong.
_WEAK, _STRONG = 0.1, 0.4

#: Sections, the best, by which an answer is judged.
JUDGED = 3

#: Share of what was asked that a strong answer has, at least.
_COVERAGE = 0.25


class Sureness(StrEnum):
    """What an answer is worth: `none` says that what was found probably answers nothing."""

    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


def judge_hits(hits: Sequence[Hit]) -> Sureness:
    """Tell how sure an answer is by its best sections."""
    first = hits[:JUDGED]
    if any(map(is_strong, first)):
        return Sureness.STRONG
    if any(hit.strength >= _WEAK or (hit.semantic and not hit.matches) for hit in first):
        return Sureness.WEAK
    return Sureness.NONE


def is_strong(hit: Hit) -> bool:
    """Tell whether a section answers: a single word of several is no answer, however rare.

    Neither are stop words.
    """
    is_alone = len(hit.matches) == 1 and hit.coverage < 1
    if all(is_stop_term(match.term) for match in hit.matches):
        return False
    return hit.strength >= _STRONG and hit.coverage >= _COVERAGE and not is_alone


def tell_replaced(replaced: Mapping[str, str]) -> list[str]:
    """Return what is to be said of words that the vault does not have, a line each."""
    return [
        f'"{word}" is not in this vault; searched for "{other}".'
        for word, other in replaced.items()
    ]


def tell_sureness(sureness: Sureness | None, elsewhere: str = "") -> list[str]:
    """Return what is to be said of an answer that is not strong, a line each.

    None says that nothing was found, `elsewhere` who has an answer.
    """
    told = "Nothing in this vault answers that." if sureness is None else _TOLD.get(sureness, "")
    return [line for line in (told, elsewhere and f"{elsewhere}.") if line]


_TOLD = {
    Sureness.WEAK: "Not sure: this has only a part of what was asked.",
    Sureness.NONE: "Probably nothing in this vault answers that; this comes nearest.",
}
