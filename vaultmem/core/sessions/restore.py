"""What a restore may tell, and what it does within a budget: from what matters most to details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.token_count import count_tokens

if TYPE_CHECKING:
    from vaultmem.core.packs.pack_item import PackSource
    from vaultmem.core.sessions.session import ChainLink, Session
    from vaultmem.core.sessions.turns import Turn


class DecisionNote(NamedTuple):
    """The note of a decision: `text` is its body, "" if it may not be shown."""

    path: str
    blob: str
    title: str
    state: str
    pinned: bool
    text: str


class FileFate(NamedTuple):
    """What became of a file, in few words and in more."""

    short: str
    full: str


class EarlierSession(NamedTuple):
    """A session before the one that is restored; `session` is None where its note is missing."""

    link: ChainLink
    session: Session | None


class RestoreMaterial(NamedTuple):
    """A session, those before it (nearest first), and what is known of what they name.

    `decisions` are by the link's target, `files` by path, `turns` (with their numbers) oldest
    first.
    """

    session: Session
    source: PackSource
    earlier: tuple[EarlierSession, ...] = ()
    decisions: Mapping[str, DecisionNote] = MappingProxyType({})
    files: Mapping[str, FileFate] = MappingProxyType({})
    turns: tuple[tuple[int, Turn], ...] = ()


MIN_BUDGET = 200


class Group(IntEnum):
    """The parts of a restore, in the order in which they are shown."""

    GOAL = 1
    STAND = 2
    DECISIONS = 3
    QUESTIONS = 4
    TOLD = 5
    FILES = 6
    DETAILS = 7
    TURNS = 8
    EARLIER = 9


class Rank(IntEnum):
    """When a text is considered; the lower, the more it matters."""

    GOAL = 10
    STAND = 11
    PINNED = 20
    OWN_DECISIONS = 21
    OWN_QUESTIONS = 22
    TOLD = 23
    OWN_FILES = 24
    EARLIER = 30
    EARLIER_QUESTIONS = 31
    EARLIER_DECISIONS = 32
    EARLIER_FILES = 33
    LAST_TURNS = 40
    AGAIN = 42
    STAND_MORE = 45
    FILES_MORE = 47
    REST = 50
    EARLIER_MORE = 60
    DETAILS = 62
    STAND_ALL = 65
    TURNS = 70
    DECISIONS_MORE = 72
    TURNS_MORE = 75
    EARLIER_ALL = 78
    DETAILS_ALL = 80
    DECISIONS_ALL = 85
    TURNS_ALL = 88
    EARLIER_DETAILS = 90


#: The share of what is left that a rank may take.
_SHARES = {
    Rank.PINNED: 0.4,
    Rank.OWN_DECISIONS: 0.4,
    Rank.OWN_QUESTIONS: 0.4,
    Rank.TOLD: 0.5,
    Rank.OWN_FILES: 0.3,
    Rank.EARLIER: 0.25,
    Rank.EARLIER_QUESTIONS: 0.45,
    Rank.EARLIER_DECISIONS: 0.6,
    Rank.EARLIER_FILES: 0.4,
    Rank.LAST_TURNS: 0.3,
}

#: What a heading, and the remark that more is not shown, may cost.
_HEADING = 4
_REMARK = 5


class Piece(NamedTuple):
    """Something to tell: its texts from short to long, and the rank of each.

    `place` is its place in its group; `turn` is its turn among those of one rank.
    """

    group: Group
    place: tuple[int, ...]
    texts: tuple[str, ...]
    ranks: tuple[Rank, ...]
    turn: tuple[int, ...] = ()


def choose_texts(
    pieces: Sequence[Piece], left: int, labels: Mapping[int, int]
) -> list[tuple[int, int]]:
    """Return (piece, text) by number, in the order in which they were chosen.

    A later choice of the same piece replaces the earlier one. `left` are the tokens to spend,
    `labels` what a piece costs besides its text.
    """
    steps = _plan(pieces)
    chosen: list[tuple[int, int]] = []
    spent: dict[int, int] = {}
    costs: dict[str, int] = {}
    groups: set[Group] = set()
    while steps:
        rank = steps[0][0]
        cap = int(left * _SHARES.get(rank, 1.0))
        again = []
        for step in [each for each in steps if each[0] is rank]:
            _, _, number, level = step
            piece = pieces[number]
            text = piece.texts[level]
            cost = costs.get(text) or count_tokens(text) + 2 * (text.count("\n") + 1)
            costs[text] = cost
            cost += labels.get(number, 0)
            extra = cost - spent.get(number, 0)
            if extra <= 0:
                continue
            extra += 0 if piece.group in groups else _HEADING + _REMARK
            if extra > min(cap, left):
                if rank in _SHARES:
                    again.append((Rank.AGAIN, *step[1:]))
                continue
            cap, left = cap - extra, left - extra
            spent[number] = cost
            groups.add(piece.group)
            chosen.append((number, level))
        steps = sorted([*(each for each in steps if each[0] is not rank), *again])
    return chosen


def _plan(pieces: Sequence[Piece]) -> list[tuple[Rank, tuple[int, ...], int, int]]:
    """Return each text as (rank, turn, piece, level), in the order of consideration."""
    return sorted(
        (rank, (rank, *(piece.turn or piece.place)), number, level)
        for number, piece in enumerate(pieces)
        for level, rank in enumerate(piece.ranks)
    )
