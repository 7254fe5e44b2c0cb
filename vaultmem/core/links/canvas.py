"""The links of a canvas, each with its place in the JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from vaultmem.core.links.link import Link, LinkKind, find_links
from vaultmem.core.notes.canvas import find_strings
from vaultmem.core.notes.frontmatter import Frontmatter

#: What of a JSON string is one character.
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)


def find_canvas_links(text: str) -> Iterator[Link]:
    """Yield the files of a canvas, and the links in its cards' text, with their places in `text`.

    `line` is that of the JSON. What is no JSON has none.
    """
    try:
        strings = list(find_strings(text)) if json.loads(text) else []
    except (ValueError, RecursionError):
        return
    for key, start, end in strings:
        line = text.count("\n", 0, start) + 1
        value = json.loads(text[start - 1 : end + 1])
        if key == "file":
            yield Link(LinkKind.PATH, value, "", "", start, end, line)
            continue
        found = find_links(value, Frontmatter())
        places = [match.start() for match in _CHARACTER.finditer(text, start, end)] if found else []
        places.append(end)
        for link in found:
            yield link._replace(start=places[link.start], end=places[link.end], line=line)
