"""Where a text is code or comment, so that nothing in it is a link.

Sources: CommonMark 0.31 ("Code spans", "Indented code blocks", "HTML blocks"); Obsidian Help,
"Basic formatting syntax" (`%%` comments).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

#: Where spans begin and end, in turn, in the order of the text.
Edges = Sequence[int]

_MARK = re.compile(r"(?P<ticks>`+)|(?P<html><!--)|(?P<comment>%%)|(?P<gap>\n[ \t]*\r?\n)")
_TICK = re.compile("`")
_GAP = re.compile(r"\n[ \t]*\r?\n")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)")
_INDENTED = re.compile(r" {4}| {0,3}\t")


class Marked(NamedTuple):
    """Code spans, HTML comments and `%%` comments of a text."""

    code: Edges = ()
    comments: Edges = ()
    hidden: Edges = ()


def drop_unread(
    matches: Iterable[re.Match[str]],
    text: str,
    body: int,
    prose: str,
    fences: Sequence[tuple[int, int]],
) -> Iterator[tuple[re.Match[str], bool]]:
    """Yield each match that is neither code nor in an HTML comment, and whether `%%` hides it.

    The matches are in order, none goes on in a second line, and they were found in `prose`: the
    text with its fences blanked. Only the paragraphs that they are in are looked at.
    """
    has_comments = "<!--" in prose or ("%" in prose and "%%" in prose)
    code, comments, hidden = find_marked(text, body, prose) if has_comments else Marked()
    indented: Edges | None = None
    gap = "\n\r\n" if "\r" in prose else "\n\n"
    end = body
    for match in matches:
        start = match.start()
        if start >= end:
            # From a blank line to the next; where one has blanks in it, these are two paragraphs.
            begin = prose.rfind(gap, end, start) + 1 or end
            end = prose.find(gap, start)
            if end < 0:
                end = len(prose)
            paragraph = prose[begin:end]
            if not has_comments:
                code = _find_code(paragraph, begin) if "`" in paragraph else ()
            if indented is None and ("    " in paragraph or "\t" in paragraph):
                indented = _find_indented(text, body, fences)
        if not (
            (code and _touches(code, match))
            or (comments and _touches(comments, match))
            or (indented and _touches(indented, match))
        ):
            yield match, bool(hidden) and _is_within(hidden, start)


def _touches(edges: Edges, match: re.Match[str]) -> bool:
    return _is_within(edges, match.start()) or _is_within(edges, match.end() - 1)


def _is_within(edges: Edges, place: int) -> bool:
    return bisect_right(edges, place) % 2 == 1


def _find_code(paragraph: str, start: int) -> Edges:
    """Return the code spans of a paragraph without comments that begins at offset `start`."""
    if "``" in paragraph or "\\`" in paragraph or _GAP.search(paragraph):
        return [start + place for place in find_marked(paragraph, 0, paragraph).code]
    ticks = [start + match.start() for match in _TICK.finditer(paragraph)]
    return ticks[: len(ticks) // 2 * 2]  # The first begins what the second ends.


def find_marked(text: str, body: int, prose: str) -> Marked:
    """Return code spans, HTML comments and `%%` comments; what opens first counts.

    An HTML comment that is never closed reaches to the end; `%%` without a second one is text.
    """
    marks = list(_MARK.finditer(prose, body))
    closings = _pair_ticks(marks)
    code: list[int] = []
    comments: list[int] = []
    hidden: list[int] = []
    place, opened = body, -1
    for match in marks:
        start = match.start()
        if start < place:
            continue
        if match["ticks"] and start in closings:
            place = closings[start]
            code += (start, place)
        elif match["html"]:
            end = text.find("-->", match.end())
            place = len(text) if end < 0 else end + 3
            comments += (start, place)
        elif match["comment"] and opened < 0:
            opened = start
        elif match["comment"]:
            hidden += (opened, match.end())
            opened = -1
    return Marked(code, comments, hidden)


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


def _find_indented(text: str, body: int, fences: Sequence[tuple[int, int]]) -> Edges:
    """Return indented code: lines four columns in, behind a blank line, and in no list."""
    fenced = [place for span in fences for place in span]
    found: list[int] = []
    is_blank, is_code, in_list = True, False, False
    place = body
    for line in text[body:].splitlines(keepends=True):
        start, place = place, place + len(line)
        if line.isspace():
            is_blank = True
            continue
        indented = line[0] in " \t" and _INDENTED.match(line)
        if fenced and _is_within(fenced, start):
            is_code = False
        elif indented and not in_list and (is_blank or is_code):
            found += (start, place)
            is_code = True
        else:
            is_code = False
            if _LIST_ITEM.match(line):
                in_list = True
            elif is_blank and not line[0].isspace():
                in_list = False
        is_blank = False
    return found
