"""An estimate of how many tokens a language model reads a text as.

The rule follows what byte-pair tokenizers with a large vocabulary do on average:

- a run of ASCII letters costs one token for each started 6.5 letters,
- digits come in groups of three,
- a run of punctuation costs one token for each started two characters,
- a Chinese, Japanese or Korean character costs 0.85 tokens,
- another letter beyond ASCII costs 0.45 tokens (accented Latin, Cyrillic ...),
- a line break costs one token, a blank line none, an indent one; other spaces cost nothing.

`set_tokenizer` puts an exact tokenizer in its place.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable

_PIECE = re.compile(r"[A-Za-z]+|[0-9]+|[^\W\d_A-Za-z]+|[^\w\s]+|_+|\d")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


class _Costs(dict[str, int]):
    """Tokens of each word seen so far; forgets everything when it grows large."""

    def __missing__(self, word: str) -> int:
        if len(self) > 200_000:
            self.clear()
        cost = sum(math.ceil(_piece_cost(piece)) for piece in _PIECE.findall(word))
        if len(word) <= 64:
            self[word] = cost
        return cost


_costs = _Costs()
_exact: Callable[[str], int] | None = None


def set_tokenizer(count: Callable[[str], int] | None) -> None:
    """Count with `count` from now on; None brings the estimate back."""
    global _exact
    _exact = count


def count_tokens(text: str) -> int:
    """Return the number of tokens of `text`: exact if a tokenizer is set, else estimated."""
    if _exact is not None:
        return _exact(text)
    lines = text.count("\n") - text.count("\n\n") + text.count("\n  ")
    if text.isascii():
        data = text.encode("ascii")
        return lines + sum(_count_runs(data, table, rate) for table, rate in _ASCII_RUNS)
    return lines + sum(map(_costs.__getitem__, text.split()))


def _count_runs(data: bytes, table: bytes, rate: float) -> int:
    """Return the tokens of the runs of one class of characters: the class of `table`."""
    lengths = Counter(map(len, data.translate(table).split()))
    return sum(math.ceil(length * rate) * count for length, count in lengths.items())


def _keep_only(members: Callable[[str], bool]) -> bytes:
    """Return a table that makes all characters but the members blanks."""
    return bytes(120 if code < 128 and members(chr(code)) else 32 for code in range(256))


_ASCII_RUNS = (
    (_keep_only(str.isalpha), 1 / 6.5),
    (_keep_only(str.isdigit), 1 / 3),
    (_keep_only(lambda mark: mark == "_"), 1 / 2),
    (_keep_only(lambda mark: not mark.isalnum() and not mark.isspace() and mark != "_"), 1 / 2),
)


def _piece_cost(piece: str) -> float:
    first = piece[0]
    if first.isascii() and first.isalpha():
        return len(piece) / 6.5
    if first.isdigit():
        return len(piece) / 3
    if first.isalpha():
        wide = len(_CJK.findall(piece))
        return wide * 0.85 + (len(piece) - wide) * 0.45
    return len(piece) / 2
