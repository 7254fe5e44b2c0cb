"""JSON as programs keep settings in it, by position: with comments and trailing commas."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from vaultmem.errors import RefusedError

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|\ufeff)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")
_MAX_DEPTH = 64


class Node(NamedTuple):
    """A value and where it stands; `members` of an object as (key's start, key, value)."""

    start: int
    end: int
    value: Any
    members: tuple[tuple[int, str, Node], ...] = ()
    items: tuple[Node, ...] = ()

    def get(self, name: str) -> Node | None:
        """Return the value of a key; of one that is there twice, the last, as programs read it."""
        found = [node for _, key, node in self.members if key == name]
        return found[-1] if found else None

    @property
    def is_object(self) -> bool:
        """Tell whether it is an object."""
        return isinstance(self.value, dict)


def read_jsonc(text: str) -> Node:
    """Return the one value of a text.

    Raises:
        RefusedError: it is no JSON, comments and trailing commas allowed.
    """
    node, end = _read(text, _skip(text, 0), 0)
    if _skip(text, end) != len(text):
        raise _refuse(text, end)
    return node


def set_member(text: str, path: tuple[str, ...], name: str, value: Any) -> str:
    """Return the text with a key set in the object at `path`, which is made where it is missing.

    All other bytes stay.

    Raises:
        RefusedError: the text is no JSON, or something at `path` is no object.
    """
    if not text.strip("\ufeff \t\r\n"):
        text = "{}\n"
    node, rest = _descend(read_jsonc(text), path)
    for key in reversed(rest):
        name, value = key, {name: value}
    old = node.get(name)
    if old is not None and old.value == value:
        return text
    if old is not None:
        start = text.rfind("\n", 0, old.start) + 1
        line = text[start : old.start]
        indent = line[: len(line) - len(line.lstrip())]
        return text[: old.start] + _dump(value, indent, text) + text[old.end :]
    return _insert(text, node, f"{json.dumps(name, ensure_ascii=False)}: ", value)


def remove_member(text: str, path: tuple[str, ...], name: str) -> str:
    """Return the text without a key of the object at `path`; unchanged if it is not there."""
    node, rest = _descend(read_jsonc(text), path)
    keys = [key for _, key, _ in node.members]
    if rest or name not in keys:
        return text
    place = keys.index(name)
    spans = [(start, value.end) for start, _, value in node.members]
    return _cut(text, node, spans, place)


def append_item(text: str, path: tuple[str, ...], value: Any) -> str:
    """Return the text with one more item in the list at `path`, which is made where it is missing.

    Raises:
        RefusedError: the text is no JSON, or something on the way is of another kind.
    """
    if not text.strip("\ufeff \t\r\n"):
        text = "{}\n"
    node, rest = _descend(read_jsonc(text), path[:-1])
    found = None if rest else node.get(path[-1])
    if found is None:
        return set_member(text, path[:-1], path[-1], [value])
    if not isinstance(found.value, list):
        raise RefusedError(f'"{".".join(path)}" is not a list; correct it by hand')
    return _insert(text, found, "", value)


def remove_items(text: str, path: tuple[str, ...], mark: str) -> str:
    """Return the text without the items of the list at `path` that hold `mark` in some text."""
    while True:
        node, rest = _descend(read_jsonc(text), path[:-1])
        found = None if rest else node.get(path[-1])
        items = found.items if found is not None else ()
        places = [n for n, item in enumerate(items) if mark in json.dumps(item.value)]
        if found is None or not places:
            return text
        text = _cut(text, found, [(item.start, item.end) for item in items], places[0])


def _descend(node: Node, path: tuple[str, ...]) -> tuple[Node, tuple[str, ...]]:
    """Return the object at `path`, or the last one on the way, and what of the path is missing."""
    for depth, key in enumerate(path):
        if not node.is_object:
            break
        inner = node.get(key)
        if inner is None:
            return node, path[depth:]
        node = inner
    if not node.is_object:
        raise RefusedError(
            f'"{".".join(path) or "the whole"}" is not an object; correct it by hand'
        )
    return node, ()


def _insert(text: str, node: Node, key: str, value: Any) -> str:
    """Put a member or item behind the last one, in the style of those before it."""
    spans = [(start, each.end) for start, _, each in node.members]
    spans = spans or [(item.start, item.end) for item in node.items]
    eol = _line_end(text)
    if not spans:
        line = text[text.rfind("\n", 0, node.start) + 1 : node.start]
        outer = line[: len(line) - len(line.lstrip())]
        inner = outer + _unit(text)
        inside = text[node.start + 1 : node.end - 1].rstrip()
        new = f"{inside}{eol}{inner}{key}{_dump(value, inner, text)}{eol}{outer}"
        return text[: node.start + 1] + new + text[node.end - 1 :]
    start, end = spans[-1]
    before = text[text.rfind("\n", 0, start) + 1 : start]
    comma = "" if text.startswith(",", _skip(text, end)) else ","
    if before.strip():  # Members are in one line.
        return f"{text[:end]}, {key}{json.dumps(value, ensure_ascii=False)}{text[end:]}"
    # Behind what else is in the last one's line: its comma, a comment.
    rest = re.compile(r"[ \t]*,?[ \t]*(?://[^\n]*|/\*[^\n]*?\*/[ \t]*)?(?=\r?\n)").match(text, end)
    stop = rest.end() if rest else end
    new = f"{eol}{before}{key}{_dump(value, before, text)}{'' if comma else ','}"
    return text[:end] + comma + text[end:stop] + new + text[stop:]


def _cut(text: str, node: Node, spans: list[tuple[int, int]], place: int) -> str:
    """Take one member or item out, with one of the commas around it; comments stay."""
    start, end = spans[place]
    after = _skip(text, end)
    if place:
        last = spans[place - 1][1]
        if text.startswith(",", after):
            between, rest = text[last:start], text[end:after] + text[after + 1 :]
        else:
            comma = _skip(text, last)
            between, rest = text[last:comma] + text[comma + 1 : start], text[end:]
        kept = between.rstrip()
        if "//" in kept.rpartition("\n")[2] and not rest.lstrip(" \t").startswith(("\r", "\n")):
            kept += _line_end(text)  # What follows would become a comment.
        return text[:last] + kept + rest
    if len(spans) > 1:
        return text[:start] + (text[end:after] + text[after + 1 :]).lstrip()
    end = after + 1 if text.startswith(",", after) else end
    if not (text[node.start + 1 : start] + text[end : node.end - 1]).strip():
        return text[: node.start + 1] + text[node.end - 1 :]
    return text[:start].rstrip(" \t") + text[end:].lstrip(" \t")


def _dump(value: Any, indent: str, text: str) -> str:
    """Return a value as JSON in lines as the text has them, all but the first behind `indent`."""
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False)
    return lines.replace("\n", f"{_line_end(text)}{indent}")


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    """Return by how much the text indents its first level."""
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found[1] if found else "  "


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _read(text: str, at: int, depth: int) -> tuple[Node, int]:
    if depth > _MAX_DEPTH:
        raise RefusedError("the settings are nested too deep; correct them by hand")
    if text.startswith("{", at):
        return _read_object(text, at, depth)
    if text.startswith("[", at):
        return _read_list(text, at, depth)
    found = _STRING.match(text, at) or _SCALAR.match(text, at)
    if found is None:
        raise _refuse(text, at)
    try:
        return Node(at, found.end(), json.loads(found[0])), found.end()
    except ValueError:
        raise _refuse(text, at) from None


def _read_object(text: str, at: int, depth: int) -> tuple[Node, int]:
    members = []
    place = _skip(text, at + 1)
    while not text.startswith("}", place):
        key = _STRING.match(text, place)
        colon = _skip(text, key.end()) if key else place
        if key is None or not text.startswith(":", colon):
            raise _refuse(text, place)
        node, end = _read(text, _skip(text, colon + 1), depth + 1)
        members.append((place, json.loads(key[0]), node))
        place = _next(text, end, "}")
    value = {name: node.value for _, name, node in members}
    return Node(at, place + 1, value, members=tuple(members)), place + 1


def _read_list(text: str, at: int, depth: int) -> tuple[Node, int]:
    items = []
    place = _skip(text, at + 1)
    while not text.startswith("]", place):
        node, end = _read(text, place, depth + 1)
        items.append(node)
        place = _next(text, end, "]")
    return Node(at, place + 1, [each.value for each in items], items=tuple(items)), place + 1


def _next(text: str, end: int, close: str) -> int:
    """Return where the next member or the end stands; a comma before the end is allowed."""
    place = _skip(text, end)
    if text.startswith(",", place):
        return _skip(text, place + 1)
    if not text.startswith(close, place):
        raise _refuse(text, place)
    return place


def _refuse(text: str, at: int) -> RefusedError:
    line = text.count("\n", 0, at) + 1
    return RefusedError(f"line {line} of the settings is no JSON; correct it by hand")
