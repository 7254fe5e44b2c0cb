"""Find whether two statements concern different things, by date, number or identifier.

"On day 1 the pressure was 1.1 bar" and "On day 8 the pressure was 1.8 bar" are a series, and so are
"Room 12 has a projector" and "Room 13 has none". The part that names the thing is a key. A label
(`room 12`, `INV-1041`) is a key if no verb precedes it. A time is a key if something else differs
too; otherwise it is the value: "The standup is at 9:30", "The standup is at 10:00".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from vaultmem.core.languages import find_words, read_pairs
from vaultmem.core.similarity import words
from vaultmem.core.similarity.facts import list_sort, list_verbs, read_key, read_sentence
from vaultmem.core.similarity.statement import is_past, split_sentences, tells_past
from vaultmem.core.similarity.words import MONTHS, guess_language
from vaultmem.core.text.patterns import compile_later

#: Characters of a text that are read: the beginning shows the subject.
_MAX_TEXT = 300

#: Tokens after a label in which its verb is searched.
_MAX_VERB_DISTANCE = 8

_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_PARTS = {
    "date": (
        r"\b\d{4}-\d\d(?:-\d\d)?(?!\d)(?:T\d\d:\d\d[\d:.]*Z?)?"
        r"|\b\d{1,2}\.\d{1,2}\.\d{4}\b"
        r"|(?:^|(?<=\b[AaOo][mn] )|(?<=\bvom ))\d{1,2}\.\d{1,2}\.(?!\d)"
        r"|(?:^|(?<=[Oo]n ))\d{1,2}/\d{1,2}(?:/\d{2,4})?(?=[:,]? )"
        rf"|\b{_DAY}\.? (?:of )?{MONTHS}\b\.?(?:,? \d{{4}}\b)?"
        rf"|\b{MONTHS}\b\.? {_DAY}\b(?!:\d)(?:,? \d{{4}}\b)?|\b{MONTHS}\b(?:\.? \d{{4}}\b)?"
    ),
    "time": (
        r"\b\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m\b)?(?: Uhr\b)?"
        r"|\b\d{1,2} ?[ap]m\b|\b\d{1,2} (?:Uhr|o'clock)\b"
    ),
    "code": (
        r"#\d+|\bv?\d+(?:\.\d+){2,}[\w.+-]*|\bv\d+(?:\.\d+)*\b|\b\d{4}/\d+\b|\b\d+[A-Z]\b"
        r"|\b(?=[\w-]*\d)(?=[\w-]*[^\W\d_])[^\W_][\w-]*\w"
    ),
    "number": r"(?<!\w)-?\d+(?:[.,_]\d+)*",
    "word": r"[^\W\d_][^\W\d_'-]*(?:['-][^\W\d_]+)*",
    "mark": r"[:;.,!?()\n–—%€$£°]|(?<=\s)-(?=\s)",
}
_TOKEN = compile_later("|".join(f"(?P<{sort}>{pattern})" for sort, pattern in _PARTS.items()))

_YEAR = compile_later(r"(?:19|20)\d\d")
_FILE_NAME = compile_later(r"\S*[a-z]\S*")
_NUMBER_LABELS = frozenset({"no", "nr", "number", "nummer", "num"})


#: Marks between a heading and its value.
_HEADING_SEPARATORS = ([":"], ["-"], ["–"], ["—"])


class Subject(NamedTuple):
    """The differing key, as both sides name it."""

    ours: str
    theirs: str


class _Token(NamedTuple):
    sort: str
    raw: str

    @property
    def lower(self) -> str:
        return self.raw.lower()

    @property
    def is_mark(self) -> bool:
        return self.sort == "mark"


class _Key(NamedTuple):
    """A possible name of a thing: `label`, `date`, `time` or `period`, with its number's noun.

    `is_named`: its place makes it a key. `is_open`: it is a key if more differs.
    """

    sort: str
    noun: str
    value: str
    raw: str
    is_named: bool
    is_open: bool


class _Tense(NamedTuple):
    """Whether a statement is in the past or about an event, and has German capital nouns."""

    is_past: bool
    is_event: bool
    has_german: bool


class _Read(NamedTuple):
    """A statement's keys, its other words, and whether it is past or new."""

    keys: tuple[_Key, ...]
    rest: tuple[str, ...]
    is_past: bool
    is_new: bool


def find_subjects(ours: str, theirs: str) -> Subject | None:
    """Return the keys in which two statements differ, None if they concern one thing."""
    if ours == theirs or not (_has_key(ours) and _has_key(theirs)):
        return None
    our_statement, their_statement = _read(ours[:_MAX_TEXT]), _read(theirs[:_MAX_TEXT])
    for one, other in _pair(our_statement.keys, their_statement.keys):
        if _is_apart(one, other, our_statement, their_statement):
            return Subject(one.raw, other.raw)
    return None


def _is_apart(one: _Key, other: _Key, our_statement: _Read, their_statement: _Read) -> bool:
    """Return whether two values of a key name two things, not two values of one thing."""
    rests = [_leave(one, our_statement), _leave(other, their_statement)]
    has_more = rests[0] != rests[1]
    is_named, is_open = (one.is_named and other.is_named), (one.is_open and other.is_open)
    is_new = our_statement.is_new or their_statement.is_new
    if one.sort == "label":
        return is_named or (has_more and is_open and not is_new)
    if not has_more:
        return is_named and our_statement.is_past and their_statement.is_past
    is_counted = [[word for word in each if word[-1:].isdigit()] for each in rests]
    return not is_new and (is_named or (is_open and is_counted[0] != is_counted[1]))


def _leave(key: _Key, statement: _Read) -> list[str]:
    """Return a statement's words without a key (for a time, without all times)."""
    labels = (each for each in statement.keys if each.sort == "label")
    others = (each for each in labels if (each.sort, each.noun) != (key.sort, key.noun))
    return [*(f"{each.noun} {each.value}" for each in others), *statement.rest]


def find_titled(ours: str, our_title: str, theirs: str, their_title: str) -> Subject | None:
    """Return the keys in which two texts differ by their titles, headings and first sentences."""
    return find_subjects(_lead(ours, our_title), _lead(theirs, their_title))


def _lead(text: str, title: str) -> str:
    """Return a text's first sentence, after those parts of its title that the text lacks.

    A title of one lower-case word (`key-2`) is a file name, and names nothing.
    """
    first = next(iter(split_sentences(text[:_MAX_TEXT])), "")
    folded = text.casefold()
    parts = [
        each
        for each in title.split(". ")
        if each.casefold().strip(". ") not in folded and not _FILE_NAME.fullmatch(each)
    ]
    return f"{', '.join(parts)}: {first}" if parts else first


def _pair(our_keys: Sequence[_Key], their_keys: Sequence[_Key]) -> Iterator[tuple[_Key, _Key]]:
    """Yield the keys of one sort and noun that differ, in order."""
    sorts = dict.fromkeys((each.sort, each.noun) for each in our_keys)
    for sort in sorts:
        our_group, their_group = (
            [k for k in keys if (k.sort, k.noun) == sort] for keys in (our_keys, their_keys)
        )
        if len(our_group) == len(their_group):
            for one, other in zip(our_group, their_group, strict=True):
                if one.value != other.value:
                    yield one, other


def _has_key(text: str) -> bool:
    """Return whether a text has a figure or a date, without which it has no key."""
    return any(token.sort not in {"word", "mark"} for token in _split(text[:_MAX_TEXT]))


@lru_cache(maxsize=4096)
def _read(text: str) -> _Read:
    tokens = _split(text)
    has_german = guess_language(text).has_capital_nouns
    verbs = [n for n in range(len(tokens)) if _is_verb(tokens, n, has_german)]
    fact = read_sentence(text)
    is_new = bool(fact and (fact.kind in {"begins", "swaps", "taken"} or fact.marks - {"more"}))
    tense = _read_tense(text, tokens, verbs, is_new, has_german)
    verb = verbs[0] if verbs else len(tokens)
    keys: list[_Key] = []
    rest: list[str] = []
    for place, token in enumerate(tokens):
        key = _read_time(tokens, place, verb, tense.is_past)
        key = key or _read_label(tokens, place, verbs, tense)
        if key:
            keys.append(key)
        elif not (token.is_mark or token.lower in _ties()):
            rest.append(token.lower)
    nouns = {key.noun for key in keys}
    other_words = tuple(each for each in rest if each not in nouns)
    return _Read(tuple(keys), other_words, tense.is_past, is_new)


def _read_tense(
    text: str, tokens: Sequence[_Token], verbs: Sequence[int], is_new: bool, has_german: bool
) -> _Tense:
    first = tokens[verbs[0]] if verbs else None
    is_told = first is not None and first.lower not in words.COPULAS | words.AUXILIARIES
    is_event = first is not None and is_told and is_past(first.raw) and not is_new
    return _Tense(tells_past(text), is_event, has_german)


@lru_cache(maxsize=4096)
def _split(text: str) -> tuple[_Token, ...]:
    return tuple(_format_days(_Token(m.lastgroup or "", m.group()) for m in _TOKEN.finditer(text)))


def _format_days(tokens: Iterator[_Token]) -> Iterator[_Token]:
    days = read_pairs("weekdays")
    for each in tokens:
        is_day = each.raw[0].isupper() and each.lower.removesuffix("s") in days
        yield _Token("date", each.raw) if is_day and each.sort == "word" else each


def _read_time(tokens: Sequence[_Token], place: int, verb: int, past: bool) -> _Key | None:
    """Return a date, a time of day, or the number of a day, week or run."""
    token = tokens[place]
    start = place
    if token.sort in {"date", "time"}:
        sort, noun = token.sort, ""
    elif token.sort not in {"number", "code"}:
        return None
    elif place and tokens[place - 1].lower in list_sort("period", "series"):
        sort, noun, start = "period", tokens[place - 1].lower, place - 1
    elif _is_year(tokens, place):
        sort, noun = "date", "year"
    else:
        return None
    before = tokens[:start]
    ties = _strip_tie(before)
    is_ahead = start < verb
    is_bound = _is_bound(before, is_ahead) and "T" not in token.raw
    if sort == "time":
        is_ahead = is_ahead and not any(t.sort == "word" and t.lower not in _little() for t in ties)
    is_tied = place > verb and (len(ties) - 1 == verb or tokens[start - 1].lower == "for")
    is_headed = _heads(tokens, place)
    is_named = not is_bound and (is_ahead or past or is_headed)
    is_open = not is_bound and sort != "time" and not is_tied
    raw = " ".join(t.raw for t in tokens[start : place + 1]).rstrip(".")
    return _Key(sort, noun, _unify_time(token), raw, is_named, is_open)


def _is_bound(before: Sequence[_Token], is_ahead: bool) -> bool:
    """Return whether a time is a start or an end of something."""
    tie = before[-1].lower if before else ""
    if tie in list_sort("bound", "series") or [t.lower for t in before[-2:]] == ["as", "of"]:
        return True
    return not is_ahead and tie in list_sort("bound-behind", "series")


def _heads(tokens: Sequence[_Token], place: int) -> bool:
    """Return whether a token ends a heading before a value: "Room 12: 8 seats"."""
    next_tokens = [token.raw for token in tokens[place + 1 : place + 3]]
    return (
        bool(next_tokens)
        and (next_tokens[1:] if next_tokens[0] == ")" else next_tokens)[:1] in _HEADING_SEPARATORS
    )


def _unify_time(token: _Token) -> str:
    """Return a date or a time in its one form."""
    raw = token.raw.rstrip(".")
    if token.sort == "time":
        return raw if raw.count(":") > 1 else words.read_time(raw)
    if token.sort == "date" and re.search(MONTHS, raw):
        return words.read_named_date(raw)
    if re.fullmatch(r"\d{4}-\d\d.*|\d+\.\d+\.\d{4}", raw):
        return words.read_date(raw)
    return raw.lower().removesuffix("s")


def _strip_tie(before: Sequence[_Token]) -> Sequence[_Token]:
    """Return the tokens before the preposition and article of a time or place."""
    end = len(before)
    while end and (
        before[end - 1].lower in words.RELATIONS | _articles() or before[end - 1].raw == "("
    ):
        end -= 1
    return before[:end]


def _is_year(tokens: Sequence[_Token], place: int) -> bool:
    if not _YEAR.fullmatch(tokens[place].raw):
        return False
    previous = tokens[place - 1] if place else None
    next_token = tokens[place + 1] if place + 1 < len(tokens) else None
    is_tied = previous is None or previous.lower in words.RELATIONS | _articles()
    return (
        is_tied
        or next_token is None
        or next_token.is_mark
        or (previous or tokens[0]).sort == "code"
    )


def _read_label(
    tokens: Sequence[_Token], place: int, verbs: Sequence[int], tense: _Tense
) -> _Key | None:
    """Return an identifier, or a number after a noun, that is the subject or names its place.

    In a past event, it can be the object, too: "Kurz sent invoice 88".
    """
    token = tokens[place]
    if token.sort not in {"number", "code"}:
        return None
    start = place - 1
    while start > 0 and (tokens[start].raw == "." or tokens[start].lower in _NUMBER_LABELS):
        start -= 1
    noun = tokens[start] if start >= 0 and _is_noun(tokens[start]) else None
    is_lower = noun is not None and tense.has_german and noun.raw == noun.lower
    if start in verbs or is_lower or (noun and noun.lower in list_sort("order", "series")):
        noun = None
    is_code = token.sort == "code"
    next_tokens = tokens[place + 1 :]
    is_first = place == 0 and bool(next_tokens) and (next_tokens[0].raw == ":" or is_code)
    if not (noun or is_code or is_first) or _is_measured(tokens, place, verbs):
        return None
    raw = " ".join(t.raw for t in (*([noun] if noun else ()), token))
    name = noun.lower if noun else ""
    if verbs and verbs[0] < place:
        begins_with_there = tokens[0].lower in list_sort("there", "series")
        tie = tokens[start - 1].lower if noun and start else ""
        is_place = tie in list_sort("place", "series") and (tense.is_past or begins_with_there)
        is_key = bool(noun) and (is_place or tense.is_event)
        is_named = begins_with_there or tense.is_event
        return _Key("label", name, token.lower, raw, is_named, is_place) if is_key else None
    next_words = [t.lower for t in next_tokens[:2]]
    if (
        len(next_words) == 2
        and next_words[0] in words.PRESENT
        and next_words[1] in list_sort("article")
    ):
        return None  # "Python 3.11 is the oldest version": the number is the value.
    reach = range(place + 1, place + 1 + _MAX_VERB_DISTANCE)
    has_verb = any(n in reach for n in verbs) and not _is_counting(tokens, place)
    is_named = has_verb or _heads(tokens, place) or [t.raw for t in next_tokens[:1]] == ["("]
    is_open = bool(next_tokens) and not next_tokens[0].is_mark
    return _Key("label", name, token.lower, raw, is_named, is_open)


def _is_measured(tokens: Sequence[_Token], place: int, verbs: Sequence[int]) -> bool:
    """Return whether a number has a unit: a known one, or a word that ends the phrase."""
    next_tokens = tokens[place + 1 : place + 3]
    if tokens[place].sort == "code" or not next_tokens:
        return False
    unit = next_tokens[0]
    if unit.raw in {"%", "€", "$", "£", "°"} or unit.lower in words.read_units():
        return True
    if place > 1 and tokens[place - 2].lower in words.RELATIONS:
        return False  # "The window in room 9 closes."
    ends = len(next_tokens) < 2 or next_tokens[1].is_mark or next_tokens[1].lower in words.RELATIONS
    is_word = unit.sort == "word" and unit.lower not in _little()
    return is_word and place + 1 not in verbs and ends


def _is_counting(tokens: Sequence[_Token], place: int) -> bool:
    """Return whether a number counts the next word: "Max 5 connections are allowed"."""
    next_tokens = tokens[place + 1 : place + 3]
    is_plural = len(next_tokens) == 2 and next_tokens[0].lower.endswith("s")
    return is_plural and next_tokens[1].lower in words.COPULAS | words.AUXILIARIES


def _is_noun(token: _Token) -> bool:
    return token.sort == "word" and token.lower not in _little()


def _is_verb(tokens: Sequence[_Token], place: int, has_german: bool) -> bool:
    """Return whether a word is likely the verb of its clause, or a pronoun before one."""
    token = tokens[place]
    if token.sort != "word":
        return False
    if token.lower in (words.COPULAS | words.AUXILIARIES) - {"to"}:
        return True
    previous = tokens[place - 1] if place else None
    next_token = tokens[place + 1] if place + 1 < len(tokens) else None
    is_counted = next_token is not None and next_token.sort in {"number", "code"}
    if previous is None:  # An order: "Set timeout 30".
        return not is_counted and read_key(token.raw) in list_verbs()
    if previous.lower in _articles() or token.raw != token.lower:
        return False
    if is_past(token.raw):
        return True
    is_behind_noun = _is_noun(previous) or previous.sort in {"number", "code"}
    if not is_behind_noun:
        return False
    if re.fullmatch(r"[a-z]+[a-rt-z]s", token.raw):
        ends = next_token is None or next_token.is_mark or next_token.lower in list_sort("joint")
        return previous.sort == "word" or not (ends or token.lower in words.read_units())
    if has_german and re.fullmatch(r"\w{2,}(?:t|te|ten|en)", token.raw):
        return True
    return not is_counted and read_key(token.raw) in list_verbs()


@cache
def _articles() -> frozenset[str]:
    return list_sort("article") | list_sort("indefinite") | find_words("article")


@cache
def _little() -> frozenset[str]:
    """Return the words that name nothing: articles, prepositions, forms of `be`."""
    return _articles() | words.RELATIONS | words.COPULAS | words.AUXILIARIES


@cache
def _ties() -> frozenset[str]:
    """Return articles and prepositions without negations."""
    return (_articles() | words.RELATIONS) - words.NEGATIONS
