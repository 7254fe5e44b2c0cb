"""The words that the rules of comparison know, by their traits.

A word that is missing costs a duplicate that is not seen; a word too many merges two facts.
docs/reference/languages.md says what each trait means.
"""

from __future__ import annotations

from vaultmem.core.languages import find_words

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
