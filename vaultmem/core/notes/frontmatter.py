"""Frontmatter: found by position, read with limits, edited one property at a time.

Reading never builds Python objects from YAML: the text is composed to nodes, and each node is
kept as its own text and tag. So no tag can run code, `010` stays "010", and an edit knows the
exact lines of each property. The limits are those of docs/vault-format.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.core.notes.properties import Property, read_plain_block

if TYPE_CHECKING:
    import yaml
    from frontmatter.default_handlers import YAMLHandler

MAX_BLOCK_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_EVENTS = 5_000

_TAG = "tag:yaml.org,2002:"
#: A line that looks like a property, which tells a broken block from prose between two rules.
_NAMED_LINE = re.compile(r"^[ \t]*[\"']?\w[\w .-]{0,63}[\"']?[ \t]*:(?:\s|$)", re.MULTILINE)
_KNOWN_TAGS = frozenset(
    _TAG + name
    for name in ["str", "int", "float", "bool", "null", "timestamp", "seq", "map", "merge", "value"]
)


class Frontmatter(NamedTuple):
    """Where a note's properties are in its text, and what they are.

    `start` and `end` are character offsets of the block between the two `---` lines, `body` the
    offset behind the closing one. `problem` says why a block could not be read; then there are
    no properties and the block must not be edited. All zero: the text has no frontmatter.
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
    offset = 1 if text.startswith("\ufeff") else 0
    if not text.startswith("---", offset):
        return Frontmatter()
    span = _find_block(text, offset)
    if span is None:
        return Frontmatter()
    start, end, body = span
    if body < 0:
        looks = _NAMED_LINE.match(text, start) is not None
        warning = ("the frontmatter is never closed; all of it was read as body",)
        return Frontmatter(warnings=warning if looks else ())
    block = text[start:end]
    if (plain := read_plain_block(block)) is not None:
        return Frontmatter(start, end, body, plain)
    try:
        node = _compose(block)
    except _UnreadableError as problem:
        if _NAMED_LINE.search(block):
            return Frontmatter(start, end, body, problem=str(problem))
        return Frontmatter(warnings=(f"{problem}; all of it was read as body",))
    if not block.strip():
        return Frontmatter(start, end, body)
    if node is None or node.id != "mapping":
        return Frontmatter()  # Two thematic breaks with text between them, not properties.
    properties, warnings = _read_mapping(node, block)
    return Frontmatter(start, end, body, properties, warnings=warnings)


class _UnreadableError(Exception):
    """Why a block was not read."""


@cache
def _handler() -> YAMLHandler:
    """Return python-frontmatter's YAML handler for Obsidian's boundary: exactly `---`."""
    from frontmatter.default_handlers import YAMLHandler

    return YAMLHandler(fm_boundary=re.compile(r"^---[ \t]*\r?$", re.MULTILINE))


def _find_block(text: str, offset: int) -> tuple[int, int, int] | None:
    """Return start, end and body offset of the block; a body of -1 if it is not closed."""
    closing = text.find("\n---", offset + 3) + 1
    if closing and text.startswith("---\n", offset) and text.startswith("---\n", closing):
        return offset + 4, closing, closing + 4  # As nearly all are; the library takes 20 ms.
    handler = _handler()
    plain = text[offset:]
    if not handler.detect(plain):
        return None
    start = _next_line(text, offset)
    try:
        _, content = handler.split(plain)
    except ValueError:
        return start, start, -1
    end = len(text) - len(content)
    end = text.rfind("\n", 0, end) + 1  # The start of the closing line.
    if end < start:
        return None
    return start, end, _next_line(text, end)


def _next_line(text: str, offset: int) -> int:
    newline = text.find("\n", offset)
    return len(text) if newline < 0 else newline + 1


def _compose(block: str) -> Any:
    """Return the block's root node; the limits are checked before anything is built."""
    import yaml

    try:
        from yaml import CSafeLoader as Loader
    except ImportError:  # A PyYAML without libyaml.
        from yaml import SafeLoader as Loader  # type: ignore[assignment]

    if len(block.encode("utf-8", "surrogatepass")) > MAX_BLOCK_BYTES:
        raise _UnreadableError(f"the frontmatter is larger than {MAX_BLOCK_BYTES // 1024} KiB")
    try:
        _scan_events(yaml.parse(block, Loader=Loader))
        loader = Loader(block)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _UnreadableError(_explain(error)) from None
    except (ValueError, RecursionError) as error:
        raise _UnreadableError(f"the frontmatter is not YAML: {error}") from None


def _scan_events(events: Iterable[Any]) -> None:
    import yaml

    depth = 0
    for count, event in enumerate(events):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _UnreadableError("the frontmatter uses anchors or aliases, which are not read")
        tag = getattr(event, "tag", None)
        if tag and tag not in _KNOWN_TAGS:
            raise _UnreadableError(f"the frontmatter uses the tag {tag!r}, which is not read")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH or count > MAX_EVENTS:
            raise _UnreadableError("the frontmatter is nested too deeply or too long to read")


def _explain(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or "it cannot be parsed"
    where = f", line {mark.line + 2}" if mark is not None else ""
    return f"the frontmatter is not valid YAML{where}: {what}"


def _read_mapping(node: Any, block: str) -> tuple[tuple[Property, ...], tuple[str, ...]]:
    """Return the properties of the root mapping, the last of a duplicate, and the warnings."""
    found: dict[str, Property] = {}
    warnings: list[str] = []
    for key, value in node.value:
        if key.id != "scalar":
            warnings.append("a property's name is not plain text; it was ignored")
            continue
        if key.value in found:
            warnings.append(f'the property "{key.value}" stands twice; the last one counts')
        found[str(key.value)] = _read_property(key, value, len(block))
    return tuple(found.values()), tuple(warnings)


def _read_property(key: Any, node: Any, length: int) -> Property:
    kind, content = _read_value(node)
    first = int(key.start_mark.line)
    span = (min(node.start_mark.index, length), min(node.end_mark.index, length))
    items: tuple[int, ...] = ()
    if node.id == "sequence" and not node.flow_style and all(map(_is_one_line, node.value)):
        items = tuple(int(item.start_mark.line) for item in node.value)
    last = _last_line(node, first)
    return Property(
        name=str(key.value),
        value=content,
        kind=kind,
        first=first,
        last=last,
        span=span,
        items=items,
        indent=key.start_mark.column,
    )


def _is_one_line(node: Any) -> bool:
    return bool(node.start_mark.line == node.end_mark.line)


def _read_value(node: Any) -> tuple[str, str | tuple[str, ...]]:
    kind = str(node.tag).removeprefix(_TAG)
    if node.id == "scalar":
        return kind, str(node.value)
    if node.id == "sequence":
        items = (item for item in node.value if item.id == "scalar")
        return "seq", tuple(str(item.value) for item in items if not item.tag.endswith(":null"))
    return "map", ""


def _last_line(node: Any, first: int) -> int:
    """Return the line behind a value, which YAML's marks put after blank lines and comments."""
    if node.id != "scalar" and not node.flow_style and node.value:
        tail = node.value[-1]
        return _last_line(tail[1] if isinstance(tail, tuple) else tail, first)
    mark = node.end_mark
    ends_line = mark.column == 0 and mark.line > first
    return int(mark.line if ends_line else mark.line + 1)
