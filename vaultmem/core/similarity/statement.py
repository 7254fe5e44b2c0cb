"""The sentences of a text: their content, the words that limit them, and their tense."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from vaultmem.core.languages import read_pairs
from vaultmem.core.notes.sections import read_keywords
from vaultmem.core.similarity import words
from vaultmem.core.similarity.tokens import Token, TokenKind, read_tokens
from vaultmem.core.similarity.words import MONTHS
from vaultmem.core.text.patterns import compile_later

#: The limits of a statement; each is counted, and the counts must be equal.
LIMITS = {
    "exception": words.EXCEPTIONS,
    "only": words.ONLY,
    "certainty": words.HEDGES,
    "quantifier": words.QUANTIFIERS,
    "condition": words.CONDITIONS,
}

_ITEM = compile_later(r"[ \t]*(?:[-*+>]|\d{1,9}[.)]|#{1,6}|\|)(?:[ \t]|$)")
_FENCE = compile_later(r"[ \t]*(`{3,}|~{3,})")
_END = compile_later(
    r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bca\.)(?<!\d\.)"
    r"(?<!\b[DM]r\.)(?<!\bM[rs]s\.)(?<!\bMs\.)(?<!\bProf\.)(?<!\bSt\.)\s+(?=[^\sa-z])"
)
_EXCEPTION_START = compile_later(
    r"(?i)(?:except|unless|but not|only if|apart from|außer|es sei denn)\b"
)

#: Attribution that `remember` adds after a sentence.
_SIGNATURE = compile_later(r"\*\([^()\n]{1,200}\)\*[ \t]*$")

_WORD = compile_later(r"[^\W\d_]+")

#: A note of a day: "3 July 2023: we met" or "On 3 July 2023, we met".
_DAY = compile_later(
    rf"\W*(?:(?:On|Am) )?(?:\d{{4}}-\d\d-\d\d|\d{{1,2}}\.\d{{1,2}}\.\d{{4}}"
    rf"|\d{{1,2}}\.? {MONTHS} \d{{4}}|{MONTHS} \d{{1,2}}, \d{{4}})"
)

#: After these, a past form is a participle.
_NO_PAST = (words.COPULAS - words.PAST) | {"has", "have", "been", "the", "a", "an", "by", "to"}

#: Irregular forms that are also present tense, or not verbs.
_NON_PAST_FORMS = frozenset(
    {"children", "feet", "indices", "lives", "matrices", "men", "mice", "people"}
)


class Statement(NamedTuple):
    """A text read for comparison; all sets contain keys of tokens.

    `keys` are all keys with meaning. `content` are the tokens with meaning except numbers, by key;
    `repeated` occur more than once. `negated` are clauses with a negation, `replaced` excluded
    phrases ("instead of").
    """

    text: str
    keys: frozenset[str]
    content: dict[str, Token]
    repeated: frozenset[str]
    numbers: tuple[Token, ...]
    verbs: frozenset[str]
    negated: tuple[frozenset[str], ...]
    replaced: tuple[frozenset[str], ...]
    limits: dict[str, int]
    bounds: tuple[str, ...]
    little: frozenset[str]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text in order; one that limits the one before is joined to it."""
    sentences: list[str] = []
    for block in _split_blocks(text):
        for sentence in _END.split(block):
            if sentences and _EXCEPTION_START.match(sentence):
                sentences[-1] = f"{sentences[-1]} {sentence}"
            elif re.search(r"\w", sentence):
                sentences.append(sentence.strip())
    return sentences


def tells_event(text: str) -> bool:
    """Return whether a sentence begins with its day, or has a verb in the past."""
    return _DAY.match(text) is not None or any(map(is_past, _WORD.findall(text)))


def tells_past(text: str) -> bool:
    """Return whether a sentence has a verb in the past; "is used" and "has moved" do not count."""
    text_words = _WORD.findall(text)
    return any(
        word.lower() in words.PAST or (is_past(word) and previous.lower() not in _NO_PAST)
        for previous, word in pairwise(["", *text_words])
    )


def is_past(word: str) -> bool:
    """Return whether a word has the form of a past verb, which can also be a participle."""
    lower = word.lower()
    return lower in words.PAST or lower in _read_forms() or (word == lower and word[-2:] == "ed")


def list_added(text: str, full: str) -> list[str]:
    """Return the sentences and keywords of a text that the full text lacks, word for word.

    They were added since it was shortened.
    """
    full_text = " ".join(full.split())
    parts = [part for each in split_sentences(text) for part in read_keywords(each) or [each]]
    return [part for part in parts if " ".join(part.split()) not in full_text]


def _split_blocks(text: str) -> Iterator[str]:
    block: list[str] = []
    fence = ""
    for line in text.splitlines():
        opening = _FENCE.match(line)
        if fence:
            block.append(line)
            if opening and opening[1].startswith(fence):
                yield "\n".join(block)
                block, fence = [], ""
            continue
        if opening or not line.strip() or _ITEM.match(line):
            if block:
                yield " ".join(block)
            block = []
        if opening:
            fence = opening[1]
        if line.strip():
            block.append(_SIGNATURE.sub("", line).strip() if not fence else line)
    if block:
        yield ("\n" if fence else " ").join(block)


@lru_cache(maxsize=4096)
def read_statement(text: str) -> Statement:
    """Read a sentence, or several that are to be compared as one."""
    tokens = read_tokens(text)
    meaning = [token for token in tokens if _has_meaning(token)]
    little = [token.key for token in tokens if token.kind is TokenKind.STOP]
    negated, replaced = _read_negations(_split(tokens))
    return Statement(
        text=text,
        keys=frozenset(token.key for token in meaning),
        content={t.key: t for t in reversed(meaning) if t.kind is not TokenKind.NUMBER},
        repeated=frozenset(
            key for key, times in Counter(t.key for t in meaning).items() if times > 1
        ),
        numbers=tuple(token for token in meaning if token.kind is TokenKind.NUMBER),
        verbs=frozenset(_find_verbs(tokens)),
        negated=negated,
        replaced=replaced,
        limits={name: sum(key in group for key in little) for name, group in LIMITS.items()},
        bounds=tuple(sorted(t.key for t in tokens if t.kind is TokenKind.LIMIT)),
        little=frozenset(little),
    )


def _has_meaning(token: Token) -> bool:
    return token.kind not in {TokenKind.STOP, TokenKind.BREAK, TokenKind.LIMIT}


def _keys(clause: Iterable[Token]) -> list[str]:
    return [token.key for token in clause if _has_meaning(token)]


def _split(tokens: tuple[Token, ...]) -> Iterator[list[Token]]:
    """Yield the clauses; "1.0 and 1.1 are off" is one."""
    clause: list[Token] = []
    for place, token in enumerate(tokens):
        if token.kind is TokenKind.BREAK:
            next_token = next((t for t in tokens[place + 1 :] if _has_meaning(t)), None)
            if clause and next_token and clause[-1].kind is next_token.kind is TokenKind.NUMBER:
                continue
            if clause:
                yield clause
            clause = []
        else:
            clause.append(token)
    if clause:
        yield clause


def _find_verbs(tokens: tuple[Token, ...]) -> Iterator[str]:
    """Yield likely verbs: after `is`, `to`, `we` ..., or a word in -s after a noun."""
    for previous, token, next_token in zip(tokens, tokens[1:], (*tokens[2:], None), strict=False):
        if token.kind is not TokenKind.WORD:
            continue
        after_noun = previous.kind in {TokenKind.WORD, TokenKind.NAME, TokenKind.IDENTIFIER}
        ends_phrase = (
            next_token is None
            or next_token.kind is not TokenKind.WORD
            or next_token.raw[-2:] == "ed"
        )
        if previous.key in words.AUXILIARIES or (
            after_noun and ends_phrase and re.search(r"[a-rt-z]s$", token.raw)
        ):
            yield token.key


def _read_phrase(tokens: list[Token]) -> list[str]:
    """Return the phrase of a preposition: the words up to the next function word."""
    phrase: list[Token] = []
    for token in tokens:
        if _has_meaning(token):
            phrase.append(token)
        elif phrase:
            break
    keys = [token.key for token in phrase if token.kind is not TokenKind.LIGHT]
    return keys or _keys(phrase)


def _read_negations(
    clauses: Iterable[list[Token]],
) -> tuple[tuple[frozenset[str], ...], tuple[frozenset[str], ...]]:
    negated: list[frozenset[str]] = []
    replaced: list[frozenset[str]] = []
    for clause in clauses:
        for place, token in enumerate(clause):
            if token.kind is not TokenKind.STOP:
                continue
            if token.key in words.NEGATIONS:
                negated.append(frozenset(_keys(clause)))
            elif token.key == "insteadof":
                replaced.append(frozenset(_read_phrase(clause[place + 1 :])))
    return tuple(negated), tuple(replaced)


@cache
def _read_forms() -> frozenset[str]:
    return frozenset(read_pairs("irregular_forms")) - _NON_PAST_FORMS
