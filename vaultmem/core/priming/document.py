"""Divide a markdown document at its headings.

Source: CommonMark 0.31, "ATX headings", "Setext headings", "Fenced code blocks", "HTML blocks".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.sections import find_fences

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
#: What begins a block of its own: no line of a paragraph, so no setext heading's text.
_BLOCK = re.compile(
    r" {0,3}(?:[-+*](?:[ \t]|$)|\d{1,9}[.)](?:[ \t]|$)|>|#{1,6}(?:[ \t]|$)|<|\||"
    r"(?:[*_-][ \t]*){3,}$)"
)
_CODE = re.compile(r"(?: {4}| {0,3}\t)")


class Part(NamedTuple):
    """A heading with the text up to the next one; `line` is the 1-based line of the heading.

    `parents` are the headings above it, outermost first. `body` has no blank lines around it.
    """

    heading: str
    parents: tuple[str, ...]
    body: str
    line: int


class Document(NamedTuple):
    """A document's title ("" if it has none) and its parts, those without text left out."""

    title: str
    parts: tuple[Part, ...]


def split_document(text: str) -> Document:
    """Divide a document; its properties are no part of it, but for the title.

    Text before the first heading is a part without a heading. Headings in code are text.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    matter = read_frontmatter(text)
    title = matter.get("title")
    lines = text.split("\n")
    first = text.count("\n", 0, matter.body)
    headings = _find_headings(lines, first, _code_lines(text, matter.body))
    parts: list[Part] = []
    stack: list[tuple[int, str]] = []
    spans = [(first, first, 0, ""), *headings]
    for index, (start, body, level, heading) in enumerate(spans):
        stack = [each for each in stack if each[0] < level]
        end = spans[index + 1][0] if index + 1 < len(spans) else len(lines)
        own = _strip_blank(lines[body:end])
        if own:
            parents = tuple(name for _, name in stack)
            parts.append(Part(heading, parents, "\n".join(own), start + 1))
        if level:
            stack.append((level, heading))
    named = title.value if title is not None and isinstance(title.value, str) else ""
    return Document(named.strip() or (headings[0][3] if headings else ""), tuple(parts))


def _code_lines(text: str, body: int) -> set[int]:
    """Return the numbers of the lines (from 0) that are fenced code."""
    found: set[int] = set()
    for start, end in find_fences(text, body):
        first = text.count("\n", 0, start)
        found.update(range(first, first + text.count("\n", start, end) + 1))
    return found


def _find_headings(lines: list[str], first: int, code: set[int]) -> list[tuple[int, int, int, str]]:
    """Return (first line, line behind, level, text) of each heading."""
    found: list[tuple[int, int, int, str]] = []
    paragraph = -1
    for number in range(first, len(lines)):
        line = lines[number]
        if number in code or not line.strip():
            paragraph = -1
            continue
        underline = _UNDERLINE.match(line)
        if underline and paragraph >= 0:
            words = " ".join(each.strip() for each in lines[paragraph:number])
            found.append((paragraph, number + 1, 1 if underline[1][0] == "=" else 2, words))
            paragraph = -1
        elif atx := _ATX.match(line):
            if words := (atx[2] or "").strip():
                found.append((number, number + 1, len(atx[1]), words))
            paragraph = -1
        elif paragraph < 0 and not _BLOCK.match(line) and not _CODE.match(line):
            is_start = number == first or not lines[number - 1].strip() or number - 1 in code
            after_heading = bool(found) and found[-1][1] == number
            paragraph = number if is_start or after_heading else -1
    return found


def _strip_blank(lines: list[str]) -> list[str]:
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return lines[start:end]
