"""The unit of recall: a heading and its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

#: Stands for what is not seen. No note has one: it would not be text.
GONE = "\0"

# Possessive, so that no line of a megabyte takes quadratic time. A byte order mark is not text.
_BLOCK = (
    r"(?P<line>\ufeff? {0,3}(?:(?P<marks>#{1,6})[ \t](?P<text>[^\r\n]*+)"
    r"|(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\r\n]*+))\r?)$"
)
_FIRST = re.compile("^" + _BLOCK, re.MULTILINE)
#: Line breaks are found at once, where `^` is tried at each character; most lines are text.
_FURTHER = re.compile(r"\n(?=[#`~ \ufeff])" + _BLOCK, re.MULTILINE)

#: A note with more headings than this is read as if the rest were plain text.
MAX_SECTIONS = 2_000


class Blocks(NamedTuple):
    """The headings of a text, and the spans of its fenced code, fence lines included.

    A heading is (offset, offset behind the line, level, text without closing marks).
    """

    headings: Sequence[tuple[int, int, int, str]]
    fences: Sequence[tuple[int, int]]


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


def split_sections(
    text: str, body: int, headings: Sequence[tuple[int, int, int, str]] | None = None
) -> tuple[tuple[Section, ...], str]:
    """Return the sections of the text from offset `body`, and the first heading ("" if none).

    A heading without text of its own makes no section: its words live on in `parents`.
    There is always at least one section. `headings` are those of the text, if they are known. In a
    visible text (`core.notes.hidden`), what is not seen is no text.
    """
    if headings is None:
        headings = find_blocks(text, body).headings
    if not headings:
        line = text.count("\n", 0, body) + 1
        return (Section(0, heading="", parents=(), start=body, end=len(text), line=line),), ""
    sections: list[Section] = []
    above: list[tuple[int, tuple[str, ...]]] = []  # Levels, and the headings down to there.
    line, counted = text.count("\n", 0, body) + 1, body
    ends = [*(begin for begin, _, _, _ in headings), len(text)]
    spans = [(body, body, 0, ""), *headings]
    for (begin, start, level, heading), end in zip(spans, ends, strict=True):
        while above and above[-1][0] >= level:
            above.pop()
        parents = above[-1][1] if above else ()
        line, counted = line + text.count("\n", counted, begin), begin
        own = text[start:end]
        if own and not own.replace(GONE, " ").isspace():
            sections.append(Section(len(sections), heading, parents, start, end, line))
        if heading:
            above.append((level, (*parents, heading)))
    if not sections:
        begin, start, _, heading = headings[0]
        line = text.count("\n", 0, begin) + 1
        sections.append(Section(0, heading, (), start, start, line))
    return tuple(sections), headings[0][3]


def find_blocks(text: str, body: int) -> Blocks:
    """Return the headings and the fenced code from offset `body`; headings in code are text.

    Source: CommonMark 0.31, "ATX headings", "Fenced code blocks".
    """
    headings: list[tuple[int, int, int, str]] = []
    fences: list[tuple[int, int]] = []
    start, opened = -1, ""
    first = _FIRST.match(text, body)
    for match in chain([first] if first else [], _FURTHER.finditer(text, body)):
        _, marks, heading, fence, info = match.groups()
        if marks:
            heading = _strip_heading(heading)
            if heading and not opened and len(headings) < MAX_SECTIONS:
                headings.append((match.start(1), match.end(), len(marks), heading))
        elif not opened:
            if fence[0] == "~" or "`" not in info:
                start, opened = match.start(1), fence
        elif fence.startswith(opened) and not info.strip():
            fences.append((start, match.end()))
            opened = ""
    if opened:
        fences.append((start, len(text)))
    return Blocks(headings, fences)


def _strip_heading(text: str) -> str:
    """Return a heading without the `##` that may close it."""
    text = text.replace(GONE, "").strip()
    if not text.endswith("#"):
        return text
    bare = text.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else text


def find_fences(text: str, body: int) -> Sequence[tuple[int, int]]:
    """Return the spans of fenced code from offset `body`, in order, fence lines included."""
    return find_blocks(text, body).fences if "```" in text or "~~~" in text else ()


def blank_fences(text: str, fences: Sequence[tuple[int, int]]) -> str:
    """Return a text of the same length in which each fenced code is one long word."""
    if not fences:
        return text
    parts: list[str] = []
    place = 0
    for start, end in fences:
        parts += (text[place:start], "x" * (end - start))
        place = end
    return "".join([*parts, text[place:]])
