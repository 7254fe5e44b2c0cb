"""How near two texts are, and what they say differently; what is the same, `canonical` tells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from vaultmem.core.finding.terms import term_sequence
from vaultmem.core.similarity.differences import (
    Difference,
    compare_content,
    compare_wording,
    find_unmatched,
)
from vaultmem.core.similarity.events import tells_event
from vaultmem.core.similarity.statement import Statement, read_statement, split_sentences
from vaultmem.core.similarity.tokens import Token, TokenKind

#: How rare a word is, from 0 to 1.
Weigh = Callable[[str], float]

#: Two statements that share less than this of their words are not about the same. In a short one,
#: another value is half of it.
ABOUT_SAME = 0.4

#: From here on two texts without a difference have whole sentences in common.
_COMMON = 0.6

#: A text with fewer words says nothing without its title.
_FEW = 3

#: What a word weighs that names no fact.
_LIGHT_WEIGHT = 0.25

#: Longer texts (characters) are documents, not memories: nothing says the same as they.
MAX_TEXT = 4_000

#: Longer texts are compared sentence by sentence only, longer sentences by their bytes alone; and
#: of what is known no more is looked at than this. Patterns take long on long lines.
_MAX_WHOLE, _MAX_SENTENCE, _MAX_KNOWN = 1_000, 2_000, 20_000
_NOTHING: frozenset[str] = frozenset()


class KnownText(NamedTuple):
    """What a text is compared with: a section, with the title and headings above it."""

    text: str
    title: str = ""


class Likeness(NamedTuple):
    """How much of a text another one says (0 to 1), what differs, and what of it is nearest."""

    similarity: float
    differences: tuple[Difference, ...] = ()
    nearest: str = ""

    def is_said(self, share: float) -> bool:
        """Tell whether so much of the text is said, with other words of its order at most."""
        return self.similarity >= share and all(e.kind == "wording" for e in self.differences)

    @property
    def is_contradiction(self) -> bool:
        """Tell whether they seem to say another value of the same thing.

        What happened on another day is no other value.
        """
        told = [each for each in self.differences if each.kind != "wording"]
        kinds = {each.kind for each in told}
        if "update" in kinds or (kinds == {"date"} and tells_event(self.nearest)):
            return "update" in kinds
        has_values = bool(kinds) and all(each.is_value for each in told) and not _is_turned(told)
        return has_values and self.similarity >= ABOUT_SAME


def _is_turned(told: Sequence[Difference]) -> bool:
    """Tell whether both sides have the same figures: "21 and 28 May", "May 21 to 28"; "4 years"."""
    sides = " ".join(e.ours for e in told).lower(), " ".join(e.theirs for e in told).lower()
    ours, theirs = (set(re.findall(r"[^\W\d]+", side)) for side in sides)
    figures = [sorted(re.findall(r"\d+", side)) for side in sides]
    return figures[0] == figures[1] != [] and (ours == theirs or not (ours and theirs))


def equal_weight(raw: str) -> float:
    """Weigh every word alike."""
    return 1.0


def is_brief(text: str) -> bool:
    """Tell whether a text has so few words that only its title says what it is about."""
    return len(text) <= _MAX_WHOLE and len(read_statement(text).keys) < _FEW


def compare_texts(
    text: str, known: KnownText, weigh: Weigh = equal_weight, context: str = ""
) -> Likeness:
    """Return how much of `text` is said by what is known already.

    `context` are words that belong to the text without standing in it, as `known.title` does.
    """
    if len(text) > MAX_TEXT:
        return Likeness(float(text.strip() == known.text.strip()))
    title = read_statement(known.title[:_MAX_WHOLE]).keys
    around = read_statement(context[:_MAX_WHOLE]).keys
    best: Likeness | None = None
    if len(known.text) <= 2 * max(len(text), 40) and len(text) <= _MAX_WHOLE:
        there = read_statement(known.text)
        best = compare_statements(read_statement(text), there, weigh, around, title)
        if not best.differences:
            return best
    found = _compare_sentences(text, known, weigh, around, title)
    if best is None or found.is_said(_COMMON) or found.similarity > best.similarity:
        return found
    return best


def compare_statements(
    ours: Statement,
    theirs: Statement,
    weigh: Weigh = equal_weight,
    our_context: frozenset[str] = _NOTHING,
    their_context: frozenset[str] = _NOTHING,
) -> Likeness:
    """Compare two statements: Dice's measure over weighted words, and what differs.

    similarity = 1 - (weight of the words that only one has) / (weight of the words of both).
    """
    alone = find_unmatched(ours, theirs, our_context, their_context)
    apart = (alone.ours, alone.theirs, alone.our_numbers, alone.their_numbers)
    whole = _weigh_all((*ours.content.values(), *ours.numbers), weigh)
    whole += _weigh_all((*theirs.content.values(), *theirs.numbers), weigh)
    if not whole:
        return Likeness(float(ours.text.strip() == theirs.text.strip()))
    if not ours.keys & theirs.keys:  # Whatever a title explains: the texts have nothing in common.
        return Likeness(0.0)
    lost = sum(_weigh_all(tokens, weigh) for tokens in apart)
    found = compare_content(ours, theirs, alone) or compare_wording(ours.text, theirs.text)
    return Likeness(max(0.0, 1 - lost / whole), tuple(found), theirs.text)


def _compare_sentences(
    text: str, known: KnownText, weigh: Weigh, around: frozenset[str], title: frozenset[str]
) -> Likeness:
    """Look for each sentence of a text in another."""
    places = [known.title[:_MAX_WHOLE], *split_sentences(known.text[:_MAX_KNOWN])]
    places = [each for each in places if each.strip() and len(each) <= _MAX_SENTENCE]
    total = reached = 0.0
    differences: list[Difference] = []
    nearest, best_so_far = "", 0.0
    for sentence in split_sentences(text):
        if len(sentence) > _MAX_SENTENCE:
            return Likeness(float(sentence in known.text))
        ours = read_statement(sentence)
        weight = _weigh_all((*ours.content.values(), *ours.numbers), weigh)
        found = _find_sentence(ours, places, weigh, around, title)
        total += weight
        reached += weight * found.similarity
        if found.similarity * weight > best_so_far:
            nearest, best_so_far = found.nearest, found.similarity * weight
        if found.similarity >= ABOUT_SAME:
            differences.extend(found.differences)
    return Likeness(reached / total if total else 0.0, tuple(differences), nearest)


def _find_sentence(
    ours: Statement,
    places: Sequence[str],
    weigh: Weigh,
    around: frozenset[str],
    title: frozenset[str],
) -> Likeness:
    """Return the sentence most like one: the same before any that differs, then the nearest."""
    wanted = _quick_terms(ours.text)
    best = Likeness(0.0)
    for place in places:
        if len(wanted & _quick_terms(place)) * 3 < len(wanted):
            continue
        found = compare_statements(ours, read_statement(place), weigh, around, title)
        if (not found.differences, found.similarity) > (not best.differences, best.similarity):
            if found.similarity >= ABOUT_SAME or found.similarity > best.similarity:
                best = found
        elif found.similarity > best.similarity and best.similarity < ABOUT_SAME:
            best = found
    return best


@lru_cache(maxsize=4096)
def _quick_terms(text: str) -> frozenset[str]:
    """Return a text's index terms: enough to pass over what shares hardly any, and quick."""
    return frozenset(term_sequence(text))


def _weigh_all(tokens: Iterable[Token], weigh: Weigh) -> float:
    light = {TokenKind.LIGHT, TokenKind.LABEL}
    return sum(_LIGHT_WEIGHT if t.kind in light else weigh(t.raw) for t in tokens)
