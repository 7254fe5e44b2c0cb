"""Keep answers within what clients take: 25,000 tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from vaultmem.core.packs.tokens import count_tokens

#: Tokens of one answer at most; the estimate may be off, and JSON has its own marks.
MAX_TOKENS = 16_000

Row = TypeVar("Row")


def fit_rows(rows: Sequence[Row], describe: Callable[[Row], str]) -> tuple[list[Row], bool]:
    """Return the first rows that fit into one answer, and whether some were left out.

    At least one row is returned if there is any.
    """
    left = MAX_TOKENS
    kept: list[Row] = []
    for row in rows:
        left -= count_tokens(describe(row))
        if left < 0 and kept:
            return kept, True
        kept.append(row)
    return kept, False


def cut_text(text: str, offset: int) -> tuple[str, int | None]:
    """Return what of a text from `offset` (in characters) fits into one answer, and where to go on.

    A cut is made at the end of a line where there is one.
    """
    rest = text[offset:]
    if count_tokens(rest) <= MAX_TOKENS // 2:
        return rest, None
    low, high = 1, len(rest)
    while low < high:  # The longest prefix that fits.
        middle = (low + high + 1) // 2
        if count_tokens(rest[:middle]) <= MAX_TOKENS // 2:
            low = middle
        else:
            high = middle - 1
    end = rest.rfind("\n", low // 2, low) + 1 or low
    return rest[:end], offset + end
