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
- an `@` and the seven digits of a shortened git id cost 530, a `[` and the digits that begin a
  label 55 and 60 for each, whichever they are: so what a pack shows does not hang on which ids
  its commits and notes happen to have.

The sum is rounded up. `set_tokenizer` puts an exact tokenizer in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_exact: Callable[[str], int] | None = None

#: What a text is taken to cost at most, in hundredths of the estimate.
_MARGIN = 115


def set_tokenizer(count: Callable[[str], int] | None) -> None:
    """Count with `count` from now on; None brings the estimate back."""
    global _exact
    _exact = count


def count_tokens(text: str) -> int:
    """Return the number of tokens of `text`: exact if a tokenizer is set, else estimated."""
    return _exact(text) if _exact is not None else estimate_tokens(text)


def bound_tokens(text: str) -> int:
    """Return what a text costs at most: exact if a tokenizer is set, else estimate and margin.

    Of code and marks o200k makes more than the estimate says, in 97 of 100 texts of 2,000
    characters at most this much more.
    """
    return _exact(text) if _exact is not None else -(-estimate_tokens(text) * _MARGIN // 100)


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
    if b"[" in data:
        handles = _HANDLE.findall(data)
        data = _HANDLE.sub(b"[", data)
        cost += 60 * sum(map(len, handles))
    cost += _price_words_and_marks(data)
    numbers = data.translate(_ONLY_DIGITS).split()
    cost += 140 * sum((len(digits) + 2) // 3 for digits in numbers)
    return -(-cost // 100)


def _price_words_and_marks(data: bytes) -> int:
    """Return what words and marks cost.

    The text becomes one number in base 4, its letters 1 and its marks 2: `number & number >> 2`
    then has each letter behind a letter and each mark behind a mark, all at once.
    """
    first = int(data.translate(_CLASSES) + b"0", 4)
    second = first & first >> 2  # In their run they are the second at least, and so on.
    fourth = second & second >> 4
    fifth, seventh = fourth & fourth >> 2, fourth & fourth >> 6
    letters = int.from_bytes(b"\x55" * (len(data) // 4 + 1), "big")
    marks = letters << 1
    return (
        100 * ((first ^ second) & letters).bit_count()
        + 18 * (seventh & letters).bit_count()
        + 55 * (first & marks).bit_count()
        - 30 * (fifth & marks).bit_count()
    )


def _count_beyond_ascii(data: bytes) -> tuple[int, bytes]:
    """Return what marks, accents and wide characters cost, and the text without wide and marks."""
    cost = 280 * _count_bytes(data, _ACCENTED)
    data, marks = _MARK.subn(b" ", data)
    cost += 120 * marks
    if _count_bytes(data, _NARROW):
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
_HANDLE = re.compile(rb"\[([0-9a-f]{4,40})(?=\]| \|)")
#: First bytes of U+00C0 to U+027F.
_ACCENTED = _all_but(range(0xC3, 0xCA))
#: U+0080 to U+00BF, U+2000 to U+2BFF, and U+1F000 to U+1FFFF, where emoji are.
_MARK = re.compile(rb"\xc2[\x80-\xbf]|\xe2[\x80-\xaf][\x80-\xbf]|\xf0\x9f[\x80-\xbf][\x80-\xbf]")
#: U+3000 on, and what continues it: scripts without spaces, their marks, the rare.
_WIDE = re.compile(rb"[\xe3-\xf4][\x80-\xbf\xe3-\xf4]*")
_NARROW = _all_but(range(0xE3, 0xF5))
#: Marks, hiragana, both, katakana; the rest of E3 is Chinese, and rare.
_KANA = {b"\xe3\x80": 20, b"\xe3\x81": 70, b"\xe3\x82": 80, b"\xe3\x83": 95}
_WIDE_RATES = (
    (_all_but([*range(0xE4, 0xEA), *range(0xF0, 0xF5)]), 82),  # Chinese
    (_all_but(range(0xEA, 0xEE)), 90),  # Korean
    (_all_but([0xEE, 0xEF]), 20),  # full-width marks
)


def _classify(code: int) -> bytes:
    """Return the digit that stands for a byte: 1 a letter, 2 a mark, 0 anything else."""
    if code > 127 or chr(code).isalpha():
        return b"1"
    return b"2" if 32 < code < 127 and not chr(code).isalnum() else b"0"


_CLASSES = b"".join(map(_classify, range(256)))
_ONLY_DIGITS = bytes(code if 48 <= code <= 57 else 32 for code in range(256))
