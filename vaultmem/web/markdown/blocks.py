"""Blocks: mathematics, and what is too much, or nested too deeply, to be shown as such."""

from __future__ import annotations

from markdown_it.rules_block import StateBlock

#: How deep quotes and lists (two levels each) are shown as such.
MAX_DEPTH = 60
#: How many beginnings and ends of blocks a text may have, and texts in them.
MAX_TOKENS = 60_000


class TooLargeError(Exception):
    """A text has too much in it to be shown as anything but text."""


def check_bounds(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read as code what is nested too deeply, so that it does not vanish.

    Raises:
        TooLargeError: there are too many blocks.
    """
    if len(state.tokens) > MAX_TOKENS:
        raise TooLargeError
    if silent or state.level < MAX_DEPTH:
        return False
    token = state.push("code_block", "code", 0)
    token.content = state.getLines(start, end, state.blkIndent, True)
    token.map = [start, end]
    state.line = end
    return True


def read_math_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read lines from one that begins with `$$` to one that ends with it."""
    place = state.bMarks[start] + state.tShift[start]
    if not state.src.startswith("$$", place) or state.is_code_block(start):
        return False
    last = _find_end(state, start, end, place)
    if last < 0:
        return False
    if not silent:
        token = state.push("math_block", "div", 0)
        token.content = state.getLines(start, last + 1, state.blkIndent, False)
        token.map = [start, last + 1]
        state.line = last + 1
    return True


def _find_end(state: StateBlock, start: int, end: int, place: int) -> int:
    """Return the line where mathematics end, -1 if none does."""
    if state.env.get("math_ends", end) <= start:
        return -1
    for line in range(start, end):
        text = state.src[place if line == start else state.bMarks[line] : state.eMarks[line]]
        text = text.rstrip()
        if text.endswith("$$") and (line > start or len(text) > 3):
            return line
        if line > start and state.sCount[line] < state.blkIndent and text:
            return -1
    if not state.level:
        state.env["math_ends"] = start  # None ends behind here: the next ones need not look.
    return -1
