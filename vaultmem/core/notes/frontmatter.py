"""Frontmatter: found by position, read with limits, edited one property at a time.

Reading never builds Python objects from YAML: each value is kept as its own text and the name of
its type. So no tag can run code, `010` stays "010", and an edit knows the exact lines of each
property. The limits are those of docs/reference/vault-format.md.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vaultmem.core.lifecycle import HIDDEN_STATES, State
from vaultmem.core.notes.properties import Property, read_plain_block

MAX_BLOCK_BYTES = 64 * 1024

#: Obsidian's boundary: a line of exactly `---`.
_OPENING = re.compile(r"---[ \t]*\r?$", re.MULTILINE)
_CLOSING = re.compile(r"\n---[ \t]*\r?$", re.MULTILINE)
#: A line that looks like a property, which tells a broken block from prose between two rules.
_NAMED_LINE = re.compile(r"^[ \t]*[\"']?\w[\w .-]{0,63}[\"']?[ \t]*:(?:\s|$)", re.MULTILINE)

#: A line that says a note's state, as far as a line alone can.
_STATE = r"[ \t]*[\"']?state[\"']?[ \t]*:[ \t]*[\"'\[]?(\w+)"
_STATE_LINE = re.compile(rf"^{_STATE}", re.MULTILINE | re.IGNORECASE)
#: Lines that could be properties, down to one that says a state: a block that lost its first line,
#: or is not at the note's start any more. Possessive, so that no long text takes quadratic time.
_LOST_BLOCK = re.compile(
    r"\ufeff?(?>(?:[\w\"'][\w .\"'-]{0,63}:(?:[ \t][^\n]*)?|[ \t]*-[ \t][^\n]*|[ \t]*#?)\r?\n)*?"
    rf"{_STATE}",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_HEAD = 4_096
_STATES = frozenset(state.value for state in State)


class Frontmatter(NamedTuple):
    """Where a note's properties are in its text, and what they are.

    `start` and `end` are character offsets of the block between the two `---` lines, `body` the
    offset behind the closing one. `problem` says why a block could not be read; then there are
    no properties and the block must not be edited. All zero: the text has no frontmatter, or one
    of which nobody can tell where it is.
    """

    start: int = 0
    end: int = 0
    body: int = 0
    properties: tuple[Property, ...] = ()
    problem: str = ""
    warnings: tuple[str, ...] = ()

    def get(self, name: str) -> Property | None:
        """Return the property of this name, or None."""
        return next((item for item in self.properties if item.name == name), None)


def read_frontmatter(text: str) -> Frontmatter:
    """Find and read the frontmatter of a note's text; problems are returned, never raised."""
    span = _find_block(text)
    if span is None:
        lost = "properties stand in it, but not between two lines `---` at its start"
        return Frontmatter(problem=lost if _has_lost_block(text) else "")
    start, end, body = span
    if body < 0:
        looks = _NAMED_LINE.match(text, start) is not None
        return Frontmatter(problem="the frontmatter is never closed" if looks else "")
    return _read_block(text[start:end], Frontmatter(start, end, body))


def find_said_states(text: str, matter: Frontmatter) -> list[str]:
    """Return what lines of a block, or of where one should be, say of the note's state.

    No more than a hint: of a block that cannot be read, and of one that says it twice.
    """
    head = text[matter.start : matter.end or _HEAD]
    return [name for said in _STATE_LINE.findall(head) if (name := said.lower()) in _STATES]


def replace_said_states(text: str, matter: Frontmatter, state: str) -> str:
    """Return the text with another state in each of those lines."""
    start, end = matter.start, matter.end or _HEAD

    def change(line: re.Match[str]) -> str:
        known = line[1].lower() in _STATES
        return line[0][: line.start(1) - line.start()] + state if known else line[0]

    return text[:start] + _STATE_LINE.sub(change, text[start:end]) + text[end:]


def _has_lost_block(text: str) -> bool:
    """Tell whether lines of a text that has no block say a state, as those of a block do.

    For one that hides the note a line anywhere is enough, unless it stands in fenced code.
    """
    head = text[:_HEAD]
    if "state" not in head.lower():
        return False
    for line in _STATE_LINE.finditer(head):
        hides = line[1].lower() in HIDDEN_STATES
        if hides and len(_FENCE.findall(head, 0, line.start())) % 2 == 0:
            return True
    starts = [0, *(match.end() + 1 for match in _OPENING.finditer(head))]
    found = (_LOST_BLOCK.match(head, start) for start in starts)
    return any(match is not None and match[1].lower() in _STATES for match in found)


def _read_block(block: str, place: Frontmatter) -> Frontmatter:
    if len(block.encode("utf-8", "surrogatepass")) > MAX_BLOCK_BYTES:
        limit = MAX_BLOCK_BYTES // 1024
        return _refuse(block, place, f"the frontmatter is larger than {limit} KiB")
    if (plain := read_plain_block(block)) is not None:
        return place._replace(properties=plain)
    from vaultmem.core.notes.yaml_block import UnreadableBlockError, read_yaml_block

    try:
        read = read_yaml_block(block)
    except UnreadableBlockError as problem:
        return _refuse(block, place, str(problem))
    if read is None:  # Unless it is empty, two thematic breaks with text between them.
        return Frontmatter() if block.strip() else place
    return place._replace(properties=read[0], warnings=read[1])


def _refuse(block: str, place: Frontmatter, problem: str) -> Frontmatter:
    if _NAMED_LINE.search(block):
        return place._replace(problem=problem)
    return Frontmatter(warnings=(f"{problem}; all of it was read as body",))


def _find_block(text: str) -> tuple[int, int, int] | None:
    """Return start, end and body offset of the block; a body of -1 if it is not closed."""
    offset = 1 if text.startswith("\ufeff") else 0
    if not _OPENING.match(text, offset):
        return None
    start = _next_line(text, offset)
    closing = _CLOSING.search(text, start - 1)
    if closing is None:
        return start, start, -1
    return start, closing.start() + 1, _next_line(text, closing.end())


def _next_line(text: str, offset: int) -> int:
    newline = text.find("\n", offset)
    return len(text) if newline < 0 else newline + 1
