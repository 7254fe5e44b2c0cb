"""The little words of a clause that tell what is new, over, besides or not said to be so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from vaultmem.core.finding.terms import find_stem, plain_text
from vaultmem.core.languages import read_lines
from vaultmem.core.similarity import words as traits

#: The sorts of `updates.txt` that are no part of what a clause says.
_MARKS = frozenset(
    ["again", "ended", "fresh", "gone", "last", "more", "now", "passing", "since", "unreal"]
)

#: Forms of `be`.
BE = traits.COPULAS | {"been", "being", "wurde", "wurden", "worden"}


def take_marks(tokens: Sequence[str]) -> tuple[list[str], frozenset[str], frozenset[str]]:
    """Return the tokens without the words that tell what is new, their sorts, and what is gone."""
    left: list[str] = []
    marks: set[str] = set()
    gone: set[str] = set()
    place = 0
    while place < len(tokens):
        sort, length = _find_mark(tokens, place)
        place += length
        if sort == "gone":
            rest = tokens[place:]
            stop = next((n for n, t in enumerate(rest) if not t[0].isalnum()), len(rest))
            gone.update(read_key(t) for t in rest[:stop] if t.lower() not in traits.RELATIONS)
            place += stop
        elif sort == "fresh":
            marks.add("now")
        elif sort == "since":
            marks.add(sort)
            break
        elif sort:
            marks.update({sort} - {"passing"})
        else:
            left.append(tokens[place])
            place += 1
    return left, frozenset(marks), frozenset(gone)


def _find_mark(tokens: Sequence[str], place: int) -> tuple[str, int]:
    for sort, phrase in _read_marks().get(tokens[place].lower(), ()):
        end = place + len(phrase)
        if tuple(t.lower() for t in tokens[place:end]) != phrase:
            continue
        if sort == "fresh":  # "The new landlord" takes a place, "a new landlord" need not.
            sort = sort if place == 1 and tokens[0].lower() in list_sort("article") else ""
        elif sort == "last":
            sort = "more" if end == len(tokens) else ""
        if sort:
            return sort, len(phrase)
    return "", 0


@cache
def list_sort(sort: str) -> frozenset[str]:
    """Return the words of a sort of `updates.txt`."""
    lines = (line.partition(" ") for line in read_lines("updates"))
    return frozenset(said for name, _, said in lines if name == sort)


@cache
def _read_marks() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Return the phrases that mark a change by their first word, longer ones first."""
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for line in read_lines("updates"):
        sort, *phrase = line.split()
        if sort in _MARKS:
            found.setdefault(phrase[0], []).append((sort, tuple(phrase)))
    for phrases in found.values():
        phrases.sort(key=lambda each: -len(each[1]))
    return found


@lru_cache(maxsize=20_000)
def read_key(word: str) -> str:
    """Return the one form of a word: its stem, or itself where search would drop it."""
    word = plain_text(word).casefold().removesuffix("'s")
    return "be" if word in BE else find_stem(word) or word
