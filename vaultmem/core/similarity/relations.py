"""The words of facts: their one form, the sorts of little words, and relations between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from vaultmem.core.finding.terms import find_stem, plain_text
from vaultmem.core.languages import list_languages, read_lines, read_pairs
from vaultmem.core.similarity import words as traits
from vaultmem.core.similarity.events import is_past

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
    def is_figure(self) -> bool:
        """Tell whether it is or holds a number."""
        return any(map(str.isdigit, self.raw))


Words = tuple[Word, ...]
_Parts = tuple[frozenset[str], ...]

_IDENTIFIER = re.compile(r".*\d|.+[A-Z]|.+[/_@#+]|.+\.\w")
#: Forms of `be`.
BE = traits.COPULAS | {"been", "being", "wurde", "wurden", "worden"}


def list_keys(words: Iterable[Word]) -> frozenset[str]:
    """Return the keys of words."""
    return frozenset(word.key for word in words)


@lru_cache(maxsize=20_000)
def read_key(word: str) -> str:
    """Return the one form of a word: its stem, or itself where search would drop it."""
    word = plain_text(word).casefold().removesuffix("'s")
    return "be" if word in BE else find_stem(word) or word


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
        if words[start].article or words[start - 1].raw.endswith("'s"):
            continue  # "Its leaves", "the stop": a noun.
        relations = _read_relations().get(words[start].key, ())
        found = [each for one in relations if (each := _match(words, start, *one))]
        if found:
            return max(found, key=lambda each: (each.end - len(each.between), -each.end))
    return None


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
def list_sort(sort: str) -> frozenset[str]:
    """Return the words of a sort of `updates.txt`."""
    lines = (line.partition(" ") for line in read_lines("updates"))
    return frozenset(said for name, _, said in lines if name == sort)


@cache
def read_marks() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Return the phrases that mark a change by their first word, longer ones first."""
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for line in read_lines("updates"):
        sort, *phrase = line.split()
        if sort in {"again", "ended", "gone", "now", "passing", "since"}:
            found.setdefault(phrase[0], []).append((sort, tuple(phrase)))
    for phrases in found.values():
        phrases.sort(key=lambda each: -len(each[1]))
    return found


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
