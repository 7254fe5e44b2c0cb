"""Words to index terms: the same analysis for notes and for queries.

Words are runs of letters and digits, lower-cased, accents folded, English stop words dropped,
stemmed by Snowball's English stemmer (Porter 2). A run of Chinese, Japanese or Korean
characters becomes overlapping pairs of characters, the usual choice without a dictionary.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Longer words are noise (base64, hashes in a row) and are not indexed.
MAX_TERM_LENGTH = 64

#: Changes whenever the terms of a text change, so that an index built before is rebuilt.
ANALYSIS_VERSION = 1

#: English function words, question words and auxiliaries.
STOP_WORDS = frozenset(
    """
    a about above after again all am an and any are as at be because been before being below
    between both but by can could d did do does doing done down during each few for from
    further had has have having he her here hers herself him himself his how i if in into is
    it its itself just ll m me more most my myself no nor of off on once only or other our
    ours ourselves out over own re s same shall she should so some such t than that the their
    theirs them themselves then there these they this those through to too under until up ve
    very was we were what when where which while who whom whose why will with would you your
    yours yourself yourselves
    """.split()  # noqa: SIM905 - a hundred quoted words read worse.
)

#: Each ASCII byte in lower case, blanks for all that is neither letter nor digit.
_ASCII_WORDS = bytes(
    ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 32 for code in range(256)
)
#: Combining marks of Latin, Greek and Cyrillic; those of other scripts are part of the letter.
_ACCENTS = "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+"
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
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
        stem = "" if word in STOP_WORDS else _stemmer()(word)
        self[word] = stem
        return stem


_stems = _Stems()


@cache
def _stemmer() -> Callable[[str], str]:
    from Stemmer import Stemmer

    return Stemmer("english").stemWord  # type: ignore[no-any-return]


def split_words(text: str) -> list[str]:
    """Return the words of `text` in order: folded and lower-cased, not stemmed."""
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    plain = unicodedata.normalize("NFKC", _compile(_ACCENTS).sub("", decomposed))
    words = _compile(r"[^\W_]+").findall(plain)
    return list(_split_cjk(words)) if _compile(f"[{_CJK}]").search(plain) else words


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


def count_terms(text: str) -> dict[str, int]:
    """Return how often each index term stands in `text`."""
    counts = Counter(map(_stems.__getitem__, split_words(text)))
    counts.pop("", None)
    return counts
