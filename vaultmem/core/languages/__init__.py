"""Word tables: a folder for each language, a file for each table, a line for each word.

docs/reference/languages.md explains the tables and how to add a language.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def list_languages() -> tuple[str, ...]:
    """Return the code of each language that has a folder, English first."""
    codes = [each.name for each in _FOLDER.iterdir() if each.name.isalpha()]
    return tuple(sorted(codes, key=lambda code: (code != "en", code)))


@cache
def read_lines(table: str, language: str = "") -> tuple[str, ...]:
    """Return the lines of a language's table, without comments; by default of all languages.

    A language without that table has no lines.
    """
    if not language:
        return tuple(line for each in list_languages() for line in read_lines(table, each))
    try:
        with open(f"{_FOLDER}/{language}/{table}.txt", encoding="utf-8") as file:
            return tuple(line for line in file.read().split("\n") if line and line[0] != "#")
    except FileNotFoundError:
        return ()


@cache
def read_words(table: str) -> frozenset[str]:
    """Return the words of a table with one word on each line."""
    return frozenset(read_lines(table))


@cache
def read_pairs(table: str, language: str = "") -> dict[str, str]:
    """Return a table as a mapping from each line's first word to the rest; the first line wins."""
    lines = (line.partition(" ") for line in reversed(read_lines(table, language)))
    return {word: rest for word, _, rest in lines}


@cache
def find_words(trait: str, language: str = "") -> frozenset[str]:
    """Return the words with a trait, in one language or in all."""
    return _read_traits(language).get(trait, frozenset())


def guess_code(text: str) -> str:
    """Return the code of a text's likely language, by marker words, then by unique letters."""
    lower = text.lower()
    names = re.findall(r"[^\W\d_]+", lower)

    def count_marks(code: str) -> tuple[int, bool]:
        marks = find_words("mark", code)
        letters = read_pairs("language", code).get("letters", "")
        return sum(name in marks for name in names), not set(letters).isdisjoint(lower)

    return max(list_languages(), key=count_marks)


@cache
def _read_traits(language: str) -> dict[str, frozenset[str]]:
    words_by_trait: dict[str, set[str]] = {}
    for line in read_lines("words", language):
        word, *traits = line.split()
        for trait in traits:
            words_by_trait.setdefault(trait, set()).add(word)
    return {trait: frozenset(words) for trait, words in words_by_trait.items()}
