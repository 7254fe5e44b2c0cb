"""Measure the similarity of two texts and find their differences; `canonical` tests equality."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from vaultmem.core.search.terms import term_sequence
from vaultmem.core.similarity import words
from vaultmem.core.similarity.canonical import canonical_form
from vaultmem.core.similarity.statement import (
    LIMITS,
    Statement,
    read_statement,
    split_sentences,
    tells_event,
    tells_past,
)
from vaultmem.core.similarity.subjects import find_subjects, find_titled
from vaultmem.core.similarity.tokens import Token, TokenKind

#: A word's rarity, from 0 to 1.
Weigh = Callable[[str], float]

#: Statements that share less than this of their words have different topics. In a short one,
#: another value is half of it.
MIN_TOPIC_SIMILARITY = 0.4

#: From this similarity on, two texts without a difference share whole sentences.
_MIN_REPEAT_SIMILARITY = 0.6

#: A text with fewer words means nothing without its title.
_MIN_WORDS_WITHOUT_TITLE = 3

#: The weight of a word that names no fact.
_LIGHT_WEIGHT, _LIGHT_KINDS = 0.25, frozenset([TokenKind.LIGHT, TokenKind.LABEL])

#: Longer texts (characters) are documents, which are not compared with memories.
MAX_TEXT = 4_000

#: Longer texts are compared only by sentences, longer sentences only byte for byte; known texts are
#: read up to the last limit. Patterns are slow on long lines.
_MAX_WHOLE, _MAX_SENTENCE, _MAX_KNOWN = 1_000, 2_000, 20_000
_NO_CONTEXT: frozenset[str] = frozenset()

#: Kinds of tokens that show the topic of a difference.
_TOPIC_KINDS = (
    TokenKind.NAME,
    TokenKind.ENVIRONMENT,
    TokenKind.DATE,
    TokenKind.TIME,
    TokenKind.IDENTIFIER,
)

#: Differences within one subject. Another name or word can be another subject.
_VALUES = frozenset(
    ["number", "date", "time", "negation", "limit", "modality", "quantifier", "update"]
)


class Difference(NamedTuple):
    """One difference between two texts; a side without a value is empty."""

    kind: str
    ours: str
    theirs: str

    @property
    def is_value(self) -> bool:
        """Return whether both sides have values of one thing, and so contradict each other."""
        return self.kind in _VALUES and (self.kind == "negation" or bool(self.ours and self.theirs))


class KnownText(NamedTuple):
    """A known text to compare with: a section, with the title and headings above it."""

    text: str
    title: str = ""


class TextSimilarity(NamedTuple):
    """How much of a text another one states (0 to 1), the differences, and the nearest sentence."""

    similarity: float
    differences: tuple[Difference, ...] = ()
    nearest: str = ""

    def is_said(self, share: float) -> bool:
        """Return whether at least `share` of the text is stated; only wording can differ."""
        return self.similarity >= share and all(e.kind == "wording" for e in self.differences)

    @property
    def is_contradiction(self) -> bool:
        """Return whether the texts state different values of one thing.

        Events of different days, and values of different subjects, do not contradict.
        """
        differences = [each for each in self.differences if each.kind != "wording"]
        kinds = {each.kind for each in differences}
        if "subject" in kinds:
            return False
        if "update" in kinds or (kinds == {"date"} and tells_event(self.nearest)):
            return "update" in kinds
        has_values = (
            bool(kinds)
            and all(each.is_value for each in differences)
            and not _is_turned(differences)
        )
        return has_values and self.similarity >= MIN_TOPIC_SIMILARITY


def _is_turned(differences: Sequence[Difference]) -> bool:
    """Return whether both sides have the same figures: "21 and 28 May", "May 21 to 28"."""
    sides = (
        " ".join(e.ours for e in differences).lower(),
        " ".join(e.theirs for e in differences).lower(),
    )
    our_words, their_words = (set(re.findall(r"[^\W\d]+", side)) for side in sides)
    figures = [sorted(re.findall(r"\d+", side)) for side in sides]
    return figures[0] == figures[1] != [] and (
        our_words == their_words or not (our_words and their_words)
    )


def equal_weight(raw: str) -> float:
    """Return the same weight for every word."""
    return 1.0


def is_brief(text: str) -> bool:
    """Return whether a text has so few words that only its title names its topic."""
    return len(text) <= _MAX_WHOLE and len(read_statement(text).keys) < _MIN_WORDS_WITHOUT_TITLE


def compare_texts(
    text: str,
    known_text: KnownText,
    weigh: Weigh = equal_weight,
    context: str = "",
) -> TextSimilarity:
    """Return how much of `text` the known text states.

    `context` has words above the text, such as its title, as `known_text.title` does.
    """
    if len(text) > MAX_TEXT:
        return TextSimilarity(float(text.strip() == known_text.text.strip()))
    title_keys = read_statement(known_text.title[:_MAX_WHOLE]).keys
    context_keys = read_statement(context[:_MAX_WHOLE]).keys
    best: TextSimilarity | None = None
    if len(known_text.text) <= 2 * max(len(text), 40) and len(text) <= _MAX_WHOLE:
        statement = read_statement(known_text.text)
        best = compare_statements(read_statement(text), statement, weigh, context_keys, title_keys)
        if not best.differences:
            return best
    likeness = _compare_sentences(text, known_text, weigh, context_keys, title_keys)
    if (
        best is None
        or likeness.is_said(_MIN_REPEAT_SIMILARITY)
        or likeness.similarity > best.similarity
    ):
        return likeness
    return best


def compare_titled(
    text: str, title: str, known_text: KnownText, likeness: TextSimilarity
) -> TextSimilarity:
    """Add a "subject" difference if title and first sentence name another thing."""
    subjects = find_titled(text, title, *known_text) if likeness.is_contradiction else None
    if subjects is None:
        return likeness
    return likeness._replace(differences=(Difference("subject", *subjects), *likeness.differences))


def compare_statements(
    ours: Statement,
    theirs: Statement,
    weigh: Weigh = equal_weight,
    our_context: frozenset[str] = _NO_CONTEXT,
    their_context: frozenset[str] = _NO_CONTEXT,
    is_relevant: Callable[[float], bool] | None = None,
) -> TextSimilarity:
    """Compare two statements: Dice's measure over weighted words, and the differences.

    similarity = 1 - (weight of the words that only one has) / (weight of the words of both).
    Differences are left out if `is_relevant` is false for the similarity.
    """
    total = _score_statement(ours, weigh) + _score_statement(theirs, weigh)
    if not total:
        return TextSimilarity(float(ours.text.strip() == theirs.text.strip()))
    if ours.keys.isdisjoint(theirs.keys):  # They share nothing, whatever a title explains.
        return TextSimilarity(0.0)
    unmatched = _find_unmatched(ours, theirs, our_context, their_context)
    groups = (unmatched.ours, unmatched.theirs, unmatched.our_numbers, unmatched.their_numbers)
    similarity = max(0.0, 1 - sum(_score_all(tokens, weigh) for tokens in groups) / total)
    if is_relevant and not is_relevant(similarity):
        return TextSimilarity(similarity)
    differences = _compare_content(ours, theirs, unmatched) or _compare_wording(
        ours.text, theirs.text
    )
    if all(e.is_value for e in differences) and (subjects := find_subjects(ours.text, theirs.text)):
        differences = [Difference("subject", *subjects), *differences]
    return TextSimilarity(similarity, tuple(differences), theirs.text)


def _compare_sentences(
    text: str,
    known_text: KnownText,
    weigh: Weigh,
    context_keys: frozenset[str],
    title_keys: frozenset[str],
) -> TextSimilarity:
    """Find each sentence of a text in another."""
    sentences = _split(text)
    if long_sentence := next(
        (each.text for each in sentences if len(each.text) > _MAX_SENTENCE), ""
    ):
        return TextSimilarity(float(long_sentence in known_text.text))
    places = _list_places(known_text)
    nearby = [[each for each in places if sentence.is_near(each)] for sentence in sentences]
    if not any(nearby):
        return TextSimilarity(0.0)
    statements = [read_statement(each.text) for each in sentences]
    weights = [_score_statement(each, weigh) for each in statements]
    total, stated_weight = sum(weights), 0.0
    differences: list[Difference] = []
    nearest, best_so_far = "", 0.0
    for statement, weight, candidates in zip(statements, weights, nearby, strict=True):
        if not candidates:
            continue
        likeness = _find_sentence(statement, candidates, weigh, context_keys, title_keys)
        stated_weight += weight * likeness.similarity
        if likeness.similarity * weight > best_so_far:
            nearest, best_so_far = likeness.nearest, likeness.similarity * weight
        if likeness.similarity >= MIN_TOPIC_SIMILARITY:
            differences.extend(likeness.differences)
    return TextSimilarity(stated_weight / total if total else 0.0, tuple(differences), nearest)


def _find_sentence(
    statement: Statement,
    places: Iterable[_Sentence],
    weigh: Weigh,
    context_keys: frozenset[str],
    title_keys: frozenset[str],
) -> TextSimilarity:
    """Return the most similar sentence; one without differences comes first."""
    best = TextSimilarity(0.0)

    def may_be_best(similarity: float) -> bool:
        is_enough = bool(best.differences) and similarity >= MIN_TOPIC_SIMILARITY
        return is_enough or similarity > best.similarity

    for place in places:
        known_statement = read_statement(place.text)
        likeness = compare_statements(
            statement, known_statement, weigh, context_keys, title_keys, may_be_best
        )
        if (not likeness.differences, likeness.similarity) > (
            not best.differences,
            best.similarity,
        ):
            if likeness.similarity >= MIN_TOPIC_SIMILARITY or likeness.similarity > best.similarity:
                best = likeness
        elif likeness.similarity > best.similarity and best.similarity < MIN_TOPIC_SIMILARITY:
            best = likeness
    return best


class _Sentence(NamedTuple):
    """A sentence with its index terms, to skip sentences that share few of them."""

    text: str
    terms: frozenset[str]

    def is_near(self, other: _Sentence) -> bool:
        return len(self.terms & other.terms) * 3 >= len(self.terms)


@lru_cache(maxsize=256)
def _list_places(known_text: KnownText) -> tuple[_Sentence, ...]:
    """Return the sentences of a known text, its title first."""
    title = known_text.title[:_MAX_WHOLE]
    sentences = (
        _Sentence(title, frozenset(term_sequence(title))),
        *_split(known_text.text[:_MAX_KNOWN]),
    )
    return tuple(
        each for each in sentences if each.text.strip() and len(each.text) <= _MAX_SENTENCE
    )


@lru_cache(maxsize=64)
def _split(text: str) -> tuple[_Sentence, ...]:
    return tuple(_Sentence(each, frozenset(term_sequence(each))) for each in split_sentences(text))


def _score_statement(statement: Statement, weigh: Weigh) -> float:
    return _score_all((*statement.content.values(), *statement.numbers), weigh)


def _score_all(tokens: Iterable[Token], weigh: Weigh) -> float:
    return sum(_LIGHT_WEIGHT if t.kind in _LIGHT_KINDS else weigh(t.raw) for t in tokens)


class _Unmatched(NamedTuple):
    """The content and numbers of each side that the other does not have."""

    ours: tuple[Token, ...]
    theirs: tuple[Token, ...]
    our_numbers: tuple[Token, ...]
    their_numbers: tuple[Token, ...]


def _find_unmatched(
    ours: Statement,
    theirs: Statement,
    our_context: frozenset[str] = frozenset(),
    their_context: frozenset[str] = frozenset(),
) -> _Unmatched:
    """Return the tokens only one side has; a context (a title) explains the other side's keys."""
    our_numbers, their_numbers = _match_numbers(ours, theirs)
    return _Unmatched(
        _only_in(ours, theirs, their_context),
        _only_in(theirs, ours, our_context),
        tuple(n for n in our_numbers if n.key not in their_context),
        tuple(n for n in their_numbers if n.key not in our_context),
    )


def _compare_content(ours: Statement, theirs: Statement, unmatched: _Unmatched) -> list[Difference]:
    """Return differences in numbers, words, limits and negations, in any order of words."""
    return [
        *_compare_numbers(ours, theirs, unmatched),
        *_compare_words(ours, theirs, unmatched),
        *_compare_limits(ours, theirs, unmatched),
        *_compare_negations(ours, theirs),
    ]


def _only_in(one: Statement, other: Statement, context: frozenset[str]) -> tuple[Token, ...]:
    return tuple(
        token
        for key, token in one.content.items()
        if key not in other.content and key not in context
    )


def _match_numbers(
    ours: Statement, theirs: Statement
) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """Return the numbers of each side without a match; a "1" needs none."""
    left = Counter(t.key for t in ours.numbers) - Counter(t.key for t in theirs.numbers)
    right = Counter(t.key for t in theirs.numbers) - Counter(t.key for t in ours.numbers)
    by_key = {token.key: token for token in (*ours.numbers, *theirs.numbers)}
    return (
        tuple(by_key[key] for key in left if key != "1"),
        tuple(by_key[key] for key in right if key != "1"),
    )


def _compare_numbers(
    ours: Statement, theirs: Statement, unmatched: _Unmatched
) -> Iterator[Difference]:
    """Yield different numbers, and different tenses of their sentences."""
    if not (unmatched.our_numbers or unmatched.their_numbers):
        return
    yield Difference("number", _say(unmatched.our_numbers), _say(unmatched.their_numbers))
    tenses = ["past" if tells_past(each.text) else "present" for each in (ours, theirs)]
    if tenses[0] != tenses[1]:
        yield Difference("tense", *tenses)


def _compare_words(
    ours: Statement, theirs: Statement, unmatched: _Unmatched
) -> Iterator[Difference]:
    """Yield words that only one side has, or that differ; light words are left out."""
    our_words = [token for token in unmatched.ours if token.kind is not TokenKind.LIGHT]
    their_words = [token for token in unmatched.theirs if token.kind is not TokenKind.LIGHT]
    if their_words and not our_words:  # A repeated word can replace another one.
        our_words = [ours.content[key] for key in _repeated_only(ours, theirs)]
    if our_words and not their_words:
        their_words = [theirs.content[key] for key in _repeated_only(theirs, ours)]
    if not (our_words and their_words):
        our_words = [token for token in our_words if not _may_go(token, ours)]
        their_words = [token for token in their_words if not _may_go(token, theirs)]
    if our_words or their_words:
        kinds = {token.kind for token in (*our_words, *their_words)}
        topic_kinds = [kind for kind in _TOPIC_KINDS if kind in kinds]
        kind = topic_kinds[0] if len(topic_kinds) == 1 else TokenKind.WORD
        if kind in {TokenKind.DATE, TokenKind.TIME} and TokenKind.WORD in kinds:
            kind = TokenKind.WORD  # On another day, another thing.
        yield Difference(kind.value, _say(our_words), _say(their_words))


def _may_go(token: Token, statement: Statement) -> bool:
    """Return whether the other side can lack a word: a label, or a verb of little meaning."""
    if token.kind in {TokenKind.LABEL, TokenKind.LIGHT}:
        return True
    return token.key in statement.verbs and token.key not in words.RETRACTIONS


def _repeated_only(one: Statement, other: Statement) -> list[str]:
    return [key for key in sorted(one.repeated - other.repeated) if key in one.content]


def _compare_limits(
    ours: Statement, theirs: Statement, unmatched: _Unmatched
) -> Iterator[Difference]:
    for name, count in ours.limits.items():
        if count == theirs.limits[name]:
            continue
        fuller, extra = (
            (ours, unmatched.ours) if count > theirs.limits[name] else (theirs, unmatched.theirs)
        )
        if name == "condition" and all(_may_go(t, fuller) for t in extra):
            continue  # `when there are more than 120` for `above 120`.
        text = " ".join(sorted(fuller.little & LIMITS[name]))
        yield Difference(name, text if fuller is ours else "", text if fuller is theirs else "")
    if ours.bounds != theirs.bounds:
        yield Difference("limit", " ".join(ours.bounds), " ".join(theirs.bounds))
    if not (ours.negated or theirs.negated):
        yield from _oppose("modality", ours, theirs, words.OBLIGATIONS, words.PERMISSIONS)
    yield from _oppose("tense", ours, theirs, words.PAST, words.PRESENT)
    yield from _oppose("tense", ours, theirs, words.PAST, words.FUTURE)
    yield from _oppose("choice", ours, theirs, words.ALTERNATIVES, words.ADDITIONS)


def _oppose(
    kind: str, ours: Statement, theirs: Statement, first: frozenset[str], second: frozenset[str]
) -> Iterator[Difference]:
    """Yield a difference if each side has words of only one group, and not the same."""
    for one, other, swapped in ((ours, theirs, False), (theirs, ours, True)):
        own_words, other_words = one.little & first, other.little & second
        if own_words and other_words and not one.little & second and not other.little & first:
            sides = (" ".join(sorted(own_words)), " ".join(sorted(other_words)))
            yield Difference(kind, *(sides[::-1] if swapped else sides))


def _compare_wording(ours: str, theirs: str) -> list[Difference]:
    """Return the wording difference of texts with the same content, if their forms differ."""
    if canonical_form(ours) == canonical_form(theirs):
        return []
    our_words, their_words = ours.split(), theirs.split()
    changes = SequenceMatcher(None, our_words, their_words, autojunk=False).get_opcodes()
    parts = [(our_words[a:b], their_words[c:d]) for kind, a, b, c, d in changes if kind != "equal"]
    sides = (" ... ".join(" ".join(part[side]) for part in parts if part[side]) for side in (0, 1))
    return [Difference("wording", *sides)]


def _compare_negations(ours: Statement, theirs: Statement) -> Iterator[Difference]:
    """Yield a negation that only one side has, or that excludes another thing."""
    counts = [len(each.negated) + len(each.replaced) for each in (ours, theirs)]
    if counts[0] != counts[1]:
        yield Difference("negation", *("not" * bool(count) for count in counts))
        return
    (our_scope, our_rest), (their_scope, their_rest) = map(_scopes, (ours, theirs))
    if ours.replaced and theirs.replaced:
        if our_rest - their_rest and their_rest - our_rest:
            yield Difference("direction", _name(our_rest), _name(their_rest))
    elif ours.replaced or theirs.replaced:
        if not (our_rest or their_rest) <= (our_scope or their_scope):
            yield Difference("direction", _name(our_rest), _name(their_rest))
    elif 2 * len(our_scope & their_scope) <= min(len(our_scope), len(their_scope)) > 0:
        yield Difference("negation", _name(our_scope), _name(their_scope))


def _scopes(statement: Statement) -> tuple[frozenset[str], frozenset[str]]:
    """Return the keys of clauses with a negation, and the excluded keys."""
    return frozenset().union(*statement.negated), frozenset().union(*statement.replaced)


def _name(keys: frozenset[str]) -> str:
    return " ".join(sorted(keys))


def _say(tokens: tuple[Token, ...] | list[Token]) -> str:
    return ", ".join(token.raw.strip() for token in tokens)
