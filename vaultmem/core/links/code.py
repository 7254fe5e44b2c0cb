"""Where a text is code or comment, so that nothing in it is a link.

Sources: CommonMark 0.31 ("Code spans", "Indented code blocks", "HTML blocks"); Obsidian Help,
"Basic formatting syntax" (`%%` comments).
"""

from __future__ import annotations

import re
from bisect import bisect_right

from vaultmem.core.notes.sections import find_fences

Spans = list[tuple[int, int]]

_MARK = re.compile(r"(?P<ticks>`+)|(?P<html><!--)|(?P<comment>%%)|(?P<gap>\n[ \t]*\r?\n)")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)")
_INDENTED = re.compile(r"^(?: {4}| {0,3}\t)", re.MULTILINE)


def find_unread(text: str, body: int) -> tuple[Spans, Spans]:
    """Return what is code or an HTML comment, and what is in `%%` comments, from offset `body`.

    Both are spans of characters, in order. An HTML comment that is never closed reaches to the
    end; `%%` without a second one is text.
    """
    fences = find_fences(text, body)
    unread, hidden = _find_marked(text, body, fences)
    is_indented = "\n    " in text or "\t" in text or text.startswith("    ", body)
    blocks = _find_indented(text, body, fences) if is_indented else []
    return _merge([*fences, *unread, *blocks]), hidden


def is_within(spans: Spans, place: int) -> bool:
    """Tell whether a place is in one of the spans, which are in order and apart."""
    index = bisect_right(spans, place, key=lambda span: span[0]) - 1
    return index >= 0 and place < spans[index][1]


def _merge(spans: Spans) -> Spans:
    merged: Spans = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _find_marked(text: str, body: int, fences: Spans) -> tuple[Spans, Spans]:
    """Return code spans with HTML comments, and `%%` comments; what opens first counts."""
    if "`" not in text and "<!--" not in text and "%%" not in text:
        return [], []
    marks = list(_MARK.finditer(text, body))
    if fences:
        marks = [match for match in marks if not is_within(fences, match.start())]
    closings = _pair_ticks(marks)
    unread: Spans = []
    hidden: Spans = []
    place, opened = body, -1
    for match in marks:
        start = match.start()
        if start < place:
            continue
        if match["ticks"] and start in closings:
            place = closings[start]
            unread.append((start, place))
        elif match["html"]:
            end = text.find("-->", match.end())
            place = len(text) if end < 0 else end + 3
            unread.append((start, place))
        elif match["comment"] and opened < 0:
            opened = start
        elif match["comment"]:
            hidden.append((opened, match.end()))
            opened = -1
    return unread, hidden


def _pair_ticks(marks: list[re.Match[str]]) -> dict[int, int]:
    """Return where the code span ends that each run of backticks would open, if any does."""
    closings: dict[int, int] = {}
    later: dict[int, int] = {}
    for match in reversed(marks):
        if match["gap"]:
            later.clear()  # A code span stays in its paragraph.
        elif match["ticks"]:
            length = len(match["ticks"])
            escaped = match.string[match.start() - 1 : match.start()] == "\\"
            if (end := later.get(length - escaped)) is not None:
                closings[match.start()] = end
            later[length] = match.end()
    return closings


def _find_indented(text: str, body: int, fences: Spans) -> Spans:
    """Return indented code: lines four columns in, behind a blank line, and in no list."""
    found: Spans = []
    is_blank, is_code, in_list = True, False, False
    place = body
    for line in text[body:].splitlines(keepends=True):
        start, place = place, place + len(line)
        if not line.strip():
            is_blank = True
            continue
        indented = _INDENTED.match(line) is not None
        if is_within(fences, start):
            is_code = False
        elif indented and not in_list and (is_blank or is_code):
            found.append((start, place))
            is_code = True
        else:
            is_code = False
            if _LIST_ITEM.match(line):
                in_list = True
            elif not line[0].isspace() and is_blank:
                in_list = False
        is_blank = False
    return found
