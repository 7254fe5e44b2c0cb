"""The passages of a section that answer best: what is shown of it where it does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import sqrt

from vaultmem.core.finding.hit import Match, asks
from vaultmem.core.finding.terms import list_compounds, term_sequence
from vaultmem.core.packs.units import Span, Unit, divide_text
from vaultmem.core.token_count import count_tokens

#: What a unit gives of its score to the one before and the one after, and to the one after it
#: where it asks: who answers seldom repeats the words of the question.
_BESIDE, _ANSWER = 0.25, 0.75

#: Tokens of the line that says where a passage stands, and of the mark before a quoted line.
_GAP, _MARK = 8, 2


def choose_passages(text: str, matches: Sequence[Match], room: int) -> tuple[Span, ...]:
    """Return the spans of the best units that cost about `room` tokens together, in order.

    Without a match the first are the best; with one, what has none and is beside none stays out.
    Nothing is returned where not even the best one fits.
    """
    units, best = _order_units(text, tuple(matches))
    chosen: set[int] = set()
    spans: set[Span] = set()
    for place in best:
        unit = units[place]
        cost = sum(_price(text, span) for span in (unit.span, *unit.needs) if span not in spans)
        # A passage of its own costs a gap; one between two passages spares theirs.
        gap = _GAP if _begins_line(text, unit.span) else _MARK
        cost += gap * ((place > 0 and place - 1 not in chosen) - (place + 1 in chosen))
        if cost > room and not chosen:  # What is weaker is not shown in place of the best.
            break
        if cost <= room:
            room -= cost
            chosen.add(place)
            spans.update((unit.span, *unit.needs))
    return _merge(text, spans)


def render_passages(text: str, parts: Iterable[Span]) -> str:
    """Return parts of a text in order, with dots for what is left out between them.

    Where whole lines are, the line is named that it goes on with, the first time of how many.
    """
    shown, last = "", 0
    lines = text.count("\n") + 1
    of = f" of {lines}"
    for start, end in parts:
        gap = text[last:start]
        if not gap.strip():
            shown += gap
        elif "\n" in gap:
            above = f"{shown.rstrip()}\n" if shown else ""
            line = text.count("\n", 0, start) + 1
            shown = f"{above}... (line {line}{of})\n"
            of = ""
        else:
            shown = f"{shown.rstrip(' ')} ... ".lstrip(" ")
        shown += text[start:end]
        last = end
    return shown.rstrip()


@lru_cache(maxsize=64)  # A section is cut several times until it fits.
def _order_units(text: str, matches: tuple[Match, ...]) -> tuple[list[Unit], list[int]]:
    """Return the units of a text, and the places of those that may be shown, best first."""
    units = divide_text(text)
    scores = _score_units(text, units, matches)
    is_head = not any(scores)
    best = sorted(range(len(units)), key=lambda place: (-scores[place], place))
    return units, [place for place in best if scores[place] > 0 or is_head]


def _score_units(text: str, units: Sequence[Unit], matches: Sequence[Match]) -> list[float]:
    """Return what the terms in each unit and beside it are worth.

    A term's share of the section's score grows with how often it is there; its root takes about
    that out again.
    """
    wanted = {match.term for match in matches}
    joined = wanted.intersection(list_compounds(text))
    held = [_find_terms(text[slice(*unit.span)], wanted, joined) for unit in units]
    often = {term: sum(term in terms for terms in held) for term in wanted}
    worth = {match.term: match.score / sqrt(often[match.term] or 1) for match in matches}
    own = [sum(worth[term] for term in sorted(terms)) for terms in held]
    scores = list(own)
    for place, unit in enumerate(units[:-1]):
        share = _ANSWER if asks(text[slice(*unit.span)]) else _BESIDE
        scores[place + 1] += share * own[place]
        scores[place] += _BESIDE * own[place + 1]
    return scores


def _find_terms(piece: str, wanted: set[str], joined: set[str]) -> set[str]:
    """Return which terms a piece has; `joined` are those that the text writes in one piece."""
    found = wanted.intersection(term_sequence(piece))
    return found.union(joined.intersection(list_compounds(piece))) if joined else found


def _price(text: str, span: Span) -> int:
    piece = text[slice(*span)].strip("\n")
    return count_tokens(piece) + _MARK * (_begins_line(text, span) + piece.count("\n"))


def _begins_line(text: str, span: Span) -> bool:
    return span[0] == 0 or text[span[0] - 1] == "\n"


def _merge(text: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return spans in order, those with nothing but blanks between them as one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and not text[merged[-1][1] : start].strip():
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)
