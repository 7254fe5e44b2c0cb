"""Conflict markers in a text: what git leaves where two sides changed the same lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

#: Source: `git merge --help`, "HOW CONFLICTS ARE PRESENTED". A heading underlined with seven `=`
#: is one of the three alone.
_MARK = re.compile(r"^(?:<{7}|={7}|>{7})(?=[ \r\n]|\Z)", re.MULTILINE)
_ORDER = "<=>"


class _Block(NamedTuple):
    """Where a conflict begins and ends in a text, in characters."""

    start: int
    end: int


def find_conflict(text: str, fences: Sequence[tuple[int, int]] = ()) -> str:
    """Return what to say of the first conflict in a text, "" if there is none.

    One inside of one fenced code (`fences`, as spans) is an example.
    """
    for block in _find_blocks(text):
        if not any(start <= block.start and block.end <= end for start, end in fences):
            return f"conflict markers stand in it (line {text.count(chr(10), 0, block.start) + 1})"
    return ""


def _find_blocks(text: str) -> list[_Block]:
    if "<<<<<<<" not in text or ">>>>>>>" not in text:
        return []
    found: list[_Block] = []
    start, seen = 0, ""
    for match in _MARK.finditer(text):
        mark = match[0][0]
        if mark == "<":
            start, seen = match.start(), mark
        elif seen and mark == _ORDER[len(seen)]:
            seen += mark
        if seen == _ORDER:
            found.append(_Block(start, match.end()))
            seen = ""
    return found
