"""What the clauses of a text state: of whom, by which relation, with which value, and if it is new.

The words that it knows are tables: `relations.txt` and `updates.txt` of each language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from vaultmem.core.languages import find_words
from vaultmem.core.similarity import words as traits
from vaultmem.core.similarity.events import is_past
from vaultmem.core.similarity.figures import MONTHS
from vaultmem.core.similarity.marks import BE, list_sort, read_key, take_marks
from vaultmem.core.similarity.relations import (
    Found,
    Word,
    Words,
    find_relation,
    list_keys,
    list_last_verbs,
    list_ties,
    list_verbs,
    may_be_verb,
)
from vaultmem.core.similarity.statement import split_sentences

#: Longer sentences say more than one thing; and of a text no more sentences are read.
_MAX_SENTENCE, _MAX_SENTENCES = 200, 40

#: Words of a clause, and of a subject or value.
_MAX_CLAUSE, _MAX_PART = 14, 5


class _Clause(NamedTuple):
    """What was read of a clause."""

    text: str
    words: Words
    subject: Words
    kind: str
    classes: frozenset[str]
    verb: str
    tie: str
    value: Words
    gone: frozenset[str]
    marks: frozenset[str]
    is_negative: bool


class Fact(_Clause):
    """What one clause says.

    `kind` and `classes` are those of its relation in `relations.txt` ("" and none without one),
    `verb` and `tie` that one's first and last word. `subject` is of whom or what it says the
    `value`, `gone` what that takes the place of. `words` are all of the clause but marks and
    articles, `marks` the sorts of `updates.txt` that tell what is new. It is held against many
    others, so what follows of it is found once.
    """

    @cached_property
    def is_new(self) -> bool:
        """Tell whether it says of itself that something changed."""
        is_marked = bool(self.marks - {"more"} or self.gone)
        return is_marked or self.kind in {"begins", "ends", "swaps", "taken"}

    @cached_property
    def is_over(self) -> bool:
        """Tell whether its relation is told in the past: so it was."""
        if any(w.key == "be" and w.raw.lower() in _WAS for w in self.words):
            return True
        told = next((word.raw for word in self.words if word.key == self.verb), "")
        return is_past(told) and not any(word.key == "be" for word in self.words)

    @cached_property
    def is_doing(self) -> bool:
        """Tell whether it says what is being done."""
        pairs = pairwise(self.words)
        return any(first.key == "be" and then.raw.endswith("ing") for first, then in pairs)

    @cached_property
    def is_event(self) -> bool:
        """Tell whether it says what was done, or is being done: two are two of these."""
        if self.kind or self.marks:
            return False
        is_state = any(word.raw.lower() in traits.PRESENT for word in self.words)
        return self.is_doing or (not is_state and any(is_past(w.raw) for w in self.words))

    @cached_property
    def keys(self) -> frozenset[str]:
        """All of its words."""
        return list_keys(self.words)

    @cached_property
    def topic(self) -> frozenset[str]:
        """What it is about, as far as that is known: its subject, else its first word."""
        return list_keys(self.subject or self.words[:1])

    @cached_property
    def said(self) -> frozenset[str]:
        """The words behind the first as they are written, but for case."""
        return frozenset(word.raw.casefold() for word in self.words[1:])

    @cached_property
    def content(self) -> frozenset[str]:
        """The words that name something."""
        return self.keys - _LITTLE - {"be"}

    @cached_property
    def predicate(self) -> frozenset[str]:
        """The words behind the subject that name something."""
        rest = self.words[len(self.subject) :] if self.words[:1] == self.subject[:1] else self.words
        return list_keys(rest) - _LITTLE - {"be"}


_TOKEN = re.compile(r"[+#@]?[^\W_](?:[\w.\-/@:+#&]*[\w+#])?(?:'[^\W_]+)?|[,;:()]")
_NOISE = re.compile(
    r"[*`\"“”„«»]+|(?<!\w)_+|_+(?!\w)|\[\[|\]\]|^[ \t]*(?:[-+>]|#{1,6}|\d+[.)])[ \t]+"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?\.?"
#: A date, with what ties it to a clause.
_DATE = re.compile(
    rf"[(]?\b(?:(?P<since>since|seit|as of|starting|ab) |(?:on|in|at|by|am|im|bis) )?"
    rf"(?:\d{{4}}-\d\d(?:-\d\d)?\b|\d{{1,2}}\.\d{{1,2}}\.\d{{4}}"
    rf"|{_DAY} (?:of )?{MONTHS}\b(?:,? \d{{4}})?"
    rf"|{MONTHS}\b(?: {_DAY}(?!\d))?(?:,? \d{{4}})?|(?:1[5-9]|20)\d\d\b"
    r"|(?:last|this|next|letzte[nsm]?|diese[nsm]?) (?:week|month|year|Woche|Monat|Jahr)\b"
    r"|(?:yesterday|today|gestern|heute)\b)[):,]*"
)
#: Forms of `be` that tell what was.
_WAS = traits.PAST | {"war", "waren"}
_LITTLE = find_words("auxiliary") | find_words("copula") | traits.RELATIONS


@lru_cache(maxsize=4096)
def read_facts(text: str) -> tuple[Fact, ...]:
    """Return what a text states; questions and long sentences are left out."""
    sentences = split_sentences(text)[:_MAX_SENTENCES]
    is_list = len(sentences) > 1  # Whose owner "Owner: Alice" tells, only what is around it does.
    return tuple(
        fact
        for each in sentences
        if len(each) <= _MAX_SENTENCE and not each.endswith("?") and not (is_list and ": " in each)
        for fact in read_sentence(each)
    )


@lru_cache(maxsize=4096)
def read_sentence(sentence: str) -> tuple[Fact, ...]:
    """Return what one sentence of a text states."""
    return tuple(_list_facts(sentence))


def _list_facts(sentence: str) -> Iterator[Fact]:
    plain = _NOISE.sub(" ", sentence).replace("’", "'").replace("n't ", " not ")
    dated = _DATE.search(plain)
    is_since = bool(dated and dated["since"])
    subject: Words = ()
    for tokens in _divide(_TOKEN.findall(_DATE.sub(" ", plain))):
        fact = _read_clause(sentence, tokens, subject)
        if fact is not None:
            subject = subject or fact.subject or _cut_subject(fact.words)
            yield fact._replace(marks=fact.marks | {"since"}) if is_since else fact


def _divide(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Yield the clauses: a joint begins one where a verb or a pronoun follows it."""
    clause: list[str] = []
    for place, token in enumerate(tokens):
        is_joint = token in {",", ";", ":"} or token.lower() in list_sort("joint")
        if is_joint and clause and _opens_clause(token, tokens[place + 1 :]):
            yield clause
            clause = []
        elif clause or not is_joint:
            clause.append(token)
    if clause:
        yield clause


def _opens_clause(joint: str, tokens: Sequence[str]) -> bool:
    if joint == ";":
        return True
    passing = list_sort("passing") | list_sort("now")
    first, behind = ([t for t in tokens if t.lower() not in passing] + ["", ""])[:2]
    if first.lower() in list_sort("pronoun") or may_be_verb(first):
        return True
    if joint.isalpha() and first.lower() in list_sort("article"):
        return any(read_key(token) == "be" for token in tokens[1:4])
    is_inflected = re.fullmatch(r"[a-z]+[a-rt-z]s", first) is not None
    return is_inflected and behind[:1].isalnum() and behind not in traits.RELATIONS


def _read_clause(text: str, tokens: Sequence[str], before: Words) -> Fact | None:
    """Read a clause that says how something is; without a subject, it goes on about `before`."""
    tokens, marks, gone = take_marks(tokens)
    words, is_negative = _read_words(tokens)
    words = _put_verb_first(words)
    if words and words[0].raw.lower() in list_sort("pronoun"):
        words = (*before, *words[1:]) if before else ()
    is_unreal = "unreal" in marks and "now" not in marks
    if is_unreal or not 0 < len(words) <= _MAX_CLAUSE or list_sort("indefinite") & _open(words[0]):
        return None
    is_negative = is_negative or "ended" in marks
    fact = Fact(text, words, (), "", frozenset(), "", "", (), gone, marks, is_negative)
    found = find_relation(words, 0 if before and words[: len(before)] != before else 1)
    said = _tie(fact, found, before) if found else _open_fact(fact, before)
    return said if said and max(len(said.subject), len(said.value)) <= _MAX_PART else None


def _open(word: Word) -> set[str]:
    return {word.article, word.raw.lower()}


def _open_fact(fact: Fact, before: Words) -> Fact | None:
    """Return a fact without a known relation: of whom it is said stands before `be`, if it does."""
    if fact.words[0].key in list_verbs() | {"be"}:
        is_said = bool(before) or fact.words[0].key != "be"
        return fact._replace(subject=before) if is_said else None
    is_told = "be" in fact.keys
    return fact._replace(subject=_cut_subject(fact.words)) if is_told else fact


def _tie(fact: Fact, found: Found, before: Words) -> Fact | None:
    """Return a fact with subject and value on their sides of its relation."""
    words, gone, between = fact.words, fact.gone, _strip(found.between)
    subject, value = _strip(words[: found.start]), _cut_value(words[found.end :])
    subject = subject or before
    if not subject or subject[0].raw.lower() in list_ties():
        return None
    if found.kind == "swaps":
        is_tied = found.end - found.start > 1
        gone |= list_keys((between or subject) if is_tied else value)
        value, subject = value if is_tied else subject, subject if between else ()
    elif between and between[0].raw.lower() in list_sort("source"):
        gone |= list_keys(between[1:])
    elif (
        between
        and found.verb != "be"
        and (between[0].article or list_keys(subject) & list_sort("agent"))
    ):
        subject = between
    elif between and found.verb != "be":
        return None
    if found.kind in {"held", "taken"}:
        subject, value = value, subject
    elif found.kind == "ends" and not value:
        subject, value = (), subject
    is_value = not value or value[0].raw.lower() not in traits.RELATIONS
    return fact._replace(
        subject=subject,
        kind=found.kind,
        classes=found.classes,
        verb=found.verb,
        tie=found.tie,
        value=value if is_value else (),
        gone=gone,
    )


def _read_words(tokens: Sequence[str]) -> tuple[Words, bool]:
    """Return the words without articles and helping verbs, and whether a negation was there."""
    found: list[Word] = []
    article, is_negative = "", False
    kept = BE | traits.RELATIONS | list_sort("agent") | list_sort("pronoun")
    for token in tokens:
        lower = token.lower()
        if lower in traits.NEGATIONS:
            is_negative = True
        if lower in list_sort("article") | list_sort("indefinite") | traits.NEGATIONS:
            article = lower
        elif not (token[0].isalnum() or token[0] in "+#@"):
            article = ","
        else:
            if lower not in traits.AUXILIARIES - kept or read_key(lower) in list_verbs():
                owns = "'s" if token.endswith("'s") else ""
                found.append(Word(read_key(token) + owns, token, article))
                article = ""
    return tuple(found), is_negative


def _cut_subject(words: Words) -> Words:
    """Return what stands before the verb of a clause, none without a verb that is known."""
    verbs = list_verbs() | {"be"}
    return words[: next((n for n, w in enumerate(words) if w.key in verbs or is_past(w.raw)), 0)]


def _put_verb_first(words: Words) -> Words:
    """Return words whose clause ends with its verb, as in German, with that verb before its tie."""
    if words and words[-1].key in list_last_verbs():
        tie = next((n for n, word in enumerate(words[1:-1], 1) if word.key in list_ties()), 0)
        if tie:
            return (*words[:tie], words[-1], *words[tie:-1])
    return words


def _strip(words: Words) -> Words:
    """Return words without the verbs and ties at their end."""
    end = len(words)
    while end and (words[end - 1].key == "be" or words[end - 1].raw in traits.RELATIONS):
        end -= 1
    return words[:end]


def _cut_value(words: Words) -> Words:
    """Return a value without what is tied to it: "Denver" of "Denver with her family"."""
    ends = (traits.RELATIONS | list_ties() | list_sort("joint") | {"be"}) - list_sort("part")
    stop = next(
        (n for n, w in enumerate(words) if n and (w.raw in ends or w.article == ",")), len(words)
    )
    return words[:stop]
