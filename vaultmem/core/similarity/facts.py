"""The fact in a sentence: its subject, its relation, its value, and whether it is new.

The words are in tables: `relations.txt` and `updates.txt` of each language.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from vaultmem.core.languages import list_languages, read_lines, read_pairs
from vaultmem.core.search.terms import find_stem, plain_text
from vaultmem.core.similarity import words as traits
from vaultmem.core.similarity.statement import is_past, split_sentences
from vaultmem.core.text.patterns import compile_later

#: Longer sentences state several facts; and the most sentences that are read of a text.
_MAX_SENTENCE, _MAX_SENTENCES = 200, 40

#: Most words of a sentence, and of a subject or value.
_MAX_WORDS, _MAX_PART = 14, 5

#: Words between the parts of a relation ("we moved the database to").
_MAX_GAP = 4

#: Sorts of `updates.txt` whose words are not part of the statement.
_MARKS = frozenset(
    ["again", "ended", "fresh", "gone", "last", "more", "now", "passing", "since", "unreal"]
)

#: Forms of `be`, and those in the past.
BE = traits.COPULAS | {"been", "being", "wurde", "wurden", "worden"}
_PAST_BE_FORMS = traits.PAST | {"war", "waren"}
_FUNCTION_WORDS = traits.AUXILIARIES | traits.COPULAS | traits.RELATIONS | {"be"}

_TOKEN = compile_later(r"[+#@]?[^\W_](?:[\w.\-/@:+#&]*[\w+#])?(?:'[^\W_]+)?|[,;:()]")
_NOISE = compile_later(
    r"[*`\"“”„«»]+|(?<!\w)_+|_+(?!\w)|\[\[|\]\]|^[ \t]*(?:[-+>]|#{1,6}|\d+[.)])[ \t]+"
)
_IDENTIFIER = compile_later(r".*\d|.+[A-Z]|.+[/_@#+]|.+\.\w")


class Word(NamedTuple):
    """A word in its one form, as written, and the article or comma before it."""

    key: str
    raw: str
    article: str = ""

    @property
    def is_proper(self) -> bool:
        """Return whether it is written like a name, an identifier or a figure."""
        return self.raw[0].isupper() or _IDENTIFIER.match(self.raw) is not None

    @property
    def is_tie(self) -> bool:
        """Return whether it connects the next words to the rest."""
        return self.raw.lower() in traits.RELATIONS

    @property
    def is_figure(self) -> bool:
        """Return whether it contains a number."""
        return any(map(str.isdigit, self.raw))


Words = tuple[Word, ...]


@dataclass(frozen=True)
class Fact:
    """The fact in a sentence, with cached properties for many comparisons.

    `words` are all except marks and articles, `marks` the sorts of `updates.txt` found. For a
    relation of `relations.txt`: `kind` and `classes`, its first and last word (`verb`, `tie`), and
    the `subject` and `value` that it connects. The value replaces the `replaced_words`.
    """

    text: str
    words: Words
    marks: frozenset[str]
    replaced_words: frozenset[str]
    is_negative: bool
    kind: str = ""
    classes: frozenset[str] = frozenset()
    verb: str = ""
    tie: str = ""
    subject: Words = ()
    value: Words = ()

    @cached_property
    def is_new(self) -> bool:
        """Return whether it states itself that something changed."""
        is_marked = bool(self.marks - {"more"} or self.replaced_words)
        return is_marked or self.kind in {"begins", "ends", "swaps", "taken"}

    @cached_property
    def is_over(self) -> bool:
        """Return whether its relation is in the past, and so has ended."""
        if any(w.key == "be" and w.raw.lower() in _PAST_BE_FORMS for w in self.words):
            return True
        verb = next((word.raw for word in self.words if word.key == self.verb), "")
        return is_past(verb) and not any(word.key == "be" for word in self.words)

    @cached_property
    def is_doing(self) -> bool:
        """Return whether it is about a current action ("is doing")."""
        pairs = pairwise(self.words)
        return any(first.key == "be" and second.raw.endswith("ing") for first, second in pairs)

    @cached_property
    def is_event(self) -> bool:
        """Return whether it is about an action, past or current; two of them can both be true."""
        if self.kind or self.marks:
            return False
        is_state = any(word.raw.lower() in traits.PRESENT for word in self.words)
        return self.is_doing or (not is_state and any(is_past(w.raw) for w in self.words))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of all words."""
        return list_keys(self.words)

    @cached_property
    def topic(self) -> frozenset[str]:
        """Its subject, as far as known; else its first word."""
        return list_keys(self.subject or self.words[:1])

    @cached_property
    def content(self) -> frozenset[str]:
        """The words that name something."""
        return self.keys - _FUNCTION_WORDS

    @cached_property
    def predicate(self) -> frozenset[str]:
        """The words after the subject that name something."""
        is_first = self.words[:1] == self.subject[:1]
        return list_keys(self.words[len(self.subject) if is_first else 0 :]) - _FUNCTION_WORDS


@lru_cache(maxsize=4096)
def read_facts(text: str) -> tuple[Fact, ...]:
    """Return the facts of a text; questions and long sentences are left out."""
    sentences = split_sentences(text)[:_MAX_SENTENCES]
    is_list = len(sentences) > 1  # The owner in "Owner: Alice" depends on the text around it.
    facts = (
        read_sentence(each)
        for each in sentences
        if not each.endswith("?") and not (is_list and ": " in each)
    )
    return tuple(fact for fact in facts if fact)


@lru_cache(maxsize=4096)
def read_sentence(sentence: str) -> Fact | None:
    """Return the fact of a sentence; None if it is long, about a pronoun, or states none."""
    if len(sentence) > _MAX_SENTENCE:
        return None
    plain = _NOISE.sub(" ", sentence).replace("’", "'").replace("n't ", " not ")
    tokens, marks, gone_keys = _strip_new_words(_TOKEN.findall(plain))
    words, is_negative = _read_words(tokens)
    if ("unreal" in marks and "now" not in marks) or not 0 < len(words) <= _MAX_WORDS:
        return None
    first = words[0].raw.lower()
    if first in list_sort("pronoun") or list_sort("indefinite") & {words[0].article, first}:
        return None
    words = _put_verb_first(words)
    fact = Fact(sentence, words, marks, gone_keys, is_negative or "ended" in marks)
    relation = _find_relation(words)
    result = _tie(fact, relation) if relation else fact
    return result if result and max(len(result.subject), len(result.value)) <= _MAX_PART else None


def list_keys(words: Iterable[Word]) -> frozenset[str]:
    """Return the keys of words."""
    return frozenset(word.key for word in words)


@cache
def list_sort(sort: str, table: str = "updates") -> frozenset[str]:
    """Return the words of a sort of a table of words: `updates.txt`, `series.txt`."""
    lines = (line.partition(" ") for line in read_lines(table))
    return frozenset(phrase for name, _, phrase in lines if name == sort)


@cache
def list_verbs() -> frozenset[str]:
    """Return the first words of all relations except `be`."""
    return frozenset(_read_relations()) - {"be"}


@lru_cache(maxsize=256)
def list_related(classes: frozenset[str]) -> tuple[str, ...]:
    """Return the first words of the relations that can have a value of one of these classes."""
    relations = _read_relations().items()
    return tuple(
        sorted(
            verb
            for verb, each in relations
            if any(classes & value_classes for _, value_classes, _ in each)
        )
    )


@lru_cache(maxsize=20_000)
def read_key(word: str) -> str:
    """Return the one form of a word: its stem, or itself if search would drop it."""
    word = plain_text(word).casefold().removesuffix("'s")
    return "be" if word in BE else find_stem(word) or word


def _strip_new_words(tokens: Sequence[str]) -> tuple[list[str], frozenset[str], frozenset[str]]:
    """Return the tokens without words that mark a change, the sorts of these, and ended values."""
    plain_tokens: list[str] = []
    marks: set[str] = set()
    gone_keys: set[str] = set()
    place = 0
    while place < len(tokens):
        sort, length = _find_mark(tokens, place)
        place += length
        if sort == "gone":
            rest = tokens[place:]
            stop = next((n for n, t in enumerate(rest) if not t[0].isalnum()), len(rest))
            gone_keys.update(read_key(t) for t in rest[:stop] if t.lower() not in traits.RELATIONS)
            place += stop
        elif sort == "fresh":
            marks.add("now")
        elif sort == "since":
            marks.add(sort)
            break
        elif sort:
            marks.update({sort} - {"passing"})
        else:
            plain_tokens.append(tokens[place])
            place += 1
    return plain_tokens, frozenset(marks), frozenset(gone_keys)


def _find_mark(tokens: Sequence[str], place: int) -> tuple[str, int]:
    """Return the sort of the mark at a place and its length, "" and 0 if there is none."""
    for sort, phrase in _read_marks().get(tokens[place].lower(), ()):
        end = place + len(phrase)
        if tuple(t.lower() for t in tokens[place:end]) != phrase:
            continue
        if sort == "fresh":  # "The new landlord" replaces one, "a new landlord" need not.
            sort = sort if place == 1 and tokens[0].lower() in list_sort("article") else ""
        elif sort == "last":
            sort = "more" if end == len(tokens) else ""
        if sort:
            return sort, len(phrase)
    return "", 0


@cache
def _read_marks() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Return the phrases that mark a change by their first word, longer ones first."""
    marks: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for line in read_lines("updates"):
        sort, *phrase = line.split()
        if sort in _MARKS:
            marks.setdefault(phrase[0], []).append((sort, tuple(phrase)))
    for phrases in marks.values():
        phrases.sort(key=lambda each: -len(each[1]))
    return marks


def _read_words(tokens: Sequence[str]) -> tuple[Words, bool]:
    """Return the words without articles and helping verbs, and whether there was a negation."""
    words: list[Word] = []
    article, is_negative = "", False
    kept_words = BE | traits.RELATIONS | list_sort("agent") | list_sort("pronoun")
    for token in tokens:
        lower = token.lower()
        if lower in traits.NEGATIONS:
            is_negative = True
        if lower in list_sort("article") | list_sort("indefinite") | traits.NEGATIONS:
            article = lower
        elif not (token[0].isalnum() or token[0] in "+#@"):
            article = ","
        elif lower not in traits.AUXILIARIES - kept_words or read_key(lower) in list_verbs():
            possessive = "'s" if token.endswith("'s") else ""
            words.append(Word(read_key(token) + possessive, token, article))
            article = ""
    return tuple(words), is_negative


def _put_verb_first(words: Words) -> Words:
    """Return words that end with their verb, as in German, with that verb before its tie."""
    if words[-1].key in _list_last_verbs():
        tie = next((n for n, word in enumerate(words[1:-1], 1) if word.key in _list_ties()), 0)
        if tie:
            return (*words[:tie], words[-1], *words[tie:-1])
    return words


class _Found(NamedTuple):
    """A relation in a sentence: its first and last word, its place, and the words in between."""

    kind: str
    classes: frozenset[str]
    verb: str
    tie: str
    start: int
    end: int
    between: Words


_Parts = tuple[frozenset[str], ...]


def _find_relation(words: Words) -> _Found | None:
    """Return the first relation after the first word; of several at one place, the longest."""
    for start in range(1, len(words)):
        relations = _read_relations().get(words[start].key, ())
        matches = [each for relation in relations if (each := _match(words, start, *relation))]
        if matches:
            best = max(matches, key=lambda each: (each.end - len(each.between), -each.end))
            classes = (each.classes for each in matches if each[2:] == best[2:])
            return best._replace(classes=best.classes.union(*classes))
    return None


def _match(
    words: Words, start: int, kind: str, classes: frozenset[str], parts: _Parts
) -> _Found | None:
    """Return a relation if it is at a place; other words can precede its last word."""
    place = start + len(parts) - 1
    if len(words) <= place or any(
        word.key not in part for word, part in zip(words[start:place], parts, strict=False)
    ):
        return None
    has_role = words[place].article in list_sort("indefinite")
    is_open = len(parts) > 1 and (words[start].key != "be" or has_role)
    limit = place + (_MAX_GAP if is_open else 0)
    for last in range(place, min(limit, len(words) - 1) + 1):
        if words[last].key in parts[-1]:
            ends = (words[start].key, words[last].key)
            return _Found(kind, classes, *ends, start, last + 1, words[place:last])
    return None


def _tie(fact: Fact, relation: _Found) -> Fact | None:
    """Return a fact with subject and value on their sides of its relation, None if invalid."""
    words, gone_keys, middle = fact.words, fact.replaced_words, _strip(relation.between)
    subject, value = _strip(words[: relation.start]), _strip_value(words[relation.end :])
    if not subject or subject[0].raw.lower() in _list_ties():
        return None
    if relation.kind == "swaps":
        is_tied = relation.end - relation.start > 1
        gone_keys |= list_keys((middle or subject) if is_tied else value)
        value, subject = value if is_tied else subject, subject if middle else ()
    elif middle and middle[0].raw.lower() in list_sort("source"):
        gone_keys |= list_keys(middle[1:])
    elif middle and relation.verb != "be":
        if not (middle[0].article or list_keys(subject) & list_sort("agent")):
            return None
        subject = middle
    if relation.kind in {"held", "taken"}:
        subject, value = value, subject
    elif relation.kind == "ends" and not value:
        subject, value = (), subject
    is_value = not value or value[0].raw.lower() not in traits.RELATIONS
    return replace(
        fact,
        replaced_words=gone_keys,
        kind=relation.kind,
        classes=relation.classes,
        verb=relation.verb,
        tie=relation.tie,
        subject=subject,
        value=value if is_value else (),
    )


def _strip(words: Words) -> Words:
    """Return words without the verbs and ties at their end."""
    end = len(words)
    while end and (words[end - 1].key == "be" or words[end - 1].raw in traits.RELATIONS):
        end -= 1
    return words[:end]


def _strip_value(words: Words) -> Words:
    """Return a value without the words tied to it: "Denver" of "Denver with her family"."""
    ends = (traits.RELATIONS | _list_ties() | list_sort("joint") | {"be"}) - list_sort("part")
    stop = next(
        (n for n, w in enumerate(words) if n and (w.raw in ends or w.article == ",")), len(words)
    )
    return words[:stop]


@cache
def _read_relations() -> dict[str, list[tuple[str, frozenset[str], _Parts]]]:
    """Return the relations by their first word."""
    relations: dict[str, list[tuple[str, frozenset[str], _Parts]]] = {}
    for line in read_lines("relations"):
        kind, classes, *parts = line.split()
        keys = tuple(frozenset(map(read_key, part.split("|"))) for part in parts)
        for first in keys[0]:
            relations.setdefault(first, []).append((kind, frozenset(classes.split(",")), keys))
    return relations


@cache
def _list_last_verbs() -> frozenset[str]:
    """Return the first words of relations in languages whose verbs can end a sentence."""
    codes = [c for c in list_languages() if read_pairs("language", c).get("verb_last") == "yes"]
    lines = (line for code in codes for line in read_lines("relations", code))
    return frozenset(read_key(word) for line in lines for word in line.split()[2].split("|"))


@cache
def _list_ties() -> frozenset[str]:
    """Return the words that tie a value to a verb: last words of relations that have several."""
    relations = (each for group in _read_relations().values() for each in group)
    return frozenset().union(*(parts[-1] for _, _, parts in relations if len(parts) > 1))
