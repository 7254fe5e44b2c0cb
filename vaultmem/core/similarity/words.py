"""The words that the rules of comparison know, by their traits.

A word that is missing costs a duplicate that is not seen; a word too many merges two facts.
docs/reference/languages.md says what each trait means.
"""

from __future__ import annotations

from functools import cache

from vaultmem.core.languages import read_lines


@cache
def find_words(trait: str, language: str = "") -> frozenset[str]:
    """Return the words that have a trait, in one language or in any."""
    return _read_traits(language).get(trait, frozenset())


@cache
def _read_traits(language: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in read_lines("words", language):
        word, *traits = line.split()
        for trait in traits:
            found.setdefault(trait, set()).add(word)
    return {trait: frozenset(words) for trait, words in found.items()}


# What limits a statement.
NEGATIONS = find_words("negation")
EXCEPTIONS = find_words("exception")
CONDITIONS = find_words("condition")
ONLY = find_words("only")
HEDGES = find_words("hedge")
QUANTIFIERS = find_words("quantifier")
OBLIGATIONS = find_words("obligation")
PERMISSIONS = find_words("permission")
PAST, PRESENT, FUTURE = map(find_words, ("past", "present", "future"))
ALTERNATIVES, ADDITIONS = map(find_words, ("alternative", "addition"))

# What binds its words.
RELATIONS = find_words("relation")
CLAUSAL = find_words("clausal")
AUXILIARIES = find_words("auxiliary")
COPULAS = find_words("copula")

# What its other words are.
LIGHT = find_words("light")
LABELS = find_words("label")
GENERIC = find_words("generic")
ENVIRONMENTS = find_words("environment")
TAKING_BACK = find_words("taking-back")
