"""Add text to a section of a note; every other byte stays as it is."""

from __future__ import annotations

import re

from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.sections import find_fences

_HEADING = re.compile(
    r"^\ufeff? {0,3}(?P<marks>#{1,6})[ \t]+(?P<name>[^\r\n]*?)[ \t]*#*[ \t]*\r?$", re.MULTILINE
)
_LIST_LINE = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]|[ \t]+\S")
_MARKS = re.compile(r"^( {0,3})(#{1,6}[ \t]|---|===|```|~~~)", re.MULTILINE)


def append_to_section(text: str, heading: str, addition: str) -> str:
    """Return `text` with some lines at the end of a section's own text.

    They stand before the headings below the section's own. A list goes on without a blank line.
    A section that is not there is added at the end of the note.
    """
    lines = addition.strip("\n").splitlines()
    body = read_frontmatter(text).body
    span = _find_section(text, body, heading)
    if span is None:
        lines = [f"## {heading}", "", *lines]
        span = (body, len(text))
    at = span[0] + len(text[slice(*span)].rstrip())
    at = _leave_open_fence(text, body, at)
    before, after = text[:at], text[at:]
    newline = before.rfind("\n") if "\n" in before else text.find("\n")
    eol = "\r\n" if text[max(newline - 1, 0) : newline] == "\r" else "\n"
    parts = [before, _gap(before, lines[0], eol), eol.join(lines)]
    # What follows is the rest of the line that the section's text ended in, or a fence.
    parts.append("" if after.startswith(("\n", "\r\n")) else eol)
    return "".join([*parts, after])


def as_item(text: str) -> str:
    """Return text as one item of a list, in one line."""
    return f"- {' '.join(text.split())}"


def as_paragraphs(text: str) -> str:
    """Return text in which no line is a heading, a rule or a fence.

    Such a line would end the section that the text is added to, or swallow what follows.
    """
    return _MARKS.sub(r"\1\\\2", text.strip("\n"))


def find_blocks(text: str, heading: str) -> list[tuple[int, int]]:
    """Return the spans of the sections of this name, with their headings and those below them."""
    found = _find_headings(text, read_frontmatter(text).body)
    spans = []
    for place, match in enumerate(found):
        if _is_named(match, heading):
            after = (each.start() for each in found[place + 1 :] if _level(each) <= _level(match))
            spans.append((match.start(), next(after, len(text))))
    return spans


def _find_section(text: str, body: int, heading: str) -> tuple[int, int] | None:
    """Return the span of a section's own text, from the end of its heading's line."""
    found = _find_headings(text, body)
    for place, match in enumerate(found):
        if _is_named(match, heading):
            following = found[place + 1].start() if place + 1 < len(found) else len(text)
            return match.start() + len(match.group().rstrip("\r")), following
    return None


def _find_headings(text: str, body: int) -> list[re.Match[str]]:
    fences = find_fences(text, body)
    return [
        match
        for match in _HEADING.finditer(text, body)
        if not any(start <= match.start() < end for start, end in fences)
    ]


def _is_named(match: re.Match[str], heading: str) -> bool:
    wanted = " ".join(heading.split()).casefold()
    return " ".join(match["name"].rstrip("# \t").split()).casefold() == wanted


def _level(match: re.Match[str]) -> int:
    return len(match["marks"])


def _leave_open_fence(text: str, body: int, at: int) -> int:
    """Return `at`, or the place before fenced code that is never closed: it would swallow all."""
    for start, end in find_fences(text, body):
        if start < at and end == len(text):
            lines = text[start:end].strip().splitlines()
            mark = lines[0].strip()[0]
            is_closed = len(lines) > 1 and not lines[-1].strip().strip(mark)
            return at if is_closed else max(body, len(text[:start].rstrip()))
    return at


def _gap(before: str, first: str, eol: str) -> str:
    """Return what has to stand between the text before and the first new line."""
    if not before:
        return ""
    last = before.rstrip("\r\n").rpartition("\n")[2]
    goes_on = bool(_LIST_LINE.match(last)) and bool(_LIST_LINE.match(first))
    ends_line = before.endswith("\n")
    return ("" if ends_line else eol) + ("" if goes_on else eol)
