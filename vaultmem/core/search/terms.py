"""Index terms: the same analysis of words for notes and for queries.

Words are runs of letters and digits, lower-cased, accents folded, irregular forms made regular,
stemmed by Porter's stemmer. Stop words have terms of their own, which only a query of stop words
alone searches; they count neither as length nor in the order of words. A run of Chinese, Japanese
or Korean characters becomes overlapping pairs of characters, the usual choice without a dictionary.

Compounds (`snake_case`, `camelCase`, `a/b/c.py`, `3.11.2`, `e-mail`) are found by their words and,
as one more term, as a whole. So are `c++`, `c#`, `f#` and `.net`. Words with two spellings
(`cleanup`, `clean up`) have the term of the joined one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING
from zlib import crc32

from vaultmem.core.languages import (
    find_words,
    guess_code,
    list_languages,
    read_pairs,
    read_words,
)
from vaultmem.core.text.patterns import compile_later

if TYPE_CHECKING:
    from collections.abc import Callable

#: The fields of a section, in the order in which its terms are stored.
FIELDS = ("title", "tags", "body")

#: Longer words are noise (base64, hashes in a row) and are not indexed.
MAX_TERM_LENGTH = 64

#: Increased whenever the analysis changes, so that an older index is rebuilt.
ANALYSIS_VERSION = 10

#: The term of a section that contains only links, and of one that ends with a question. Then the
#: suffix of a speaker's name, of a note's whole name, and of a stop word. No word contains such a
#: sign.
LINKS_ALONE = "[]"
ASKS = "?"
_NAME = "="
_SPEAKER = ":"
_STOP = "!"

#: Each ASCII byte in lower case, blanks for all but letters and digits.
_ASCII_WORDS = bytes(
    ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 32 for code in range(256)
)
#: Combining marks of Latin, Greek and Cyrillic; those of other scripts are part of the letter.
_ACCENTS = "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+"
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"

#: Words joined by one of `- _ . /` without blanks; thousands as in 750,000. Possessive, and only
#: from the beginning of a word, so that no line of a megabyte takes quadratic time.
_COMPOUND = compile_later(r"(?<![^\W_])[^\W_]++(?:[-_./][^\W_]++)++")
_THOUSANDS = compile_later(r"(?<![\d,])\d{1,3}+(?:,\d{3}(?!\d))++")
_WORD = compile_later(r"[^\W_]++")
#: Names that end or begin with a mark, not within code such as `c++i` or `a.net`.
NAMES = ("c++", "c#", "f#", ".net")
_MARKED_NAME = compile_later(r"(?<![^\W_])(?<![.+#])(?:c\+\+|[cf]#|\.net)(?![^\W\d_]|[+#])")
#: HTML's name or number of a character, as in `caf&eacute;` and `caf&#233;`.
_REFERENCE = compile_later(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_FOREIGN = compile_later(r"[^\x00-\x7f]+")
_NO_LETTERS = compile_later(r"\W+")
_CAMEL = compile_later(r"[a-z0-9][A-Z]")
_CAMEL_PART = compile_later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: These large character ranges take milliseconds to compile and are rarely needed.
_compile = cache(re.compile)


class _Stems(dict[str, str]):
    """Cache of the stem of each word, empty for a word that is not indexed; cleared when large."""

    def __missing__(self, word: str) -> str:
        if len(self) > 500_000:
            self.clear()
        stem = self[word] = find_stem(word)
        return stem


_stems = _Stems()


def find_stem(word: str) -> str:
    """Return the index term of a folded word, empty for a word that is not indexed."""
    if len(word) > MAX_TERM_LENGTH or word in read_words("stop_words"):
        return ""
    return load_stemmer("porter")(read_pairs("irregular_forms").get(word, word))


def find_stemmer(question: str) -> str:
    """Return the stemmer of a query's language, empty for English, which the index stems itself."""
    code = guess_code(question)
    return "" if code == "en" else read_pairs("language", code).get("stemmer", "")


def unify_terms(terms: list[str], stemmer: str) -> list[str]:
    """Return terms in which terms with the same stem are replaced by the first of them."""
    if not stemmer:
        return terms
    first: dict[str, str] = {}
    return [first.setdefault(load_stemmer(stemmer)(term), term) for term in terms]


@cache
def load_stemmer(name: str) -> Callable[[str], str]:
    """Return the stemming function that PyStemmer has under this name."""
    from Stemmer import Stemmer

    return Stemmer(name, 0).stemWord  # type: ignore[no-any-return]


def split_words(text: str) -> list[str]:
    """Return the words of `text` in order: folded and lower-cased, not stemmed."""
    plain = plain_text(text)
    if plain.isascii():
        return plain.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split()
    plain = plain.lower()
    words = _WORD.findall(plain)
    return list(_split_cjk(words)) if has_cjk(plain) else words


def plain_text(text: str) -> str:
    """Return a text without accents, with full-width letters and HTML references made plain.

    Letters beyond ASCII become lower case, and other characters beyond it become blanks.
    """
    if "&" in text:
        text = _REFERENCE.sub(_decode_letter, text)
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    composed = unicodedata.normalize("NFKC", _compile(_ACCENTS).sub("", decomposed))
    return _FOREIGN.sub(lambda run: _NO_LETTERS.sub(" ", run[0].casefold().lower()), composed)


def _decode_letter(reference: re.Match[str]) -> str:
    from html import unescape

    character = unescape(reference[0])
    return character if character.isalpha() else reference[0]


def has_cjk(text: str) -> bool:
    """Return whether a text has Chinese, Japanese or Korean characters."""
    return _compile(f"[{_CJK}]").search(text) is not None


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
    """Return the index terms of `text` in order, without stop words."""
    return list(filter(None, map(_stems.__getitem__, split_words(text))))


def stem_word(word: str) -> str:
    """Return a word's index term, empty for a stop word."""
    return _stems[word]


def mark_speaker(term: str) -> str:
    """Return the term of sections spoken by the speaker that a term names, "" for any speaker."""
    return term + _SPEAKER


def mark_name(name: str) -> str:
    """Return the term of notes with a title, alias or file name; case and `-_?` are ignored."""
    plain = " ".join(plain_text(name).lower().translate(_BETWEEN_WORDS).split())
    return f"{crc32(plain.encode()):x}{_NAME}" if plain else ""


def mark_stop_word(word: str) -> str:
    """Return the term of a stop word, empty for any other word."""
    return word + _STOP if word in read_words("stop_words") else ""


def is_stop_term(term: str) -> bool:
    """Return whether a term is that of a stop word."""
    return term.endswith(_STOP)


def list_stop_terms(text: str) -> list[str]:
    """Return the terms of the stop words of `text` in their order."""
    return list(filter(None, map(mark_stop_word, split_words(text))))


def count_terms(text: str) -> dict[str, int]:
    """Return how often each index term is in `text`."""
    counts = Counter(map(_stems.__getitem__, split_words(text)))
    counts.pop("", None)
    return counts


def list_compounds(text: str) -> list[str]:
    """Return an additional term for each compound word in `text`.

    `e-mail`, `e_mail` and `eMail` give `email`; numbers lose their commas. Names with dots or
    slashes stay whole, and the last part of a path is added. `camelCase` gives its parts. Two words
    of `joined_words.txt` also give the joined word.
    """
    joined = pairwise(map(_find_member, split_words(text)))
    pieces = chain.from_iterable(map(split_piece, list_pieces(text)))
    return [*pieces, *filter(None, map(list_joined().get, joined))]


@cache
def list_joined() -> dict[tuple[str, str], str]:
    """Return the term of each word that is also written as two, by the terms of the two."""
    words = (line.split() for line in read_pairs("joined_words").values())
    return {
        (_find_member(first), _find_member(second)): _stems[first + second]
        for first, second in words
    }


def _find_member(word: str) -> str:
    return _stems[word] or mark_stop_word(word)


def list_pieces(text: str) -> list[str]:
    """Return the compound words of `text`, in lower case except for camelCase."""
    plain = plain_text(text)
    folded = plain.lower()
    camels = filter(_CAMEL.search, _WORD.findall(plain)) if _CAMEL.search(plain) else ()
    return [*_COMPOUND.findall(folded), *find_thousands(folded), *find_names(folded), *camels]


def find_thousands(text: str) -> list[str]:
    """Return the numbers with commas in a text, as in 750,000."""
    return _THOUSANDS.findall(text)


def find_names(text: str) -> list[str]:
    """Return the `NAMES` in a lower-case text."""
    return _MARKED_NAME.findall(text)


def split_piece(piece: str) -> list[str]:
    """Return the terms of a compound word from `list_pieces`."""
    if piece in NAMES:
        return [piece]
    return _split_camel(piece) if piece.isalnum() else _split_compound(piece)


def _split_camel(word: str) -> list[str]:
    if len(word) > MAX_TERM_LENGTH:
        return []
    parts = (_stems[part.lower()] for part in _CAMEL_PART.findall(word))
    return [part for part in parts if len(part) > 1]


def _split_compound(text: str) -> list[str]:
    if "." not in text and "/" not in text:
        stem = _stems[text.translate(_CONNECTOR_REMOVAL)]
        return [stem] if stem else []
    return [name for name in dict.fromkeys([text, text.rpartition("/")[2]]) if _tells(name)]


_CONNECTOR_REMOVAL = str.maketrans("", "", "-_,")
_PARTS = str.maketrans("-_./", "    ")
_BETWEEN_WORDS = str.maketrans("-_?", "   ")


def _tells(name: str) -> bool:
    """Return whether a compound name has a part that is a number or an indexed word."""
    if len(name) > MAX_TERM_LENGTH:
        return False
    parts = name.translate(_PARTS).split()
    return len(parts) > 1 and any(
        part.isdigit() or (len(part) > 1 and part not in read_words("stop_words")) for part in parts
    )


@cache
def weak_terms(stemmer: str = "") -> frozenset[str]:
    """Return the terms of words that are weak signs of a query's subject.

    They include the function words of the language whose stemmer is named.
    """
    words = set(read_words("weak_words"))
    for code in list_languages()[1:]:
        if read_pairs("language", code).get("stemmer") == stemmer:
            words |= find_words("function", code)
    return frozenset(term_sequence(" ".join(words)))
