"""An estimate of how many tokens a language model reads a text as.

The rule is what o200k, a byte-pair tokenizer with a large vocabulary, does on average: fitted by
least squares over 5 MB of notes, manuals and code in eight languages. Others need up to a quarter
more for Chinese and Japanese, or less. `benchmarks/token_estimate.py` measures it. In hundredths
of a token:

- a word costs 100, and 18 more for each byte of UTF-8 beyond its sixth,
- an accented Latin letter costs 280 more: words of other languages are rarer in vocabularies,
- each started group of three digits costs 140,
- a mark costs 55, from the fifth in a run on 25; a mark beyond ASCII costs 120,
- a Chinese character costs 82, a katakana 95, a hiragana 70, a Korean syllable 90, a mark of
  these scripts 20; they are told apart by the first bytes of their UTF-8,
- a line break costs 100, a blank line nothing more, an indent 50; other spaces cost nothing,
- an `@` and the seven digits of a shortened git id cost 530, whichever they are: so what a pack
  shows does not hang on which ids its commits happen to have.

The sum is rounded up. `set_tokenizer` puts an exact tokenizer in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_exact: Callable[[str], int] | None = None


def set_tokenizer(count: Callable[[str], int] | None) -> None:
    """Count with `count` from now on; None brings the estimate back."""
    global _exact
    _exact = count


def count_tokens(text: str) -> int:
    """Return the number of tokens of `text`: exact if a tokenizer is set, else estimated."""
    return _exact(text) if _exact is not None else estimate_tokens(text)


def estimate_tokens(text: str) -> int:
    """Return the number of tokens of `text` by the rule above."""
    lines = text.count("\n") - text.count("\n\n")
    cost = 100 * lines + 50 * text.count("\n  ")
    data = text.encode("utf-8", "surrogatepass")
    if len(data) != len(text):
        more, data = _count_beyond_ascii(data)
        cost += more
    if b"@" in data:
        data, ids = _ID.subn(b" ", data)
        cost += 530 * ids
    for table, prices in _RUNS:
        cost += sum(map(prices.__getitem__, map(len, data.translate(table).split())))
    return -(-cost // 100)


def _count_beyond_ascii(data: bytes) -> tuple[int, bytes]:
    """Return what marks, accents and wide characters cost, and the text without wide and marks."""
    cost = 280 * _count_bytes(data, _ACCENTED)
    data, marks = _MARK.subn(b" ", data)
    cost += 120 * marks
    if _WIDE.search(data):
        cost += sum(rate * data.count(start) for start, rate in _KANA.items())
        cost += sum(rate * _count_bytes(data, others) for others, rate in _WIDE_RATES)
        data = _WIDE.sub(b" ", data)
    return cost, data


def _count_bytes(data: bytes, others: bytes) -> int:
    """Return how many bytes are not among the others."""
    return len(data.translate(None, others))


def _all_but(members: Iterable[int]) -> bytes:
    return bytes(sorted(set(range(256)) - set(members)))


_ID = re.compile(rb"@[0-9a-f]{7}\b")
#: First bytes of U+00C0 to U+027F.
_ACCENTED = _all_but(range(0xC3, 0xCA))
#: U+0080 to U+00BF, U+2000 to U+2BFF, and U+1F000 to U+1FFFF, where emoji are.
_MARK = re.compile(rb"\xc2[\x80-\xbf]|\xe2[\x80-\xaf][\x80-\xbf]|\xf0\x9f[\x80-\xbf][\x80-\xbf]")
#: U+3000 on, and what continues it: scripts without spaces, their marks, the rare.
_WIDE = re.compile(rb"[\xe3-\xf4][\x80-\xbf\xe3-\xf4]*")
#: Marks, hiragana, both, katakana; the rest of E3 is Chinese, and rare.
_KANA = {b"\xe3\x80": 20, b"\xe3\x81": 70, b"\xe3\x82": 80, b"\xe3\x83": 95}
_WIDE_RATES = (
    (_all_but([*range(0xE4, 0xEA), *range(0xF0, 0xF5)]), 82),  # Chinese
    (_all_but(range(0xEA, 0xEE)), 90),  # Korean
    (_all_but([0xEE, 0xEF]), 20),  # full-width marks
)


def _keep_only(members: Callable[[int], bool]) -> bytes:
    """Return a table that makes all bytes but the members blanks."""
    return bytes(120 if members(code) else 32 for code in range(256))


def _is_letter(code: int) -> bool:
    return code > 127 or chr(code).isalpha()


def _is_digit(code: int) -> bool:
    return 48 <= code <= 57


def _is_mark(code: int) -> bool:
    return 32 < code < 127 and not chr(code).isalnum()


class _Prices(dict[int, int]):
    """What a run of so many bytes costs, for the lengths seen so far."""

    def __init__(self, price: Callable[[int], int]) -> None:
        super().__init__()
        self._price = price

    def __missing__(self, length: int) -> int:
        price = self._price(length)
        if length < 1_000:
            self[length] = price
        return price


#: Bytes of one class, and what runs of them cost.
_RUNS = (
    (_keep_only(_is_letter), _Prices(lambda length: 100 + 18 * max(length - 6, 0))),
    (_keep_only(_is_digit), _Prices(lambda length: 140 * -(-length // 3))),
    (_keep_only(_is_mark), _Prices(lambda length: 55 * min(length, 4) + 25 * max(length - 4, 0))),
)
