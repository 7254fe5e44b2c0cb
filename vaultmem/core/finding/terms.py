"""Words to index terms: the same analysis for notes and for queries.

Words are runs of letters and digits, lower-cased, accents folded, stop words dropped,
irregular forms made regular, stemmed by Porter's stemmer. A run of Chinese, Japanese or Korean
characters becomes overlapping pairs of characters, the usual choice without a dictionary.

What is written in one piece of several words (`snake_case`, `camelCase`, `a/b/c.py`, `3.11.2`,
`e-mail`) is found by its words and, as one more term, as a whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING
from zlib import crc32

from vaultmem.core.languages import read_pairs, read_words

if TYPE_CHECKING:
    from collections.abc import Callable

#: Longer words are noise (base64, hashes in a row) and are not indexed.
MAX_TERM_LENGTH = 64

#: Changes whenever the terms of a text change, so that an index built before is rebuilt.
ANALYSIS_VERSION = 2

#: Longer runs without a blank are no names.
_LONGEST_PIECE = 500

#: Stands between the parts of a sequence of term numbers; no term has it.
SEPARATOR = 0

#: Each ASCII byte in lower case, blanks for all that is neither letter nor digit.
_ASCII_WORDS = bytes(
    ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 32 for code in range(256)
)
#: Combining marks of Latin, Greek and Cyrillic; those of other scripts are part of the letter.
_ACCENTS = "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+"
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"

#: Words joined by one of `- _ . /` without blanks, and thousands as in 750,000. Possessive, so
#: that no line of a megabyte takes quadratic time.
_COMPOUND = re.compile(r"[^\W_]++(?:[-_./][^\W_]++)++|\d{1,3}+(?:,\d{3}(?!\d))++")
_EDGES = ".,;:!?()[]{}\"'`*_-"
_JOINT = re.compile(r"[^\W_][-_./,][^\W_]")
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_compile = cache(
    re.compile
)  # Ranges as large as these take milliseconds, and many never need them.


class _Stems(dict[str, str]):
    """Stem of each word seen so far, empty for one that is not indexed; forgets when large."""

    def __missing__(self, word: str) -> str:
        if len(word) > MAX_TERM_LENGTH:
            return ""
        if len(self) > 500_000:
            self.clear()
        is_stop_word = word in read_words("stop_words")
        stem = "" if is_stop_word else _stemmer()(read_pairs("irregular_forms").get(word, word))
        self[word] = stem
        return stem


class _Numbers(dict[str, int]):
    """Number of each term seen so far, never `SEPARATOR`; forgets when large."""

    def __missing__(self, term: str) -> int:
        if len(self) > 500_000:
            self.clear()
        number = crc32(term.encode("utf-8", "surrogatepass")) or 1
        self[term] = number
        return number


class _Compounds(dict[str, tuple[str, ...]]):
    """Further terms of each piece of text seen so far; forgets when large."""

    def __missing__(self, piece: str) -> tuple[str, ...]:
        if len(self) > 200_000:
            self.clear()
        found = tuple(_split_compound(piece))
        if len(piece) <= _LONGEST_PIECE:
            self[piece] = found
        return found


_stems = _Stems()
_compounds = _Compounds()
_numbers = _Numbers()


@cache
def _stemmer() -> Callable[[str], str]:
    from Stemmer import Stemmer

    return Stemmer("porter").stemWord  # type: ignore[no-any-return]


def split_words(text: str) -> list[str]:
    """Return the words of `text` in order: folded and lower-cased, not stemmed."""
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split()
    plain = _fold(text)
    words = _compile(r"[^\W_]+").findall(plain)
    return list(_split_cjk(words)) if _compile(f"[{_CJK}]").search(plain) else words


def _fold(text: str) -> str:
    """Return a text in lower case, without accents, full width letters made ordinary ones."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFKC", _compile(_ACCENTS).sub("", decomposed))


def _split_cjk(words: Iterable[str]) -> Iterable[str]:
    is_cjk = _compile(f"[{_CJK}]")
    for word in words:
        if word.isascii() or not is_cjk.search(word):
            yield word
            continue
        for run in _compile(f"[{_CJK}]+|[^{_CJK}]+").findall(word):
            if len(run) < 3 or not is_cjk.match(run):
                yield run
            else:
                yield from (run[i : i + 2] for i in range(len(run) - 1))


def term_sequence(text: str) -> list[str]:
    """Return the index terms of `text` in order, stop words left out."""
    return list(filter(None, map(_stems.__getitem__, split_words(text))))


def stem_word(word: str) -> str:
    """Return a word's index term, empty for a stop word."""
    return _stems[word]


def count_terms(text: str) -> dict[str, int]:
    """Return how often each index term is in `text`."""
    counts = Counter(map(_stems.__getitem__, split_words(text)))
    counts.pop("", None)
    return counts


def number_terms(terms: Iterable[str]) -> list[int]:
    """Return the number of each term: its CRC-32, the same in each process."""
    return list(map(_numbers.__getitem__, terms))


def list_compounds(text: str) -> list[str]:
    """Return one more term for each thing that `text` writes in one piece of several words.

    `e-mail`, `e_mail` and `eMail` give `email`; numbers lose their commas; names with dots or
    slashes stay whole, and of a path its last part counts too; `camelCase` gives its parts.
    """
    return list(chain.from_iterable(map(_compounds.__getitem__, text.split())))


def _split_compound(piece: str) -> Iterator[str]:
    bare = piece.strip(_EDGES)
    if len(bare) > _LONGEST_PIECE:
        return
    if bare.isalnum():
        if bare.islower() or bare[1:].islower() or bare.isdigit():
            return
    elif _JOINT.search(bare):
        for match in _COMPOUND.finditer(_fold(bare)):
            yield from _name_compound(match[0])
    if _CAMEL.search(bare):
        for word in _compile(r"[\W_]+").split(bare):
            if len(word) <= MAX_TERM_LENGTH and _CAMEL.search(word):
                parts = (_stems[part.lower()] for part in _HUMP.findall(word))
                yield from (part for part in parts if len(part) > 1)


def _name_compound(text: str) -> Iterator[str]:
    if "." not in text and "/" not in text:
        joined = re.sub("[-_,]", "", text)
        if stem := _stems[joined]:
            yield stem
        return
    for name in dict.fromkeys([text, text.rpartition("/")[2]]):
        parts = re.split("[-_./]", name)
        tells = any(part.isdigit() or (len(part) > 1 and _stems[part]) for part in parts)
        if len(parts) > 1 and tells and len(name) <= MAX_TERM_LENGTH:
            yield name


@cache
def weak_terms() -> frozenset[str]:
    """Return the terms of words that say little about what a question is after."""
    return frozenset(filter(None, map(_stems.__getitem__, read_words("weak_words"))))
