"""What of a note is none of its words: what people do not see, and what others say of it.

People do not see comments, and labels with nothing but a comment behind them; others speak in
callouts, which a merge has put in (`core.notes.conflict`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from vaultmem.core.notes.sections import GONE

# Compiled when they are first used: most vaults' questions need neither.
_HIDDEN_LINE = rf"(?m)^[ \t]*+{GONE}[ \t{GONE}]*+\r?(?:\n(?:[ \t]*+\r?\n)*+|\Z)"
#: A list mark or a label in bold with nothing but a comment behind it: nobody has written there.
_PLACEHOLDER = (
    rf"(?m)^[ \t]*+(?:(?:[-+*]|\d{{1,9}}[.)])[ \t]++)?(?:\*\*[^*\n{GONE}]++\*\*[ \t]*+)?"
    rf"{GONE}++(?=[ \t]*+\r?$)"
)


class Visible(NamedTuple):
    """A note's text with NUL for what is none of its words but line breaks, as long as before.

    `warning` says which comment hides more than people may think; "" if none does.
    """

    text: str
    warning: str = ""


def has_unseen(text: str) -> bool:
    """Tell whether a text may have what is none of its words."""
    return "<!--" in text or "%%" in text or "> [!conflict" in text


def hide_unseen(text: str, body: int) -> Visible:
    """Return a note's own words that people see; its properties end at offset `body`."""
    if "> [!conflict" not in text:
        return hide_comments(text, body)
    from vaultmem.core.notes.conflict import find_spans

    seen = hide_comments(text, body)
    return seen._replace(text=_blank(seen.text, find_spans(text, body)))


def hide_comments(text: str, body: int) -> Visible:
    """Return what people see of a note's text, also of what others say in it."""
    if "<!--" not in text and "%%" not in text:
        return Visible(text)
    from vaultmem.core.notes.comments import scan_text

    scan = scan_text(text, body)
    spans, left_open = list(scan.comments), [scan.left_open]
    if "%%" in text:
        from vaultmem.core.notes.percent import find_percent

        more, at = find_percent(text, body, scan)
        spans += more
        left_open.append(at)
    if not spans:
        return Visible(text)
    hidden = re.sub(_PLACEHOLDER, _blank_line, _blank(text, sorted(spans)))
    at = min((each for each in left_open if each >= 0), default=-1)
    return Visible(hidden, _warn(text, at) if at >= 0 else "")


def _blank_line(found: re.Match[str]) -> str:
    return GONE * len(found[0])


def drop_unseen(visible: str) -> str:
    """Return a piece of a visible text without what is not seen, nor lines that had no more."""
    if GONE not in visible:
        return visible
    return re.sub(_HIDDEN_LINE, "", visible).replace(GONE, "")


def _warn(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"a comment that begins in line {line} hides what follows; close it in its own line"


def _blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    place = 0
    for start, end in spans:
        if end > place:
            start = max(start, place)
            lines = text[start:end].split("\n")
            parts += (text[place:start], "\n".join([GONE * len(line) for line in lines]))
            place = end
    return "".join([*parts, text[place:]])
