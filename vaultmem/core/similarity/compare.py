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
from vaultmem.core.similarity.statement import (
    Statement,
    read_statement,
    split_sentences,
    tells_event,
)
from vaultmem.core.similarity.subjects import find_subjects, find_titled
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
_LIGHT_WEIGHT, _LIGHT_KINDS = 0.25, frozenset([TokenKind.LIGHT, TokenKind.LABEL])

#: Longer texts (characters) are documents, not memories: nothing says the same as they.
MAX_TEXT = 4_000

#: Longer texts are compared sentence by sentence only, longer sentences by their bytes alone; and
#: of what is known no more is looked at than this. Patterns take long on long lines.
_MAX_WHOLE, _MAX_SENTENCE, _MAX_KNOWN = 1_000, 2_000, 20_000
_NOTHING: frozenset[str] = frozenset()

#: By how much a sum in another order may differ.
_ROUNDING = 1e-9


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

        What happened on another day is no other value, and neither is that of another subject.
        """
        told = [each for each in self.differences if each.kind != "wording"]
        kinds = {each.kind for each in told}
        if "subject" in kinds:
            return False
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
    text: str,
    known: KnownText,
    weigh: Weigh = equal_weight,
    context: str = "",
    is_wanted: Callable[[Likeness], bool] | None = None,
) -> Likeness:
    """Return how much of `text` is said by what is known already.

    `context` are words that belong to the text without standing in it, as `known.title` does. Where
    `is_wanted` is given, what it refuses is not read to its end: it is asked with the most that
    the similarity may be and some of the differences, and what it refused is returned.
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
        if is_wanted and is_wanted(best):
            is_wanted = None
    found = _compare_sentences(text, known, weigh, around, title, is_wanted)
    if best is None or found.is_said(_COMMON) or found.similarity > best.similarity:
        return found
    return best


def compare_titled(text: str, title: str, known: KnownText, likeness: Likeness) -> Likeness:
    """Return a likeness that tells, too, whether title and first sentence name another thing."""
    found = find_titled(text, title, *known) if likeness.is_contradiction else None
    if found is None:
        return likeness
    return likeness._replace(differences=(Difference("subject", *found), *likeness.differences))


def compare_statements(
    ours: Statement,
    theirs: Statement,
    weigh: Weigh = equal_weight,
    our_context: frozenset[str] = _NOTHING,
    their_context: frozenset[str] = _NOTHING,
    matters: Callable[[float], bool] | None = None,
) -> Likeness:
    """Compare two statements: Dice's measure over weighted words, and what differs.

    similarity = 1 - (weight of the words that only one has) / (weight of the words of both).
    Of one that does not matter, it is not said what differs.
    """
    whole = _weigh_statement(ours, weigh) + _weigh_statement(theirs, weigh)
    if not whole:
        return Likeness(float(ours.text.strip() == theirs.text.strip()))
    if ours.keys.isdisjoint(theirs.keys):  # Whatever a title explains: they share nothing.
        return Likeness(0.0)
    alone = find_unmatched(ours, theirs, our_context, their_context)
    apart = (alone.ours, alone.theirs, alone.our_numbers, alone.their_numbers)
    similarity = max(0.0, 1 - sum(_weigh_all(tokens, weigh) for tokens in apart) / whole)
    if matters and not matters(similarity):
        return Likeness(similarity)
    found = compare_content(ours, theirs, alone) or compare_wording(ours.text, theirs.text)
    if all(e.is_value for e in found) and (subjects := find_subjects(ours.text, theirs.text)):
        found = [Difference("subject", *subjects), *found]
    return Likeness(similarity, tuple(found), theirs.text)


def _compare_sentences(
    text: str,
    known: KnownText,
    weigh: Weigh,
    around: frozenset[str],
    title: frozenset[str],
    is_wanted: Callable[[Likeness], bool] | None,
) -> Likeness:
    """Look for each sentence of a text in another."""
    sentences = _split(text)
    if long := next((each.text for each in sentences if len(each.text) > _MAX_SENTENCE), ""):
        return Likeness(float(long in known.text))
    places = _list_places(known)
    near = [[each for each in places if sentence.is_near(each)] for sentence in sentences]
    if not any(near):
        return Likeness(0.0)
    ours = [read_statement(each.text) for each in sentences]
    weights = [_weigh_statement(each, weigh) for each in ours]
    total, reached = sum(weights), 0.0
    left = sum(weight for weight, there in zip(weights, near, strict=True) if there)
    differences: list[Difference] = []
    nearest, best_so_far = "", 0.0
    for statement, weight, there in zip(ours, weights, near, strict=True):
        if is_wanted and total:
            most = Likeness((reached + left) / total + _ROUNDING, tuple(differences))
            if not is_wanted(most):
                return most
        if not there:
            continue
        found = _find_sentence(statement, there, weigh, around, title)
        left -= weight
        reached += weight * found.similarity
        if found.similarity * weight > best_so_far:
            nearest, best_so_far = found.nearest, found.similarity * weight
        if found.similarity >= ABOUT_SAME:
            differences.extend(found.differences)
    return Likeness(reached / total if total else 0.0, tuple(differences), nearest)


def _find_sentence(
    ours: Statement,
    places: Iterable[_Sentence],
    weigh: Weigh,
    around: frozenset[str],
    title: frozenset[str],
) -> Likeness:
    """Return the sentence most like one: the same before any that differs, then the nearest."""
    best = Likeness(0.0)

    def may_be_best(similarity: float) -> bool:
        is_enough = bool(best.differences) and similarity >= ABOUT_SAME
        return is_enough or similarity > best.similarity

    for place in places:
        theirs = read_statement(place.text)
        found = compare_statements(ours, theirs, weigh, around, title, may_be_best)
        if (not found.differences, found.similarity) > (not best.differences, best.similarity):
            if found.similarity >= ABOUT_SAME or found.similarity > best.similarity:
                best = found
        elif found.similarity > best.similarity and best.similarity < ABOUT_SAME:
            best = found
    return best


class _Sentence(NamedTuple):
    """A sentence with its index terms: enough to pass over what shares hardly any, and quick."""

    text: str
    terms: frozenset[str]

    def is_near(self, other: _Sentence) -> bool:
        return len(self.terms & other.terms) * 3 >= len(self.terms)


@lru_cache(maxsize=256)
def _list_places(known: KnownText) -> tuple[_Sentence, ...]:
    """Return the sentences of what is known, its title the first."""
    title = known.title[:_MAX_WHOLE]
    found = (_Sentence(title, frozenset(term_sequence(title))), *_split(known.text[:_MAX_KNOWN]))
    return tuple(each for each in found if each.text.strip() and len(each.text) <= _MAX_SENTENCE)


@lru_cache(maxsize=64)
def _split(text: str) -> tuple[_Sentence, ...]:
    return tuple(_Sentence(each, frozenset(term_sequence(each))) for each in split_sentences(text))


def _weigh_statement(statement: Statement, weigh: Weigh) -> float:
    return _weigh_all((*statement.content.values(), *statement.numbers), weigh)


def _weigh_all(tokens: Iterable[Token], weigh: Weigh) -> float:
    return sum(_LIGHT_WEIGHT if t.kind in _LIGHT_KINDS else weigh(t.raw) for t in tokens)
