"""Conflict markers in a text: what git leaves where two sides changed the same lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Source: `git merge --help`, "HOW CONFLICTS ARE PRESENTED". A heading underlined with seven `=`
#: is one of the three alone.
_MARK = re.compile(r"^(?:<{7}|={7}|>{7})(?=[ \r\n]|\Z)", re.MULTILINE)
_ORDER = "<=>"


def find_conflict(text: str, fences: Sequence[tuple[int, int]] = ()) -> str:
    """Return what to say of the first conflict in a text, "" if there is none.

    One inside of one fenced code (`fences`, as spans) is an example.
    """
    if "<<<<<<<" not in text or ">>>>>>>" not in text:
        return ""
    begin, seen = 0, ""
    for match in _MARK.finditer(text):
        mark = match[0][0]
        if mark == "<":
            begin, seen = match.start(), mark
        elif seen and mark == _ORDER[len(seen)]:
            seen += mark
        if seen != _ORDER:
            continue
        if not any(start <= begin and match.end() <= end for start, end in fences):
            return f"conflict markers stand in it (line {text.count(chr(10), 0, begin) + 1})"
        seen = ""
    return ""
