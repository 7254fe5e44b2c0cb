"""The parts of a text that mean something alone: sentences, list items, turns, rows, lines of code.

A unit may need others to be read: a row the head of its table, a line of code its fences, a
sentence of a long turn the speaker's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from vaultmem.core.sentences import find_sentence_ends

#: A part of a text: where it begins and ends (characters).
Span = tuple[int, int]


class Unit(NamedTuple):
    """What is shown whole or not at all, and what is shown with it."""

    span: Span
    needs: tuple[Span, ...] = ()


class _Line(NamedTuple):
    start: int
    end: int
    text: str

    @property
    def span(self) -> Span:
        return self.start, self.end


#: Characters of a list item or a turn that is not divided into sentences, and of a sentence that
#: is not divided into lines.
_WHOLE = 400

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_LEAD = re.compile(
    r"\s*(?:(?:[-*+]|\d{1,3}[.)])\s+(?:\[.\]\s+)?)?"  # The mark of a list or task,
    r"(?:\[?\d[\d:.,/T -]{3,30}Z?\]?\s+)?"  # a time,
    r"(?:[*_]{0,2}[^\W\d_][^\n:*|]{0,40}[*_]{0,2}:[*_]{0,2}\s+)?"  # a name.
)


def divide_text(text: str, whole: int = _WHOLE) -> list[Unit]:
    """Return the units of a text in order; blank lines are in none.

    List items and turns of up to `whole` characters are one unit.
    """
    parts = re.findall(r"[^\n]*\n|[^\n]+", text)
    ends = list(accumulate(map(len, parts)))
    lines = [_Line(end - len(part), end, part) for part, end in zip(parts, ends, strict=True)]
    units: list[Unit] = []
    at = 0
    while at < len(lines):
        if _FENCE.match(lines[at].text):
            last = _end_fence(lines, at)
            units += _divide_framed(lines[at : last + 1], [lines[at], lines[last]])
        elif _is_table(lines, at):
            last = _end_table(lines, at)
            units += _divide_framed(lines[at : last + 1], lines[at : at + 2])
        else:
            last = _end_block(lines, at)
            units += _divide_block(text, lines[at].start, lines[last].end, whole)
        at = last + 1
    return units


def _end_fence(lines: Sequence[_Line], at: int) -> int:
    """Return the line that closes a fence, the last one where none does."""
    opened = _FENCE.match(lines[at].text)
    mark = opened[1] if opened else ""
    after = range(at + 1, len(lines))
    return next((n for n in after if lines[n].text.strip().startswith(mark)), len(lines) - 1)


def _is_table(lines: Sequence[_Line], at: int) -> bool:
    if at + 1 >= len(lines) or "|" not in lines[at].text:
        return False
    return "|" in lines[at + 1].text and _RULE.fullmatch(lines[at + 1].text) is not None


def _end_table(lines: Sequence[_Line], at: int) -> int:
    return next((n - 1 for n in range(at, len(lines)) if "|" not in lines[n].text), len(lines) - 1)


def _end_block(lines: Sequence[_Line], at: int) -> int:
    return next((n - 1 for n in range(at + 1, len(lines)) if _begins(lines, n)), len(lines) - 1)


def _begins(lines: Sequence[_Line], at: int) -> bool:
    """Tell whether a line goes on with nothing of the one before."""
    text = lines[at].text
    return (
        not text.strip()
        or _end_lead(text) > 0
        or _FENCE.match(text) is not None
        or _is_table(lines, at)
    )


def _end_lead(text: str) -> int:
    """Return where the mark, time and name end that a line begins with, 0 without any."""
    lead = _LEAD.match(text)
    return lead.end() if lead and lead[0].strip() else 0


def _divide_framed(lines: Sequence[_Line], frame: Sequence[_Line]) -> Iterator[Unit]:
    """Yield the lines that a frame is round, or the frame where there are none."""
    needs = tuple(dict.fromkeys(line.span for line in frame))
    inside = [line for line in lines if line.span not in needs and line.text.strip()]
    if not inside:
        yield Unit((lines[0].start, lines[-1].end))
    for line in inside:
        yield Unit(line.span, needs)


def _divide_block(text: str, start: int, end: int, whole: int) -> Iterator[Unit]:
    """Yield a short list item or turn whole, else its sentences, each with what it begins with."""
    block = text[start:end]
    lead = _end_lead(block)
    if lead and len(block) <= whole:
        yield Unit((start, end))
        return
    edges = [0, *find_sentence_ends(block, lead), len(block)]
    for first, last in pairwise(edges):
        for a, b in _divide_sentence(block, first, last):
            if block[a:b].strip():
                needs = ((start, start + lead),) if lead and a else ()
                yield Unit((start + a, start + b), needs)


def _divide_sentence(block: str, first: int, last: int) -> Iterator[Span]:
    """Yield a sentence, or the lines of a long one: not everybody ends a sentence with a mark."""
    if last - first <= _WHOLE:
        yield first, last
        return
    for match in re.finditer(r"[^\n]*\n|[^\n]+", block[first:last]):
        yield first + match.start(), first + match.end()
