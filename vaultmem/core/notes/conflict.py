"""Conflicts in a text: git's markers, and callouts with the text of the other side of a merge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from operator import attrgetter
from typing import NamedTuple

from vaultmem.core.lifecycle import CONFLICTED
from vaultmem.core.notes.sections import find_fences
from vaultmem.core.text.display import one_line
from vaultmem.core.text.patterns import compile_later

#: Source: `git merge --help`, "HOW CONFLICTS ARE PRESENTED". Seven `=` alone can underline a
#: heading.
_MARK = compile_later(r"^(?:<{7}|={7}|>{7})(?=[ \r\n]|\Z)", re.MULTILINE)
_ORDER = "<=>"


def find_conflict(text: str, fences: Sequence[tuple[int, int]] = ()) -> str:
    """Return a message about the first conflict in a text, or "".

    Markers inside one fenced code block (`fences`, as spans) are an example and are ignored.
    """
    if "<<<<<<<" not in text or ">>>>>>>" not in text:
        return ""
    begin, marks = 0, ""
    for match in _MARK.finditer(text):
        mark = match[0][0]
        if mark == "<":
            begin, marks = match.start(), mark
        elif marks and mark == _ORDER[len(marks)]:
            marks += mark
        if marks != _ORDER:
            continue
        if not any(start <= begin and match.end() <= end for start, end in fences):
            return f"it contains conflict markers (line {text.count(chr(10), 0, begin) + 1})"
        marks = ""
    return ""


class Speaker(NamedTuple):
    """The author of a text: a name, a date (`2026-11-22`), a branch or machine; "" if unknown."""

    author: str = ""
    date: str = ""
    origin: str = ""


#: The action of a side of a merge: other text, removed text, or a removed note.
OTHER_TEXT, REMOVED_TEXT, REMOVED_NOTE = "Also said", "Left out", "Removed"

_HEAD = compile_later(
    rf"> \[!conflict(?:\|([0-9]{{1,6}}))?\] ({OTHER_TEXT}|{REMOVED_TEXT}|{REMOVED_NOTE}) by (.+?)"
    r"(?: on ([0-9]{4}-[0-9]{2}-[0-9]{2}))?(?: \(([^\n]+)\))?[ \t]*"
)
_UNKNOWN_AUTHOR = "somebody"

#: Most characters of a name in a message, and most names.
_NAME, _NAMES = 40, 3

_LINE = compile_later(r"[^\n]*\n|[^\n]+")


class Callout(NamedTuple):
    """The other side's text for the `our_line_count` lines above, or its removal of the note."""

    verb: str
    speaker: Speaker
    lines: tuple[str, ...] = ()
    our_line_count: int = 1


class ConflictingText(NamedTuple):
    """The other side's text in a merge, and its author."""

    who: str
    text: str


class PlacedCallout(NamedTuple):
    """A callout, and the line of the text without callouts before which it belongs (from 0).

    `line` is its first line in the text with callouts, from 0.
    """

    callout: Callout
    place: int
    line: int = 0


def find_callouts(text: str, body: int = 0) -> tuple[PlacedCallout, ...]:
    """Return the conflict callouts in a text; lines count from offset `body`."""
    return extract_callouts(text[body:])[1]


def find_spans(text: str, body: int = 0) -> list[tuple[int, int]]:
    """Return the spans of a text's callouts, without the last line's end."""
    placed = find_callouts(text, body)
    starts = list(accumulate(map(len, _LINE.findall(text[body:])), initial=body))
    spans = ((starts[x.line], starts[x.line + 1 + len(x.callout.lines)]) for x in placed)
    return [(start, start + len(text[start:end].rstrip("\r\n"))) for start, end in spans]


def describe_conflict(placed: Iterable[PlacedCallout]) -> str:
    """Return a message about the callouts of a note, or "" without callouts."""
    callouts = [each.callout for each in placed]
    others = dict.fromkeys(each.speaker.author for each in callouts if each.verb != REMOVED_NOTE)
    removers = dict.fromkeys(each.speaker.author for each in callouts if each.verb == REMOVED_NOTE)
    verb = "says" if len(others) == 1 else "say"
    statements = [f"{_join_names(others)} {verb} otherwise"] if others else []
    statements += [f"{_join_names(removers)} removed it"] if removers else []
    return f"{CONFLICTED}: {', '.join(statements)}" if statements else ""


def _join_names(names: Iterable[str]) -> str:
    """Return the names in words, shortened, because anyone can write a callout."""
    cut = [name if len(name) <= _NAME else f"{name[: _NAME - 3]}..." for name in names]
    more = [f"{len(cut) - _NAMES} more"] if len(cut) > _NAMES else []
    return " and ".join([*cut[:_NAMES], *more])


def extract_callouts(text: str) -> tuple[str, tuple[PlacedCallout, ...]]:
    """Return a text without its callouts, and the callouts; the reverse of `insert_callouts`.

    A callout in fenced code is an example and stays.
    """
    if "> [!conflict" not in text:
        return text, ()
    lines = _LINE.findall(text)
    code = _find_code_lines(text)
    rest: list[str] = []
    placed: list[PlacedCallout] = []
    index, was_taken = 0, False
    while index < len(lines):
        head = _HEAD.fullmatch(lines[index].rstrip("\r\n")) if index not in code else None
        if head is None:
            rest.append(lines[index])
            index, was_taken = index + 1, False
            continue
        end = index + 1
        while end < len(lines) and lines[end].startswith(">"):
            end += 1
        if not was_taken and rest and not rest[-1].strip():
            rest.pop()
        placed.append(PlacedCallout(_read_callout(head, lines[index + 1 : end]), len(rest), index))
        is_divided = end < len(lines) and not lines[end].strip()
        index, was_taken = end + is_divided, is_divided
    return "".join(rest), tuple(placed)


def insert_callouts(text: str, placed: Iterable[PlacedCallout]) -> str:
    """Return a text with callouts inserted, with a blank line before and after each."""
    lines = _LINE.findall(text)
    line_end = "\r\n" if "\r\n" in text else "\n"
    parts: list[str] = []
    position = 0
    for place, group in groupby(sorted(placed, key=attrgetter("place")), attrgetter("place")):
        parts += lines[position:place]
        position = place
        block = [[f"{line}{line_end}" for line in format_callout(x.callout)] for x in group]
        for number, callout in enumerate(block):
            if number or place:
                parts += ["" if parts[-1].endswith("\n") else line_end, line_end]
            parts += callout
        parts += [line_end] if place < len(lines) else []
    return "".join([*parts, *lines[position:]])


def format_callout(callout: Callout) -> list[str]:
    """Return a callout's lines, without line ends."""
    author, date, where = (one_line(part) for part in callout.speaker)
    count = "" if callout.our_line_count == 1 else f"|{callout.our_line_count}"
    head = f"> [!conflict{count}] {callout.verb} by {author or _UNKNOWN_AUTHOR}"
    head += (f" on {date}" if date else "") + (f" ({where})" if where else "")
    return [head, *(f"> {line}" if line else ">" for line in callout.lines)]


def _read_callout(head: re.Match[str], lines: Sequence[str]) -> Callout:
    texts = (line.rstrip("\r\n")[1:].removeprefix(" ") for line in lines)
    speaker = Speaker(head[3], head[4] or "", head[5] or "")
    return Callout(head[2], speaker, tuple(texts), int(head[1] or 1))


def _find_code_lines(text: str) -> set[int]:
    numbers: set[int] = set()
    for start, end in find_fences(text, 0):
        first = text.count("\n", 0, start)
        numbers.update(range(first, first + text.count("\n", start, end) + 1))
    return numbers
