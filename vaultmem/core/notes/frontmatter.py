"""Frontmatter: found by position, read with limits, edited one property at a time.

Reading never builds Python objects from YAML: each value is kept as its own text and the name of
its type. So no tag can run code, `010` stays "010", and an edit knows the exact lines of each
property. The limits are those of docs/reference/vault-format.md.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vaultmem.core.notes.properties import Property, read_plain_block
from vaultmem.core.notes.state_hints import (
    HEAD,
    STATES,
    find_foreign_block,
    find_hint,
    find_state_lines,
    has_lost_lines,
    has_names,
    may_hide,
    replace_state_lines,
    starts_with_name,
)

MAX_BLOCK_BYTES = 64 * 1024

#: Obsidian's boundary: a line of exactly `---`.
_OPENING = re.compile(r"---[ \t]*\r?$", re.MULTILINE)
_CLOSING = re.compile(r"\n---[ \t]*\r?$", re.MULTILINE)
_LOST = "properties stand in it, but not between two lines `---` at its start"


class Frontmatter(NamedTuple):
    """Where a note's properties are in its text, and what they are.

    `start` and `end` are character offsets of the block between the two `---` lines, `body` the
    offset behind the closing one. `problem` says why a block could not be read; then there are
    no properties and the block must not be edited. All zero: the text has no frontmatter, or one
    of which nobody can tell where it is. `states` are those that a block of more than plain lines
    gives under any spelling of `state`.
    """

    start: int = 0
    end: int = 0
    body: int = 0
    properties: tuple[Property, ...] = ()
    problem: str = ""
    warnings: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    def get(self, name: str) -> Property | None:
        """Return the property of this name, or None."""
        return next((item for item in self.properties if item.name == name), None)


_NONE = Frontmatter()


def read_frontmatter(text: str) -> Frontmatter:
    """Find and read the frontmatter of a note's text; problems are returned, never raised."""
    span = _find_block(text)
    if span is None:
        return _read_lost(text, _LOST)
    start, end, body = span
    if body < 0:
        problem = "the frontmatter is never closed"
        lost = _read_lost(text, problem)
        return lost._replace(problem=problem) if starts_with_name(text, start) else lost
    read = _read_block(text[start:end], Frontmatter(start, end, body))
    lost = _NONE if read.body else _read_lost(text, _LOST)  # Text between two thematic breaks.
    return lost if lost.problem else read


def find_said_states(text: str, matter: Frontmatter) -> list[str]:
    """Return the states that a block, or the text where one should be, gives in any spelling.

    No more than a hint: of a block that cannot be read, and of one that says it twice.
    """
    head = text[matter.start : matter.end or HEAD]
    return [*find_state_lines(head), *(each for each in matter.states if each in STATES)]


def replace_said_states(text: str, matter: Frontmatter, state: str) -> str:
    """Return the text with another state in each line that gives one."""
    return replace_state_lines(text, matter.start, matter.end, state)


def _read_lost(text: str, problem: str) -> Frontmatter:
    """Return what is wrong with a text that has no block: its properties are somewhere else."""
    head = text[:HEAD]
    if "\r" in head:
        head = head.replace("\r\n", "\n").replace("\r", "\n")
    states: tuple[str, ...] = ()
    is_lost = has_lost_lines(head)
    if block := find_foreign_block(head):
        hint = find_hint(block, _find_states(block))
        is_lost, states = is_lost or hint.is_hidden, hint.states
    return Frontmatter(problem=problem, states=states) if is_lost else _NONE


def _find_states(block: str) -> tuple[str, ...]:
    from vaultmem.core.notes.yaml_block import find_states

    return find_states(block)


def _read_block(block: str, place: Frontmatter) -> Frontmatter:
    if len(block.encode("utf-8", "surrogatepass")) > MAX_BLOCK_BYTES:
        limit = MAX_BLOCK_BYTES // 1024
        return _refuse(block, place, f"the frontmatter is larger than {limit} KiB")
    if (plain := read_plain_block(block)) is not None:
        return place._replace(properties=plain)
    from vaultmem.core.notes.yaml_block import UnreadableBlockError, read_yaml_block

    try:
        read = read_yaml_block(block)
    except UnreadableBlockError as error:
        return _refuse(block, place, str(error), error.is_mapping)
    states = _find_states(block) if may_hide(block) else ()
    if read is not None:
        return place._replace(properties=read[0], warnings=read[1], states=states)
    hint = find_hint(block, states)
    if hint.is_hidden:
        problem = "the frontmatter gives a state, but not as a property"
        return place._replace(problem=problem, states=hint.states)
    # Unless it is empty, two thematic breaks with text between them.
    return Frontmatter() if block.strip() else place


def _refuse(block: str, place: Frontmatter, problem: str, is_mapping: bool = False) -> Frontmatter:
    """Return what a block that is not read is: properties, which it may hold, or else text."""
    hint = find_hint(block, _find_states(block))
    if is_mapping or hint.is_hidden or has_names(block):
        return place._replace(problem=problem, states=hint.states)
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
