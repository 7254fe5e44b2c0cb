"""Estimate a text's tokens, and fit texts into a token budget.

The rule approximates o200k, a byte-pair tokenizer with a large vocabulary. It was fitted by least
squares over 5 MB of notes, manuals and code in eight languages. Other tokenizers need up to a
quarter more for Chinese and Japanese, or less. In hundredths of a token:

- a word costs 100, and 18 more for each byte of UTF-8 after its sixth,
- an accented Latin letter costs 280 more: words of other languages are rarer in vocabularies,
- each started group of three digits costs 140,
- a mark costs 55, from the fifth in a run on 25; a mark beyond ASCII costs 120,
- a Chinese character costs 82, a katakana 95, a hiragana 70, a Korean syllable 90, a mark of
  these scripts 20; the first bytes of their UTF-8 distinguish them,
- a line break costs 100, a blank line nothing more, an indent 50; other spaces cost nothing,
- an `@` and the seven digits of a shortened git id cost 530, a `[` and the digits that begin a
  label 55 and 60 for each. The digits do not matter, so a pack's sections do not depend on ids.

The sum is rounded up. `set_tokenizer` replaces the rule with an exact tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby, takewhile
from typing import Generic, NamedTuple, TypeVar

_exact: Callable[[str], int] | None = None

#: The upper bound of a text's cost, in hundredths of the estimate.
_MARGIN = 115


def set_tokenizer(count: Callable[[str], int] | None) -> None:
    """Use `count` to count tokens from now on; None restores the estimate."""
    global _exact
    _exact = count


def count_tokens(text: str) -> int:
    """Return the number of tokens of `text`: exact if a tokenizer is set, else estimated."""
    return _exact(text) if _exact is not None else estimate_tokens(text)


def bound_tokens(text: str) -> int:
    """Return an upper bound of a text's tokens: exact if a tokenizer is set, else with a margin.

    The margin covers o200k in 97 of 100 texts of 2,000 characters, also of code.
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
    """Return the cost of words and marks, in hundredths of a token.

    The text becomes one number in base 4 with letters as 1 and marks as 2. Then
    `number & number >> 2` finds at once each letter after a letter and each mark after a mark.
    """
    first = int(data.translate(_CLASSES) + b"0", 4)
    second = first & first >> 2  # At least the second of their run, and so on.
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
    """Return the cost of non-ASCII characters, and the text without wide ones and marks."""
    cost = 280 * _count_bytes(data, _ACCENTED)
    data, marks = _MARK.subn(b" ", data)
    cost += 120 * marks
    if _count_bytes(data, _NON_WIDE_BYTES):
        cost += sum(rate * data.count(start) for start, rate in _KANA.items())
        cost += sum(rate * _count_bytes(data, others) for others, rate in _WIDE_RATES)
        data = _WIDE_CHARS.sub(b" ", data)
    return cost, data


def _count_bytes(data: bytes, others: bytes) -> int:
    """Return the number of bytes that are not in `others`."""
    return len(data.translate(None, others))


def _all_but(members: Iterable[int]) -> bytes:
    return bytes(sorted(set(range(256)) - set(members)))


_ID = re.compile(rb"@[0-9a-f]{7}\b")
_HANDLE = re.compile(rb"\[([0-9a-f]{4,40})(?=\]| \|)")
#: First bytes of U+00C0 to U+027F.
_ACCENTED = _all_but(range(0xC3, 0xCA))
#: U+0080 to U+00BF, U+2000 to U+2BFF, and U+1F000 to U+1FFFF, where emoji are.
_MARK = re.compile(rb"\xc2[\x80-\xbf]|\xe2[\x80-\xaf][\x80-\xbf]|\xf0\x9f[\x80-\xbf][\x80-\xbf]")
#: U+3000 and above: scripts without spaces, their marks, rare characters.
_WIDE_CHARS = re.compile(rb"[\xe3-\xf4][\x80-\xbf\xe3-\xf4]*")
_NON_WIDE_BYTES = _all_but(range(0xE3, 0xF5))
#: Marks, hiragana, both, katakana; the rest of E3 is Chinese and rare.
_KANA = {b"\xe3\x80": 20, b"\xe3\x81": 70, b"\xe3\x82": 80, b"\xe3\x83": 95}
_WIDE_RATES = (
    (_all_but([*range(0xE4, 0xEA), *range(0xF0, 0xF5)]), 82),  # Chinese
    (_all_but(range(0xEA, 0xEE)), 90),  # Korean
    (_all_but([0xEE, 0xEF]), 20),  # full-width marks
)


def _classify(code: int) -> bytes:
    """Return the class of a byte as a digit: 1 a letter, 2 a mark, 0 anything else."""
    if code > 127 or chr(code).isalpha():
        return b"1"
    return b"2" if 32 < code < 127 and not chr(code).isalnum() else b"0"


_CLASSES = b"".join(map(_classify, range(256)))
_ONLY_DIGITS = bytes(code if 48 <= code <= 57 else 32 for code in range(256))


# Fit texts into a token budget: each piece has a rank and texts from short to long.

#: The first share of a budget to try for the text, in hundredths; the rest is for markup.
_SHARE = 80

Piece = TypeVar("Piece", bound=Hashable)
Text = TypeVar("Text")
Made = TypeVar("Made")

#: The text shown for each piece, in the order in which the pieces were chosen.
Shown = Mapping[Piece, Text]


class TextStep(NamedTuple, Generic[Piece, Text]):
    """A possible text of a piece. Steps are considered by rank, then by turn.

    `offer` takes the texts shown so far and a maximum of tokens. It returns the text and its
    additional cost, or None if there is no text.
    """

    rank: int
    turn: tuple[int, ...]
    piece: Piece
    offer: Callable[[Shown[Piece, Text], int], tuple[Text, int] | None]


#: Takes a rank and the tokens left. Returns the tokens that the rank can use.
Cap = Callable[[int, int], int]


def fit_texts(
    steps: Iterable[TextStep[Piece, Text]],
    left: int,
    render: Callable[[Shown[Piece, Text]], tuple[Made, int]],
    budget: int,
    cap: Cap = lambda rank, left: left,
) -> tuple[Made, int]:
    """Return the rendered texts that fit into a budget, and their tokens.

    `left` is the number of tokens for all texts. Costs can be estimates: the last texts are removed
    while the rendered result costs more than the budget.
    """
    chosen = choose_texts(steps, left, cap)
    while True:
        result, tokens = render(dict(chosen))
        if tokens <= budget or not chosen:
            return result, tokens
        chosen.pop()


def choose_texts(
    steps: Iterable[TextStep[Piece, Text]], left: int, cap: Cap = lambda rank, left: left
) -> list[tuple[Piece, Text]]:
    """Return pieces with their texts, in the order in which they were chosen.

    A text that does not fit is skipped. A later text of a piece replaces the earlier one.
    """
    chosen: list[tuple[Piece, Text]] = []
    texts: dict[Piece, Text] = {}
    ordered = sorted(steps, key=lambda step: (step.rank, step.turn))
    for rank, group in groupby(ordered, key=lambda step: step.rank):
        reserve = left - min(cap(rank, left), left)
        for step in group:
            offer = step.offer(texts, left - reserve)
            if offer is not None and 0 < offer[1] <= left - reserve:
                texts[step.piece], cost = offer
                chosen.append((step.piece, offer[0]))
                left -= cost
    return chosen


class BudgetLine(NamedTuple):
    """A text below the heading of a group, and its tokens without the heading."""

    group: int
    text: str
    cost: int


def offer_line(
    piece: Piece, line: BudgetLine, heading: int, texts: Shown[Piece, BudgetLine], room: int
) -> tuple[BudgetLine, int]:
    """Return a line and its additional cost; the first line of a group pays for the heading."""
    extra = line.cost - (texts[piece].cost if piece in texts else 0)
    has_heading = any(each.group == line.group for each in texts.values())
    return line, extra if has_heading else extra + heading


def count_fitting(costs: Iterable[int], budget: int) -> int:
    """Return how many of the first costs fit into a budget together."""
    return sum(1 for _ in takewhile(lambda total: total <= budget, accumulate(costs)))


def share_room(needs: Sequence[int], room: int) -> list[int]:
    """Return each share of the tokens in `room`: the need, or an equal part if room is short."""
    shares = [0] * len(needs)
    rest = room
    for count, place in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[place] = min(needs[place], rest // (len(needs) - count))
        rest -= shares[place]
    return shares


def fit_budget(
    make: Callable[[int], Made], price: Callable[[Made], int], budget: int, least: int
) -> Made:
    """Return the largest result of `make` found that costs at most `budget`.

    `make` takes the tokens of the text, at least `least`. The cost includes markup, so several
    sizes are tried; the result for `least` is returned whatever it costs.
    """
    room = budget * _SHARE // 100
    while (cost := price(result := make(max(room, least)))) > budget and room > least:
        room = min(room - 1, room * budget // cost)
    return result
