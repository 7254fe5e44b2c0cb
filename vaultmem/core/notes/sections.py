"""The unit of recall: a heading and its text."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

# Possessive, so that no line of a megabyte takes quadratic time. A byte order mark is not text.
_HEADING = re.compile(r"^\ufeff? {0,3}(?P<marks>#{1,6})[ \t](?P<text>[^\r\n]*+)\r?$", re.MULTILINE)
_FENCE = re.compile(r"^\ufeff? {0,3}(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\r\n]*+)\r?$", re.MULTILINE)

#: A note with more headings than this is read as if the rest were plain text.
MAX_SECTIONS = 2_000


class Section(NamedTuple):
    """A heading (empty for text before the first) and the character span of its own text.

    `parents` are the headings above it, outermost first; `line` is the 1-based line of the
    heading, or of the text where there is none.
    """

    ordinal: int
    heading: str
    parents: tuple[str, ...]
    start: int
    end: int
    line: int


def split_sections(text: str, body: int) -> tuple[tuple[Section, ...], str]:
    """Return the sections of the text from offset `body`, and the first heading ("" if none).

    A heading without text of its own makes no section: its words live on in `parents`.
    There is always at least one section.
    """
    headings = _find_headings(text, body)
    if not headings:
        line = text.count("\n", 0, body) + 1
        return (
            Section(ordinal=0, heading="", parents=(), start=body, end=len(text), line=line),
        ), ""
    sections: list[Section] = []
    spans = [(body, body, 0, ""), *headings]
    stack: list[tuple[int, str]] = []
    line, counted = text.count("\n", 0, body) + 1, body
    for index, (begin, start, level, heading) in enumerate(spans):
        stack = [item for item in stack if item[0] < level]
        end = spans[index + 1][0] if index + 1 < len(spans) else len(text)
        line, counted = line + text.count("\n", counted, begin), begin
        if text[start:end].strip():
            parents = tuple(name for _, name in stack)
            sections.append(
                Section(
                    ordinal=len(sections),
                    heading=heading,
                    parents=parents,
                    start=start,
                    end=end,
                    line=line,
                )
            )
        if heading:
            stack.append((level, heading))
    if not sections:
        begin, start, _, heading = headings[0]
        sections.append(
            Section(
                ordinal=0,
                heading=heading,
                parents=(),
                start=start,
                end=start,
                line=text.count("\n", 0, begin) + 1,
            )
        )
    return tuple(sections), headings[0][3]


def _find_headings(text: str, body: int) -> list[tuple[int, int, int, str]]:
    """Return (offset, offset behind the line, level, heading), code fences skipped."""
    fences = find_fences(text, body)
    starts = [start for start, _ in fences]
    found: list[tuple[int, int, int, str]] = []
    for match in _HEADING.finditer(text, body):
        fence = bisect_right(starts, match.start()) - 1
        if fence >= 0 and match.start() < fences[fence][1]:
            continue
        heading = _heading_text(match["text"])
        if heading:
            found.append((match.start(), match.end(), len(match["marks"]), heading))
        if len(found) >= MAX_SECTIONS:
            break
    return found


def _heading_text(text: str) -> str:
    """Return a heading without the `##` that may close it."""
    text = text.strip()
    bare = text.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else text


def find_fences(text: str, body: int) -> list[tuple[int, int]]:
    """Return the spans of fenced code from offset `body`, in order, fence lines included.

    Source: CommonMark 0.31, "Fenced code blocks".
    """
    if "```" not in text and "~~~" not in text:
        return []
    spans: list[tuple[int, int]] = []
    opened: tuple[int, str] | None = None
    for match in _FENCE.finditer(text, body):
        fence, info = match["fence"], match["info"]
        if opened is None:
            if fence[0] == "~" or "`" not in info:
                opened = (match.start(), fence)
        elif fence[0] == opened[1][0] and len(fence) >= len(opened[1]) and not info.strip():
            spans.append((opened[0], match.end()))
            opened = None
    if opened is not None:
        spans.append((opened[0], len(text)))
    return spans
