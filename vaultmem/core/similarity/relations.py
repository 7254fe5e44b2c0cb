"""The words of facts: their one form, the sorts of little words, and relations between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from vaultmem.core.languages import list_languages, read_lines, read_pairs
from vaultmem.core.similarity import words as traits
from vaultmem.core.similarity.events import is_past
from vaultmem.core.similarity.marks import list_sort, read_key

#: Words between the parts of a relation ("we moved the database to").
_MAX_GAP = 4


class Word(NamedTuple):
    """A word in its one form, as it was written, and the article or the like before it."""

    key: str
    raw: str
    article: str = ""

    @property
    def is_proper(self) -> bool:
        """Tell whether it is written as a name, an identifier or a figure is."""
        return self.raw[0].isupper() or _IDENTIFIER.match(self.raw) is not None

    @property
    def is_tie(self) -> bool:
        """Tell whether it ties what follows to the rest."""
        return self.raw.lower() in traits.RELATIONS

    @property
    def is_figure(self) -> bool:
        """Tell whether it is or holds a number."""
        return any(map(str.isdigit, self.raw))


Words = tuple[Word, ...]
_Parts = tuple[frozenset[str], ...]

_IDENTIFIER = re.compile(r".*\d|.+[A-Z]|.+[/_@#+]|.+\.\w")
#: How words end that have the stem of a verb and are none.
_NOUNS = ("able", "ment", "ments")


def list_keys(words: Iterable[Word]) -> frozenset[str]:
    """Return the keys of words."""
    return frozenset(word.key for word in words)


class Found(NamedTuple):
    """A relation of a clause: its first and its last word, where it is, and what is in between."""

    kind: str
    classes: frozenset[str]
    verb: str
    tie: str
    start: int
    end: int
    between: Words


def find_relation(words: Words, begin: int) -> Found | None:
    """Return the first relation of a clause from a word on, of several at one place the longest."""
    for start in range(begin, len(words)):
        if _is_noun(words, start):
            continue
        relations = _read_relations().get(words[start].key, ())
        found = [each for one in relations if (each := _match(words, start, *one))]
        if found:
            best = max(found, key=lambda each: (each.end - len(each.between), -each.end))
            alike = (each.classes for each in found if each[2:] == best[2:])
            return best._replace(classes=best.classes.union(*alike))
    return None


def may_be_verb(word: str) -> bool:
    """Tell whether a word is a form of a verb that a relation begins with."""
    return read_key(word) in _read_relations() and not word.endswith(_NOUNS)


def _is_noun(words: Words, place: int) -> bool:
    """Tell whether a word is no verb: "its leaves", "the stop", "Managing Risk", "by using"."""
    word, before = words[place], words[place - 1] if place else None
    if word.article or not may_be_verb(word.raw) or (before and before.raw.endswith("'s")):
        return True
    if before is None:
        return False
    return word.raw[0].isupper() or (word.raw.endswith("ing") and before.key != "be")


def _match(
    words: Words, start: int, kind: str, classes: frozenset[str], parts: _Parts
) -> Found | None:
    """Return a relation if it is at a place; before its last word others may come."""
    place = start + len(parts) - 1
    if kind == "begins" and not _is_inflected(words, start):
        return None
    if len(words) <= place or any(
        word.key not in part for word, part in zip(words[start:place], parts, strict=False)
    ):
        return None
    has_role = place < len(words) and words[place].article in list_sort("indefinite")
    is_open = len(parts) > 1 and (words[start].key != "be" or has_role)
    limit = place + (_MAX_GAP if is_open else 0)
    for last in range(place, min(limit, len(words) - 1) + 1):
        if words[last].key in parts[-1]:
            ends = (words[start].key, words[last].key)
            return Found(kind, classes, *ends, start, last + 1, words[place:last])
    return None


def _is_inflected(words: Words, place: int) -> bool:
    """Tell whether a word is written as a verb is, and not as the noun of "a transfer to"."""
    raw = words[place].raw.lower()
    is_ours = place > 0 and words[place - 1].raw.lower() in list_sort("agent")
    return (
        is_ours or raw.endswith(("s", "ed", "en", "t")) or is_past(raw) or raw in list_last_verbs()
    )


@cache
def _read_relations() -> dict[str, list[tuple[str, frozenset[str], _Parts]]]:
    """Return the relations by their first word."""
    found: dict[str, list[tuple[str, frozenset[str], _Parts]]] = {}
    for line in read_lines("relations"):
        kind, classes, *parts = line.split()
        keys = tuple(frozenset(map(read_key, part.split("|"))) for part in parts)
        for first in keys[0]:
            found.setdefault(first, []).append((kind, frozenset(classes.split(",")), keys))
    return found


@cache
def list_verbs() -> frozenset[str]:
    """Return the first words of all relations but `be`."""
    return frozenset(_read_relations()) - {"be"}


@cache
def list_last_verbs() -> frozenset[str]:
    """Return the first words of relations in languages whose verbs may end a clause."""
    codes = [c for c in list_languages() if read_pairs("language", c).get("verb_last") == "yes"]
    lines = (line for code in codes for line in read_lines("relations", code))
    return frozenset(read_key(word) for line in lines for word in line.split()[2].split("|"))


@cache
def list_ties() -> frozenset[str]:
    """Return what ties a value to a verb: the last words of relations that have several."""
    several = (
        parts for each in _read_relations().values() for _, _, parts in each if len(parts) > 1
    )
    return frozenset().union(*(parts[-1] for parts in several))


@lru_cache(maxsize=256)
def list_related(classes: frozenset[str]) -> tuple[str, ...]:
    """Return the first words of the relations that may have a value of one of these classes."""
    return tuple(
        sorted(
            verb
            for verb, each in _read_relations().items()
            if any(classes & found for _, found, _ in each)
        )
    )
