"""Read a canvas as a note: the texts of its cards and the files on it.

Source: JSON Canvas 1.0 (jsoncanvas.org/spec/1.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from vaultmem.core.notes.encoding import CANVAS, DecodedText, decode_text
from vaultmem.core.text.patterns import compile_later

_ENDING = ".canvas"
_MARK = compile_later(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]')
#: No link contains the start of another, so no card takes quadratic time.
_LINK = compile_later(r"!?\[\[(?:[^\[\]|]*+\|)?([^\[\]]*+)\]\]|!?\[([^\[\]]*+)\]\([^)\[]*+\)")
_FENCE = compile_later(r"^ {0,3}(```|~~~)", re.MULTILINE)
_MAX_HEADING = 60


class CanvasString(NamedTuple):
    """A string of a card: its key (`text` or `file`), and its offsets between the quotes."""

    key: str
    start: int
    end: int


def is_canvas(path: str) -> bool:
    """Return whether a path is that of a canvas."""
    return path[-len(_ENDING) :].lower() == _ENDING


def decode_note(path: str, data: bytes) -> DecodedText:
    """Return a note's text; a canvas becomes links to its files and a heading for each card.

    Raises:
        ValueError: a canvas is not JSON, or not the JSON of a canvas.
    """
    if not is_canvas(path):
        return decode_text(data)
    nodes = _read_nodes(data)
    files = [_link(node) for node in nodes if node.get("file") and isinstance(node["file"], str)]
    cards = [_write_card(node["text"]) for node in nodes if isinstance(node.get("text"), str)]
    others = [node[key] for key in ("label", "url") for node in nodes if key in node]
    labels = [each for each in others if isinstance(each, str) and each.strip()]
    blocks = [f"# {PurePosixPath(path).stem}", "\n".join(files), "\n".join(labels), *cards]
    return DecodedText("\n\n".join(filter(None, blocks)) + "\n", CANVAS)


def find_strings(text: str) -> Iterator[CanvasString]:
    """Yield the strings of a canvas's JSON that are a card's text or file."""
    above: list[str] = []
    keys: list[str] = []
    is_key = False
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark in "{[":
            above.append(mark)
            keys.append("")
            is_key = mark == "{"
        elif mark in "}]":
            above.pop()
            keys.pop()
            is_key = False
        elif mark in ":,":
            is_key = mark == "," and above[-1:] == ["{"]
        elif is_key:
            keys[-1] = json.loads(mark)
        elif above == ["{", "[", "{"] and keys[0] == "nodes" and keys[2] in {"text", "file"}:
            yield CanvasString(keys[2], match.start() + 1, match.end() - 1)


def _read_nodes(data: bytes) -> list[dict[str, Any]]:
    if not data.strip():  # A new canvas of Obsidian is empty.
        return []
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON, so its cards are not read") from None
    nodes = value.get("nodes", []) if isinstance(value, dict) else None
    if not isinstance(nodes, list):
        raise ValueError("it is not the JSON of a canvas")
    return [node for node in nodes if isinstance(node, dict)]


def _link(node: dict[str, Any]) -> str:
    from vaultmem.core.notes.link_syntax import link_to

    file, subpath = node["file"], node.get("subpath")
    return link_to(file, subpath if isinstance(subpath, str) else "")


def _write_card(text: str) -> str:
    """Return a card as a section, under its own heading or else its first words."""
    text = text.strip()
    if len(_FENCE.findall(text)) % 2:  # An open fence must not include the next card.
        text += "\n" + _FENCE.findall(text)[-1]
    if not text or text.startswith("#"):
        return text
    words = _LINK.sub(lambda link: link[1] or link[2], text.split("\n", 1)[0]).strip("#>*_- ")
    short = words if len(words) <= _MAX_HEADING else words[:_MAX_HEADING].rpartition(" ")[0] + " …"
    return f"## {short or 'Card'}\n\n{text}"
