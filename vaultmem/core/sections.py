"""The unit of recall: a heading and its text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADING = re.compile(
    r"^ {0,3}(?P<marks>#{1,6})[ \t]+(?P<text>[^\r\n]*?)(?:[ \t]+#+)?[ \t]*\r?$", re.MULTILINE
)
_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})[^\r\n]*$", re.MULTILINE)

#: A note with more headings than this is read as if the rest were plain text.
MAX_SECTIONS = 2_000


@dataclass(frozen=True, slots=True)
class Section:
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
        return (Section(0, "", (), body, len(text), line),), ""
    sections: list[Section] = []
    spans = [(body, body, 0, ""), *headings]
    stack: list[tuple[int, str]] = []
    for index, (begin, start, level, heading) in enumerate(spans):
        stack = [item for item in stack if item[0] < level]
        end = spans[index + 1][0] if index + 1 < len(spans) else len(text)
        if text[start:end].strip():
            parents = tuple(name for _, name in stack)
            line = text.count("\n", 0, begin) + 1
            sections.append(Section(len(sections), heading, parents, start, end, line))
        if heading:
            stack.append((level, heading))
    if not sections:
        begin, start, _, heading = headings[0]
        sections.append(Section(0, heading, (), start, start, text.count("\n", 0, begin) + 1))
    return tuple(sections), headings[0][3]


def _find_headings(text: str, body: int) -> list[tuple[int, int, int, str]]:
    """Return (offset, offset behind the line, level, heading), code fences skipped."""
    fences = _fenced_spans(text, body)
    found: list[tuple[int, int, int, str]] = []
    for match in _HEADING.finditer(text, body):
        if any(start <= match.start() < end for start, end in fences):
            continue
        heading = match["text"].strip()
        if heading:
            found.append((match.start(), match.end(), len(match["marks"]), heading))
        if len(found) >= MAX_SECTIONS:
            break
    return found


def _fenced_spans(text: str, body: int) -> list[tuple[int, int]]:
    if "```" not in text and "~~~" not in text:
        return []
    spans: list[tuple[int, int]] = []
    opened: tuple[int, str] | None = None
    for match in _FENCE.finditer(text, body):
        fence = match["fence"]
        if opened is None:
            opened = (match.start(), fence)
        elif fence[0] == opened[1][0] and len(fence) >= len(opened[1]):
            spans.append((opened[0], match.end()))
            opened = None
    if opened is not None:
        spans.append((opened[0], len(text)))
    return spans
