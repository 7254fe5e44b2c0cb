"""Edit settings in JSON, TOML and YAML by position; all other bytes stay.

A value can be removed again without a trace, and no state is kept for that: the text itself shows
whether an object, a list or the whole file was made for it (`set_value`).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from vaultmem.errors import RefusedError

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|\ufeff)*", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")
_MAX_DEPTH = 64

#: Characters of a blank text, with the byte order mark.
_BLANKS = "\ufeff \t\r\n"

#: The end of a text that was blank, to distinguish it from a missing file.
_WAS_BLANK = "\n\n"

#: Keys of objects and indexes of lists, from the root to a value.
Path = tuple[str | int, ...]


class JsonNode(NamedTuple):
    """A value and its position; an object's `members` are (key's start, key, value)."""

    start: int
    end: int
    value: Any
    members: tuple[tuple[int, str, JsonNode], ...] = ()
    items: tuple[JsonNode, ...] = ()

    def get(self, name: str) -> JsonNode | None:
        """Return the value of a key; the last one if it occurs twice, as programs read it."""
        nodes = [node for _, key, node in self.members if key == name]
        return nodes[-1] if nodes else None

    @property
    def is_object(self) -> bool:
        """Return whether it is an object."""
        return isinstance(self.value, dict)


def read_jsonc(text: str) -> JsonNode:
    """Return the value of a text.

    Raises:
        RefusedError: it is not JSON (with comments and trailing commas).
    """
    node, end = _read(text, _skip(text, 0), 0)
    if _skip(text, end) != len(text):
        raise _reject(text, end)
    return node


def set_value(
    text: str | None, path: Path, value: Any, head: Mapping[str, Any] | None = None
) -> str:
    """Return the text with a value at `path`; missing objects are created.

    All other bytes stay. A new value is the first in its object or list, in one piece after the
    bracket, so that `remove_value` can remove it exactly. It directly follows the bracket of an
    empty object that existed; in a new object, it starts on a line of its own. `head` are other
    values of a new file. Without a file, `text` must be None.

    Raises:
        RefusedError: the text is not JSON, or a value on the path has another type.
    """
    if text is None or not text.strip(_BLANKS):
        whole = _dump({**(head or {}), **_wrap(path, value)}, "", text or "")
        return f"{whole}\n" if text is None else f"{text}{whole}{_WAS_BLANK}"
    node = read_jsonc(text)
    for depth, key in enumerate(path):
        inner = _step(node, path, depth)
        if inner is None:
            name = f"{json.dumps(key, ensure_ascii=False)}: "
            return _insert(text, node, name, _wrap(path[depth + 1 :], value))
        node = inner
    if node.value == value:
        return text
    return text[: node.start] + _dump(value, _indent(text, node.start), text) + text[node.end :]


def add_item(text: str | None, path: Path, item: Any, head: Mapping[str, Any] | None = None) -> str:
    """Return the text with a new first item in the list at `path`, as `set_value` does.

    Raises:
        RefusedError: the text is not JSON, or a value on the path has another type.
    """
    node = find_node(text, path)
    if text is None or node is None:
        return set_value(text, path, [item], head)
    if not isinstance(node.value, list):
        raise RefusedError(f'"{".".join(map(str, path))}" is not a list; correct it by hand')
    return _insert(text, node, "", item)


def find_node(text: str | None, path: Path) -> JsonNode | None:
    """Return the value at `path`, or None if it is missing.

    Raises:
        RefusedError: the text is not JSON, or a value on the path has another type.
    """
    node = read_jsonc(text) if text and text.strip(_BLANKS) else None
    for depth in range(len(path)):
        node = _step(node, path, depth) if node else None
    return node


def remove_value(text: str, path: Path, head: Mapping[str, Any] | None = None) -> str | None:
    """Return the text without the value at `path`, and without objects made for it.

    None if that is the whole file: it was created for the value, with `head`.
    """
    nodes = [read_jsonc(text)]
    for depth in range(len(path)):
        if (inner := _step(nodes[-1], path, depth)) is None:
            return text
        nodes.append(inner)
    depth = len(path) - 1
    while depth >= 0 and _is_made(text, nodes[depth], {} if depth else head or {}):
        depth -= 1
    if depth >= 0:
        return _slice(text, nodes[depth], nodes[depth + 1])
    before, after = text[: nodes[0].start], text[nodes[0].end :]
    if (before + after).strip(_BLANKS):
        return f"{before}{{}}{after}"
    return before if after == _WAS_BLANK else None


def _step(node: JsonNode, path: Path, depth: int) -> JsonNode | None:
    """Return the value of a key or index of the path, or None if it is missing."""
    key = path[depth]
    if isinstance(key, int):
        return node.items[key]
    if not node.is_object:
        location = ".".join(map(str, path[:depth]))
        subject = f'"{location}" is' if location else "the settings are"
        raise RefusedError(f"{subject} not a JSON object; correct it by hand")
    return node.get(key)


def _wrap(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _children(node: JsonNode) -> list[tuple[int, int]]:
    """Return the spans of members (from their keys) or items."""
    members = [(start, value.end) for start, _, value in node.members]
    return members or [(item.start, item.end) for item in node.items]


def _insert(text: str, node: JsonNode, key: str, value: Any) -> str:
    """Insert a member or item after the bracket, in the style of the first one."""
    start = node.start + 1
    gap = ""
    if _children(node):
        rest = text[start : node.end]
        gap = rest[: len(rest) - len(rest.lstrip())]
    indent = gap.rpartition("\n")[2] if "\n" in gap else _indent(text, node.start)
    comma = "," if _children(node) else ""
    return f"{text[:start]}{gap}{key}{_dump(value, indent, text)}{comma}{text[start:]}"


def _is_made(text: str, node: JsonNode, head: Mapping[str, Any]) -> bool:
    """Return whether an object or list was made for its only value (and `head`)."""
    spans = _children(node)
    heads = [(key, value.value) for _, key, value in node.members[: len(head)]]
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    gaps = zip([node.start + 1, *ends], [*starts, node.end - 1], strict=True)
    return (
        len(spans) == len(head) + 1
        and heads == list(head.items())
        and text[node.start + 1].isspace()
        and not "".join(text[start:end] for start, end in gaps).strip(", \t\r\n")
    )


def _slice(text: str, node: JsonNode, child: JsonNode) -> str:
    """Remove one member or item, with one of the commas around it; comments stay."""
    spans = _children(node)
    place = next(n for n, (_, end) in enumerate(spans) if end == child.end)
    start, end = spans[place]
    after = _skip(text, end)
    has_comma = text.startswith(",", after)
    rest = text[end:after] + text[after + 1 :] if has_comma else text[end:]
    if not place:
        head = text[node.start + 1 : start]
        if head.strip():  # A comment comes before it, and stays.
            return text[:start] + rest.lstrip(" \t\r\n" if len(spans) > 1 else " \t")
        return text[: node.start + 1] + rest
    last = spans[place - 1][1]
    comma = _skip(text, last)
    between = text[last:start] if has_comma else text[last:comma] + text[comma + 1 : start]
    middle = between.rstrip()
    if "//" in middle.rpartition("\n")[2] and not rest.lstrip(" \t").startswith(("\r", "\n")):
        middle += _line_end(text)  # The next text would become a comment.
    return text[:last] + middle + rest


def _dump(value: Any, indent: str, text: str) -> str:
    """Return a value as JSON in the text's style, lines after the first indented by `indent`."""
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False)
    return lines.replace("\n", f"{_line_end(text)}{indent}")


def _indent(text: str, position: int) -> str:
    """Return the indentation of a position's line."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    """Return the indentation of the text's first level."""
    match = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return match[1] if match else "  "


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _read(text: str, position: int, depth: int) -> tuple[JsonNode, int]:
    if depth > _MAX_DEPTH:
        raise RefusedError("the settings are nested too deep; correct them by hand")
    if text.startswith("{", position):
        return _read_object(text, position, depth)
    if text.startswith("[", position):
        return _read_list(text, position, depth)
    match = _STRING.match(text, position) or _SCALAR.match(text, position)
    if match is None:
        raise _reject(text, position)
    try:
        return JsonNode(position, match.end(), json.loads(match[0])), match.end()
    except ValueError:
        raise _reject(text, position) from None


def _read_object(text: str, position: int, depth: int) -> tuple[JsonNode, int]:
    members = []
    place = _skip(text, position + 1)
    while not text.startswith("}", place):
        key = _STRING.match(text, place)
        colon = _skip(text, key.end()) if key else place
        if key is None or not text.startswith(":", colon):
            raise _reject(text, place)
        node, end = _read(text, _skip(text, colon + 1), depth + 1)
        members.append((place, json.loads(key[0]), node))
        place = _next(text, end, "}")
    value = {name: node.value for _, name, node in members}
    return JsonNode(position, place + 1, value, members=tuple(members)), place + 1


def _read_list(text: str, position: int, depth: int) -> tuple[JsonNode, int]:
    items = []
    place = _skip(text, position + 1)
    while not text.startswith("]", place):
        node, end = _read(text, place, depth + 1)
        items.append(node)
        place = _next(text, end, "]")
    return JsonNode(
        position, place + 1, [each.value for each in items], items=tuple(items)
    ), place + 1


def _next(text: str, end: int, close: str) -> int:
    """Return the position of the next member or the end; a comma before the end is allowed."""
    place = _skip(text, end)
    if text.startswith(",", place):
        return _skip(text, place + 1)
    if not text.startswith(close, place):
        raise _reject(text, place)
    return place


def _reject(text: str, position: int) -> RefusedError:
    line = text.count("\n", 0, position) + 1
    return RefusedError(f"line {line} of the settings is not JSON; correct it by hand")


# One table of a TOML file, edited by position: every other byte stays. A table in another form than
# ours is not found; `client_settings` checks the result.

_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def read_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text.

    Raises:
        RefusedError: it is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise RefusedError(f"the settings are not TOML ({error}); correct them by hand") from None


def set_table(text: str | None, name: tuple[str, str], values: dict[str, Any]) -> str:
    """Return the text with these values in the named table; a new table is added at the end.

    The table's other values stay. One line end precedes a new table, so that `remove_table` knows
    what to remove. Without a file (`text=None`), nothing precedes it.
    """
    span = _find(text or "", name)
    if text is None or span is None:
        eol = _line_end(text or "")
        lines = [f"[{name[0]}.{name[1]}]", *(_write(*each) for each in values.items())]
        return f"{'' if text is None else text + eol}{eol.join(lines)}{eol}"
    body = text[span[0] : span[1]]
    for key, value in values.items():
        body = _set_key(body, key, value)
    return text[: span[0]] + body + text[span[1] :]


def remove_table(text: str, name: tuple[str, str]) -> str | None:
    """Return the text without the table and those below it; None if the file was made for it."""
    while (span := _find(text, name, is_below=True)) is not None:
        # Blank lines before it separate it from the text above.
        above = re.sub(r"(?<=\n)(?:[ \t]*\r?\n)+\Z", "", text[: span[0]])
        text = above + text[span[1] :]
    if (span := _find(text, name)) is not None:
        before, after = text[: span[0]], text[span[1] :]
        if not before + after:
            return None
        shorter = before.removesuffix("\n").removesuffix("\r")
        # The line end before it is ours, unless the rest would be joined into one line.
        if shorter[-1:] in ("", "\n", "\ufeff") or after[:1] in ("", "\r", "\n"):
            before = shorter
        text = before + after
    return text


def _find(text: str, name: tuple[str, str], is_below: bool = False) -> tuple[int, int] | None:
    """Return the span of a table; with `is_below`, of the first table below it."""
    below = r"\.[^\n]*" if is_below else ""
    header = re.compile(
        rf"^[ \t]*\[\[?[ \t]*\"?{re.escape(name[0])}\"?[ \t]*\.[ \t]*"
        rf"\"?{re.escape(name[1])}\"?[ \t]*{below}\][^\n]*\n?",
        re.MULTILINE,
    ).search(text)
    if header is None:
        return None
    following = _HEADER.search(text, header.end())
    end = following.start() if following else len(text)
    # Blank lines and comments after it belong to the next table.
    body = text[header.end() : end]
    trailer = re.search(r"^(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?:[ \t]*#[^\n]*)?\Z", body, re.MULTILINE)
    return header.start(), end - len(trailer[0] if trailer else "")


def _set_key(body: str, key: str, value: Any) -> str:
    """Return a table's text with a new value of a key; a new key comes first."""
    match = re.compile(rf"^[ \t]*\"?{re.escape(key)}\"?[ \t]*=[ \t]*", re.MULTILINE).search(body)
    if match is None:
        head, eol, rest = body.partition("\n")
        return f"{head}{eol or _line_end(body)}{_write(key, value)}{_line_end(body)}{rest}"
    for end in range(match.end() + 1, len(body) + 1):
        try:
            old = tomllib.loads(f"v = {body[match.end() : end]}".replace("\r\n", "\n"))["v"]
        except tomllib.TOMLDecodeError:
            continue
        new = body[match.end() : end] if old == value else json.dumps(value, ensure_ascii=False)
        return body[: match.end()] + new + body[end:]
    return body


def _write(key: str, value: Any) -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


# One entry of a mapping in a YAML file, edited by position: every other byte stays. Ours is one
# line of JSON, which is YAML too. `client_settings` checks that nothing else changed.


def read_yaml(text: str) -> dict[str, Any]:
    """Parse a YAML text.

    Raises:
        RefusedError: it is not YAML, or not a mapping.
    """
    import yaml

    try:
        whole = yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError, RecursionError):
        whole = None
    if not isinstance(whole, dict):
        raise RefusedError("the settings are not YAML of names and values; correct them by hand")
    return whole


def set_entry(text: str | None, name: tuple[str, str], values: dict[str, Any]) -> str:
    """Return the text with these values in the entry; its other values stay.

    A new entry is the first line of its mapping. A new mapping comes last, after one line end;
    without a file (`text=None`), nothing precedes it. A mapping in an unknown style is not changed.
    """
    inner = read_yaml(text or "").get(name[0], {})
    entry = {**(inner.get(name[1]) or {}), **values}
    if inner.get(name[1]) == entry:
        return text or ""
    eol = "\r\n" if "\r\n" in (text or "") else "\n"
    line = f"{name[1]}: {json.dumps(entry, ensure_ascii=False)}"
    key, our_pair = _find_yaml_entry(text or "", name)
    if text is None or key is None:
        return f"{'' if text is None else text + eol}{name[0]}:{eol}  {line}{eol}"
    if our_pair is not None:
        start, end = our_pair[0].start_mark.index, _end(our_pair[1])
        return text[:start] + line + text[end:]
    if key[1].flow_style and not key[1].value:
        position = key[1].start_mark.index + 1
        return text[:position] + line + text[position:]
    if not key[1].flow_style and key[1].value:
        first = key[1].value[0][0].start_mark
        indent: str = " " * first.column
        return text[: first.index] + line + eol + indent + text[first.index :]
    return text


def remove_entry(text: str, name: tuple[str, str]) -> str | None:
    """Return the text without the entry, and without a mapping that has no other.

    None if that is the whole file.
    """
    key, our_pair = _find_yaml_entry(text, name)
    if key is None or our_pair is None:
        return text
    if key[1].flow_style:
        return text[: our_pair[0].start_mark.index] + text[_end(our_pair[1]) :]
    is_alone = len(key[1].value) == 1
    start = text.rfind("\n", 0, (key if is_alone else our_pair)[0].start_mark.index) + 1
    end = _end(our_pair[1])
    if text[end - 1] != "\n":  # A block text ends after its last line.
        end = text.find("\n", end) + 1 or len(text)
    before, after = text[:start], text[end:]
    if is_alone and not before + after:
        return None
    shorter = before.removesuffix("\n").removesuffix("\r") if is_alone else before
    # The line end before the mapping is ours, unless the rest would be joined into one line.
    return (shorter if shorter[-1:] in ("", "\n") or not after else before) + after


def _find_yaml_entry(text: str, name: tuple[str, str]) -> tuple[Any, Any]:
    """Return the mapping and the entry, each as nodes of key and value; None if missing."""
    import yaml

    nodes: list[Any] = [None, None]
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for place, key in enumerate(name):
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        pair = next((each for each in reversed(pairs) if each[0].value == key), None)
        if pair is None:
            break
        nodes[place], node = pair, pair[1]
    return nodes[0], nodes[1]


def _end(node: Any) -> int:
    """Return the end of a value, without blank lines and comments after it."""
    if node.value and isinstance(node.value, list) and not node.flow_style:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)
