"""Divide a JSON text into its items as it is read: an export may have hundreds of megabytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

#: Characters that are read at once, and that one item may have.
_CHUNK, MAX_ITEM = 256 * 1024, 64 * 1024 * 1024

# A text to its end, a bracket, or a text whose end is still to be read.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]|"', re.DOTALL)


def divide_items(read: Callable[[int], str], limit: int = MAX_ITEM) -> Iterator[str | None]:
    """Yield as texts the objects of a JSON array, or those that stand one after the other.

    None stands for one that is larger than `limit` characters, and for what is cut off. Only
    brackets are looked at: an item that is no JSON is one like others.
    """
    text, place, begin = "", 0, 0
    depth = floor = 0  # Items stand in `floor` brackets.
    is_large = False
    while True:
        match = _TOKEN.search(text, place)
        if match is None or match[0] == '"':
            place = len(text) if match is None else match.start()
            is_large = is_large or (depth > floor and len(text) - begin > limit)
            kept = begin if depth > floor and not is_large else place
            text, place, begin = text[kept:], place - kept, 0
            more = "" if len(text) > limit else read(max(_CHUNK, len(text)))
            if not more:
                break
            text += more
            continue
        place = match.end()
        if match[0] in {"[", "{"}:
            if depth == 0:
                floor = int(match[0] == "[")
            if depth == floor:
                begin, is_large = match.start(), False
            depth += 1
        elif match[0] in {"]", "}"} and depth:
            depth -= 1
            if depth == floor:
                yield None if is_large else text[begin:place]
    if depth:
        yield None
