"""Which preferences a question concerns: those about its words, and those about everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.terms import count_terms, weak_terms

#: Of the sections that a question finds, the first ones concern it.
_FOUND = 10


class Preference(NamedTuple):
    """A section of what the owner prefers, and what that is about; "" if it is everything."""

    hit: Hit
    about: str


class Wishes(NamedTuple):
    """What the owner prefers, first what concerns the question most, and its share of a pack."""

    hits: Sequence[Hit] = ()
    share: float = 0.0


def choose_preferences(
    known: Sequence[Preference], question: str, found: Sequence[Hit]
) -> list[Hit]:
    """Return the preferences that concern a question, those first that concern it most.

    `found` is what recall finds, best first. Without a question, all concern it.
    """
    if not question.strip():
        return [each.hit for each in sorted(known, key=lambda each: each.about != "")]
    asked = frozenset(count_terms(question))
    places = {hit.local_key: place for place, hit in enumerate(found[:_FOUND])}
    ranked: list[tuple[float, int, int]] = []
    for number, (hit, about) in enumerate(known):
        place, share = places.get(hit.local_key), _share_topic(about, asked)
        if share or not about or place is not None:
            ranked.append((-share, _FOUND if place is None else place, number))
    return [known[number].hit for *_, number in sorted(ranked)]


def _share_topic(about: str, asked: frozenset[str]) -> float:
    """Return how much of what a preference is about a question names, 0 to 1."""
    terms = frozenset(count_terms(about)) - weak_terms()
    return len(terms & asked) / len(terms) if terms else 0.0
