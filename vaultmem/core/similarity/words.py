"""Reduce words to one form: spelling, synonyms, stems, numbers and units."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

from vaultmem.core.languages import find_words, guess_code, list_languages, read_lines, read_pairs
from vaultmem.core.text.patterns import compile_later

# The words with a role in comparisons, by their traits. A missing word costs a missed duplicate; a
# wrong one merges two facts. See docs/reference/languages.md for each trait.

# Words that limit a statement.
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

# Words that connect others.
RELATIONS = find_words("relation")
CLAUSAL = find_words("clausal")
AUXILIARIES = find_words("auxiliary")
COPULAS = find_words("copula")

# Other words.
LIGHT = find_words("light")
LABELS = find_words("label")
GENERIC = find_words("generic")
ENVIRONMENTS = find_words("environment")
RETRACTIONS = find_words("taking-back")


#: British spellings and adverbs, also in words with no other form: both sides are treated alike.
_BRITISH = compile_later(r"(?<=[a-z]{2})is(?=(?:e|ed|es|ing|ation|ations|er|ers)$)")
_OUR_SPELLING = compile_later(r"(?<=[a-z][bdlnv])our(?=(?:s|ed|ing|ite|ites|al|able)?$)")
_ADVERB = compile_later(r"(?<=al|ul|us|ve|nt|ar|ck|ct|te|ht|ng|ed)ly$")
_PREFIXES = ("re", "over", "under", "out")


class Language(NamedTuple):
    """A text's language by its code.

    `has_capital_nouns`: nouns are written like names. `is_shouting`: all of the text is in
    capitals.
    """

    code: str
    has_capital_nouns: bool
    is_shouting: bool
    stem: Callable[[str], str]


def guess_language(text: str) -> Language:
    """Guess a text's language as `guess_code` does."""
    return _read_language(guess_code(text))._replace(is_shouting=text.isupper())


def has_trait(word: str, trait: str, language: Language) -> bool:
    """Return whether a lower-case word has a trait in any language.

    A homograph of another language's word counts only if its own language gives it that trait.
    """
    is_homograph = word in _find_homographs(language.code)
    return word in find_words(trait, language.code if is_homograph else "")


def is_function_word(word: str, language: Language) -> bool:
    """Return whether a lower-case word only connects others or limits them."""
    return word == "insteadof" or has_trait(word, "function", language)


def is_light(key: str) -> bool:
    """Return whether a word in its one form names no fact."""
    return key in _keys_of(LIGHT)


def is_environment(key: str) -> bool:
    """Return whether a word in its one form names an environment, such as production."""
    return key in _keys_of(ENVIRONMENTS)


def spell_american(word: str) -> str:
    """Return a lower-case word in American spelling."""
    return _OUR_SPELLING.sub("or", _BRITISH.sub("iz", word))


@lru_cache(maxsize=20_000)
def unify_word(word: str, language: Language) -> str:
    """Return the one form of a lower-case word."""
    word = read_pairs("rates").get(word, word)
    synonyms, irregular = _read_synonyms(language.code), read_pairs("irregular_forms")
    if word in synonyms:
        return synonyms[word]
    if language.code == "en":
        word = _ADVERB.sub("", spell_american(word))
    word = irregular.get(word, word)
    for prefix in _PREFIXES:
        rest = word.removeprefix(prefix)
        if rest != word and rest in irregular:
            word = f"{prefix}{irregular[rest]}"
    stem = language.stem(word)
    return synonyms.get(word, synonyms.get(stem, stem))


@cache
def _read_language(code: str) -> Language:
    settings = read_pairs("language", code)
    return Language(code, settings.get("capital_nouns") == "yes", False, _find_stemmer(code))


@cache
def _find_stemmer(code: str) -> Callable[[str], str]:
    """Return a language's stemmer; without one, words stay as they are."""
    from Stemmer import Stemmer

    name = read_pairs("language", code).get("stemmer")
    if name is None:
        return str
    stem: Callable[[str], str] = Stemmer(name).stemWord
    return _without_participles(stem) if code == "de" else stem


def _without_participles(stem: Callable[[str], str]) -> Callable[[str], str]:
    """Return a German stemmer that reduces a weak participle to its verb: gelöscht, löscht."""

    def stem_german(word: str) -> str:
        bare = word[2:] if word.startswith("ge") and word.endswith("t") and len(word) > 6 else word
        root = stem(bare)
        for ending in ("et", "t"):
            if root.endswith(ending) and len(root) > 4:
                root = root.removesuffix(ending)
        return root

    return stem_german


@cache
def _find_homographs(code: str) -> frozenset[str]:
    """Return the function words of other languages that are other words in this one."""
    others = (find_words("homograph", each) for each in list_languages() if each != code)
    return frozenset().union(*others)


@cache
def _read_synonyms(code: str) -> dict[str, str]:
    """Return the one form for each word of a group, by the word and by its stem."""
    stem = _find_stemmer(code)
    forms: dict[str, str] = {}
    for line in read_lines("synonyms"):
        first, *others = line.split()
        for each in (first, *others):
            forms.setdefault(each, stem(first))
            forms.setdefault(stem(each), stem(first))
    return forms


@cache
def _keys_of(group: frozenset[str]) -> frozenset[str]:
    languages = [_read_language(code) for code in list_languages()]
    return group.union(unify_word(word, each) for word in group for each in languages)


# Figures, units, dates and times in one form each.

_NAMES = sorted((name.capitalize() for name in read_pairs("months")), key=len, reverse=True)

#: A pattern of the names of months.
MONTHS = rf"(?:{'|'.join(_NAMES)})"


def read_date(raw: str) -> str:
    """Return `31.12.2027` or `2027-12-31` as the latter."""
    if "." in raw:
        day, month, year = raw.split(".")
        return f"{year}-{int(month):02}-{int(day):02}"
    return raw.removesuffix(":00")


def read_named_date(raw: str) -> str:
    """Return `14 March 2026`, `March 14` or `May 2025` as a date; the year can be missing."""
    name = re.search(MONTHS, raw)
    month = int(read_pairs("months")[name.group().lower()]) if name else 0
    numbers = [int(part) for part in re.findall(r"\d+", raw)]
    year = next((number for number in numbers if number > 31), None)
    day = next((number for number in numbers if number <= 31), None)
    return f"{year or ''}-{month:02}" + (f"-{day:02}" if day else "")


def read_time(raw: str) -> str:
    """Return `2:30 pm` or `14:30` as the latter."""
    hours, _, rest = raw.partition(":")
    hour = int(re.sub(r"\D", "", hours))
    minute = int(rest[:2]) if rest else 0
    if raw.lower().endswith("pm") and hour < 12:
        hour += 12
    return f"{hour:02}:{minute:02}"


def read_figure(text: str) -> str:
    """Return a figure without thousands separators; 1.5 stays, and 3.10 is not 3.1."""
    if re.fullmatch(r"-?\d{1,3}(?:[.,_ ]\d{3})+", text):
        return re.sub(r"[.,_ ]", "", text)
    text = re.sub(r"(?<=\d)[,_ ](?=\d{3}\b)", "", text)
    return text.replace(",", ".").replace(" ", "")


@cache
def read_units() -> dict[str, tuple[str, float]]:
    """Return each unit's dimension and factor."""
    rows = ((unit, *entry.split()) for unit, entry in read_pairs("units").items())
    return {unit: (dimension, float(factor)) for unit, dimension, factor in rows}
