"""The state that a text gives its note where YAML alone does not decide it.

Other programs read frontmatter by other rules: another version of YAML, TOML or JSON, other line
ends, leading blank lines. So of a block that is not read here, each spelling of a state counts that
hides the note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from vaultmem.core.lifecycle import HIDDEN_STATES, State

#: Characters of a text in which its properties are looked for.
HEAD = 64 * 1024
#: Characters of a text without a block in which a line of the state is rewritten.
_REWRITTEN = 4_096

STATES = frozenset(state.value for state in State)

_HIDING = "|".join(sorted(HIDDEN_STATES))
_LINE = r"[ \t]*[\"']?state[\"']?[ \t]*:[ \t]*[\"'\[]?(\w+)"
#: A line that gives the state, as far as a line alone can tell.
_STATE_LINE = re.compile(rf"^{_LINE}", re.MULTILINE | re.IGNORECASE)
#: Lines that could be properties, down to one that gives a state: a block that lost its first line,
#: or is not at the note's start any more. Possessive, so that no long text takes quadratic time.
_LOST_BLOCK = re.compile(
    r"\ufeff?(?>(?:[\w\"'][\w .\"'-]{0,63}:(?:[ \t][^\n]*)?|[ \t]*-[ \t][^\n]*|[ \t]*#?)\r?\n)*?"
    rf"{_LINE}",
    re.IGNORECASE,
)
_RULE = re.compile(r"\n---[ \t]*\r?(?=\n)")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)

#: A state that hides the note, in YAML, TOML or JSON, or with a slip of the pen.
_GIVEN = re.compile(rf"(?<![\w-])state[\"'\s]*[:=][\"'\s\[>|-]*({_HIDING})(?!\w)", re.IGNORECASE)
_HIDES = re.compile(_HIDING, re.IGNORECASE)
_QUARANTINED = re.compile(rf"\b{State.QUARANTINED.value}\b", re.IGNORECASE)

#: A line that looks like a property, and the start of a mapping in one line: they tell a broken
#: block from prose between two rules.
_KEY = r"(?:\"[^\"\n]{1,99}\"|'[^'\n]{1,99}'|[\"']?\w[\w .-]{0,63}[\"']?)"
_MARKS = r"(?:[&!]\S{0,99}[ \t]+){0,3}"
_NAMED_LINE = re.compile(rf"^[ \t]*{_MARKS}{_KEY}[ \t]*:(?:\s|$)", re.MULTILINE)
_FLOW = re.compile(rf"\s*{_MARKS}\{{\s*{_MARKS}{_KEY}\s*:")

#: Letters as YAML, TOML and JSON escape them in quotes, and a line that goes on in the next.
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|\r?\n[ \t]*)")

#: The first line of a block as other programs take one, and how it ends. JSON has no such line.
_OPENING = re.compile(r"\ufeff?\s*(?:(-{3}|\+{3}|;{3})-*\w*[ \t]*\n|(?=\{))")
_CLOSING = {
    "-": re.compile(r"^(?:-{3,}|\.{3})[ \t]*$", re.MULTILINE),
    "+": re.compile(r"^\+{3}[ \t]*$", re.MULTILINE),
    ";": re.compile(r"^;{3}[ \t]*$", re.MULTILINE),
}


class Hint(NamedTuple):
    """States that a text gives its note, in any spelling; `is_hidden` tells whether it may be."""

    states: tuple[str, ...]
    is_hidden: bool


def find_state_lines(head: str) -> list[str]:
    """Return the states that lines of a text give."""
    return [name for said in _STATE_LINE.findall(head) if (name := said.lower()) in STATES]


def replace_state_lines(text: str, start: int, end: int, state: str) -> str:
    """Return a text with another state in those lines of a block; of none (0), of its head."""
    end = end or _REWRITTEN

    def change(line: re.Match[str]) -> str:
        known = line[1].lower() in STATES
        return line[0][: line.start(1) - line.start()] + state if known else line[0]

    return text[:start] + _STATE_LINE.sub(change, text[start:end]) + text[end:]


def has_names(block: str) -> bool:
    """Tell whether a text has a line that looks like a property, or begins as a mapping does."""
    return _NAMED_LINE.search(block) is not None or _FLOW.match(block) is not None


def starts_with_name(text: str, start: int) -> bool:
    """Tell whether a property stands at a place of a text, as far as can be told."""
    return bool(_NAMED_LINE.match(text, start) or _FLOW.match(text, start))


def may_hide(block: str) -> bool:
    """Tell whether a block names a state that hides a note, whatever for."""
    return _HIDES.search(_unescape(block)) is not None


def find_hint(block: str, given: tuple[str, ...] = ()) -> Hint:
    """Return what a block that is not read says of the state; `given` are those that YAML gives."""
    plain = _unescape(block)
    states = (*given, *(match[1].lower() for match in _GIVEN.finditer(plain)))
    hides = any(state in HIDDEN_STATES for state in states)
    return Hint(states, hides or _QUARANTINED.search(plain) is not None)


def find_foreign_block(text: str) -> str:
    """Return the block of a text that begins as other programs' frontmatter does, "" if none."""
    first = text[:1]
    opening = _OPENING.match(text) if first in "-+;{\ufeff" or first.isspace() else None
    if opening is None:
        return ""
    start = opening.end()
    if not opening[1]:
        return _cut_json(text, start)
    if closing := _CLOSING[opening[1][0]].search(text, start):
        return text[start : closing.start()]
    return _cut_paragraph(text, start) if starts_with_name(text, start) else ""


def _cut_json(text: str, start: int) -> str:
    """Return the JSON object that begins at a place; of what is none, the first paragraph."""
    import json

    try:
        return text[start : json.JSONDecoder().raw_decode(text, start)[1]]
    except (ValueError, RecursionError):
        return _cut_paragraph(text, start)


def _cut_paragraph(text: str, start: int) -> str:
    return text[start:].partition("\n\n")[0]


def has_lost_lines(head: str) -> bool:
    """Tell whether lines of a text that has no block give a state, as those of a block do.

    For one that hides the note a line anywhere is enough, unless it is in fenced code.
    """
    lowered = head.lower()
    if "state" not in lowered:
        return False
    if any(state in lowered for state in HIDDEN_STATES) and any(
        state in HIDDEN_STATES for state in _list_outside_code(head)
    ):
        return True
    head = f"\n{head}"
    starts = [1, *(rule.end() + 1 for rule in _RULE.finditer(head))]
    found = (_LOST_BLOCK.match(head, start) for start in starts)
    return any(match is not None and match[1].lower() in STATES for match in found)


def _list_outside_code(head: str) -> Iterator[str]:
    place, fences = 0, 0
    for line in _STATE_LINE.finditer(head):
        fences += len(_FENCE.findall(head, place, line.start()))
        place = line.start()
        if fences % 2 == 0:
            yield line[1].lower()


def _unescape(text: str) -> str:
    """Return a text with the letters that it escapes."""
    if "\\" not in text:
        return text

    def read(escape: re.Match[str]) -> str:
        number = int(escape[1] or escape[2] or escape[3] or "0", 16)
        return chr(number) if 0 < number < 0x11_0000 else ""

    return _ESCAPE.sub(read, text)
