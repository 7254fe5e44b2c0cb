"""Texts fitted into a budget of tokens: pieces with ranks, and with texts from short to long."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby, takewhile
from typing import Generic, NamedTuple, TypeVar

#: Of a budget, the text that is tried first, in hundredths: the rest is for marks and the margin.
_SHARE = 80

Piece = TypeVar("Piece", bound=Hashable)
Text = TypeVar("Text")
Made = TypeVar("Made")

#: The text that is shown of each piece, in the order in which the pieces were taken.
Shown = Mapping[Piece, Text]


class Step(NamedTuple, Generic[Piece, Text]):
    """A text that a piece may have, and when it is considered: by rank, then by turn.

    `offer` takes what is shown so far, and a room in tokens. It returns the text, and what that
    costs more than what is shown; or None if there is no such text.
    """

    rank: int
    turn: tuple[int, ...]
    piece: Piece
    offer: Callable[[Shown[Piece, Text], int], tuple[Text, int] | None]


#: Takes a rank and the tokens that are left. Returns what the rank may take of them.
Cap = Callable[[int, int], int]


def fit_texts(
    steps: Iterable[Step[Piece, Text]],
    left: int,
    render: Callable[[Shown[Piece, Text]], tuple[Made, int]],
    budget: int,
    cap: Cap = lambda rank, left: left,
) -> tuple[Made, int]:
    """Return what is rendered of the texts that fit into a budget, and its tokens.

    `left` are the tokens that the texts may cost together. Their costs may be estimates: the last
    texts are taken back while the rendered whole costs more than the budget.
    """
    chosen = choose_texts(steps, left, cap)
    while True:
        made, tokens = render(dict(chosen))
        if tokens <= budget or not chosen:
            return made, tokens
        chosen.pop()


def choose_texts(
    steps: Iterable[Step[Piece, Text]], left: int, cap: Cap = lambda rank, left: left
) -> list[tuple[Piece, Text]]:
    """Return pieces with their texts, in the order in which they were taken.

    A text that does not fit makes way for the next. A later one of a piece replaces the earlier.
    """
    chosen: list[tuple[Piece, Text]] = []
    shown: dict[Piece, Text] = {}
    ordered = sorted(steps, key=lambda step: (step.rank, step.turn))
    for rank, same in groupby(ordered, key=lambda step: step.rank):
        kept = left - min(cap(rank, left), left)
        for step in same:
            found = step.offer(shown, left - kept)
            if found is not None and 0 < found[1] <= left - kept:
                shown[step.piece], cost = found
                chosen.append((step.piece, found[0]))
                left -= cost
    return chosen


class Line(NamedTuple):
    """A text below the heading of a group, and the tokens that it costs without the heading."""

    group: int
    text: str
    cost: int


def offer_line(
    piece: Piece, line: Line, heading: int, shown: Shown[Piece, Line], room: int
) -> tuple[Line, int]:
    """Return a line, and what it costs more than what is shown; the first one pays the heading."""
    extra = line.cost - (shown[piece].cost if piece in shown else 0)
    has_heading = any(each.group == line.group for each in shown.values())
    return line, extra if has_heading else extra + heading


def count_fitting(costs: Iterable[int], budget: int) -> int:
    """Return how many of the first costs are within a budget together."""
    return sum(1 for _ in takewhile(lambda total: total <= budget, accumulate(costs)))


def share_room(needs: Sequence[int], room: int) -> list[int]:
    """Return what each gets of a room: what it needs, or as much as all others who need more."""
    shares = [0] * len(needs)
    left = room
    for done, place in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[place] = min(needs[place], left // (len(needs) - done))
        left -= shares[place]
    return shares


def fit_budget(
    make: Callable[[int], Made], price: Callable[[Made], int], budget: int, least: int
) -> Made:
    """Return what is made within a budget for how it is shown, where that costs more than its text.

    `make` takes the tokens of the text, `least` or more. Mostly the first that is tried fits.
    """
    room = budget * _SHARE // 100
    while (cost := price(made := make(max(room, least)))) > budget and room > least:
        room = min(room - 1, room * budget // cost)
    return made
