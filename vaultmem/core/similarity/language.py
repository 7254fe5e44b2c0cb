"""A word's one form, by the language of its text: spelling, synonyms, stem."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

from vaultmem.core.finding.words import IRREGULAR_FORMS
from vaultmem.core.similarity import quantities, words
from vaultmem.core.similarity.figures import pairs
from vaultmem.core.similarity.synonyms import SYNONYMS

#: British spellings and adverbs, also in words that have no other: both sides are treated alike.
_BRITISH = re.compile(r"(?<=[a-z]{2})is(?=(?:e|ed|es|ing|ation|ations|er|ers)$)")
_OUR = re.compile(r"(?<=[a-z][bdlnv])our(?=(?:s|ed|ing|ite|ites|al|able)?$)")
_ADVERB = re.compile(r"(?<=al|ul|us|ve|nt|ar|ck|ct|te|ht|ng|ed)ly$")
_UMLAUT = re.compile("[äöüß]", re.IGNORECASE)
_PREFIXES = ("re", "over", "under", "out")


class Language(NamedTuple):
    """A text's language: English, or German, where every noun is written as a name is.

    `is_shouting` tells that all of the text is in capitals.
    """

    is_german: bool
    is_shouting: bool
    stem: Callable[[str], str]


def guess_language(text: str) -> Language:
    """Guess a text's language by its function words."""
    names = re.findall(r"[^\W\d_]+", text.lower())
    german = sum(name in words.GERMAN_MARKS for name in names)
    english = sum(name in words.ENGLISH_MARKS for name in names)
    is_german = german > english or (german == english and bool(_UMLAUT.search(text)))
    return Language(is_german, text.isupper(), _stemmers()[is_german])


def is_function_word(word: str, language: Language) -> bool:
    """Tell whether a word in lower case only holds others together, or limits them."""
    if word in words.GERMAN_ONLY and not language.is_german:
        return word in words.ENGLISH_TOO
    return word in words.STOP or word in _limiting()


def is_light(key: str) -> bool:
    """Tell whether a word in its one form names no fact."""
    return key in _keys_of(words.LIGHT)


def is_environment(key: str) -> bool:
    """Tell whether a word in its one form names where something runs."""
    return key in _keys_of(words.ENVIRONMENTS)


@lru_cache(maxsize=20_000)
def unify_word(word: str, language: Language) -> str:
    """Return the one form of a word in lower case."""
    word = _rates().get(word, word)
    known = _synonyms(language.is_german)
    if word in known:
        return known[word]
    if not language.is_german:
        word = _ADVERB.sub("", _OUR.sub("or", _BRITISH.sub("iz", word)))
    word = IRREGULAR_FORMS.get(word, word)
    for prefix in _PREFIXES:
        rest = word.removeprefix(prefix)
        if rest != word and rest in IRREGULAR_FORMS:
            word = f"{prefix}{IRREGULAR_FORMS[rest]}"
    stem = language.stem(word)
    return known.get(word, known.get(stem, stem))


@cache
def _stemmers() -> tuple[Callable[[str], str], Callable[[str], str]]:
    from Stemmer import Stemmer

    german = Stemmer("german").stemWord

    def stem_german(word: str) -> str:
        """Take a weak participle back to its verb's stem: gelöscht, löscht, löschen."""
        bare = word[2:] if word.startswith("ge") and word.endswith("t") and len(word) > 6 else word
        stem: str = german(bare)
        for ending in ("et", "t"):
            if stem.endswith(ending) and len(stem) > 4:
                stem = stem.removesuffix(ending)
        return stem

    return Stemmer("english").stemWord, stem_german


@cache
def _rates() -> dict[str, str]:
    return pairs(quantities.RATES)


@cache
def _limiting() -> frozenset[str]:
    groups = (words.NEGATIONS, words.EXCEPTIONS, words.CONDITIONS, words.ONLY, words.UNCERTAIN)
    return frozenset().union(*groups, words.SOME, words.MUST, words.MAY, {"insteadof"})


@cache
def _synonyms(is_german: bool) -> dict[str, str]:
    """Return what stands for each word of a group, by the word and by its stem."""
    stem = _stemmers()[is_german]
    found: dict[str, str] = {}
    for line in SYNONYMS.strip().splitlines():
        first, *others = line.split()
        for each in (first, *others):
            found.setdefault(each, stem(first))
            found.setdefault(stem(each), stem(first))
    return found


@cache
def _keys_of(group: frozenset[str]) -> frozenset[str]:
    english, german = (Language(flag, False, _stemmers()[flag]) for flag in (False, True))
    forms = (unify_word(word, each) for word in group for each in (english, german))
    return frozenset((*group, *forms))
