"""Read a block with PyYAML: events become properties in one pass, within limits.

PyYAML's composer has no limits; it would need a second pass after a check.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import yaml

from vaultmem.core.notes.properties import Property, resolve_scalar

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml.
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MAX_DEPTH = 32
MAX_EVENTS = 5_000

_TAG = "tag:yaml.org,2002:"
_KNOWN_TAGS = frozenset(
    _TAG + name
    for name in ["str", "int", "float", "bool", "null", "timestamp", "seq", "map", "merge", "value"]
)


class UnreadableBlockError(Exception):
    """A block is not read; `is_mapping` is true if it is YAML with names and values."""

    def __init__(self, problem: str, is_mapping: bool = False) -> None:
        super().__init__(problem)
        self.is_mapping = is_mapping


class _Node(NamedTuple):
    """A value between two marks: its text or children (of a map, names and values in turn).

    `shape` is scalar, seq or map; `kind` is the YAML type.
    """

    shape: str
    kind: str
    start: Any
    end: Any
    text: str = ""
    inside: tuple[_Node, ...] = ()
    is_flow: bool = False


def read_yaml_block(block: str) -> tuple[tuple[Property, ...], tuple[str, ...]] | None:
    """Return the properties (of duplicates the last) and warnings; None if not a mapping.

    Raises:
        UnreadableBlockError: it is not YAML, or exceeds the limits.
    """
    try:
        root = _read_root(_check_events(yaml.parse(block, Loader=_Loader)))
    except yaml.YAMLError as error:
        from vaultmem.core.notes.problems import describe_line

        mark = getattr(error, "problem_mark", None)
        line = "".join(block.split("\n")[mark.line : mark.line + 1]) if mark is not None else ""
        reason = describe_line(line, getattr(error, "problem", None) or "it cannot be parsed")
        raise _not_valid(mark, reason) from None
    except (ValueError, RecursionError) as error:
        raise UnreadableBlockError(f"the frontmatter is not YAML: {error}") from None
    return None if root is None or root.shape != "map" else _read_mapping(root, len(block))


def _not_valid(mark: Any, reason: str) -> UnreadableBlockError:
    position = f", line {mark.line + 2}" if mark is not None else ""
    return UnreadableBlockError(f"the frontmatter is not valid YAML{position}: {reason}")


def _check_events(events: Iterable[Any]) -> Iterator[Any]:
    """Yield the events; raise `UnreadableBlockError` if they exceed the limits."""
    depth = 0
    root = None
    for count, event in enumerate(events):
        problem = ""
        if isinstance(event, yaml.NodeEvent):
            root = root or event
            tag = getattr(event, "tag", None)
            if event.anchor:  # Aliases have one too.
                problem = "the frontmatter uses anchors or aliases, which are not read"
            elif tag and tag not in _KNOWN_TAGS:
                problem = f"the frontmatter uses the tag {tag!r}, which is not read"
            depth += isinstance(event, yaml.CollectionStartEvent)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH or count > MAX_EVENTS:
            problem = "the frontmatter is nested too deeply or too long to read"
        if problem:
            raise UnreadableBlockError(problem, isinstance(root, yaml.MappingStartEvent))
        yield event


class _Level:
    """A mapping or list that is being read; `key` belongs to the next value."""

    def __init__(self, is_map: bool) -> None:
        self._is_map = is_map
        self.key: str | None = None

    def step(self, text: str) -> None:
        """Go from the key `text` to its value, or from a value to the next key."""
        self.key = text.casefold() if self._is_map and self.key is None else None


def find_states(block: str) -> tuple[str, ...]:
    """Return the lower-case values of keys called `state`, in any case, in a block.

    If the block is invalid or exceeds the limits, the values up to there. In other properties only
    `quarantined` counts, unless the block merges mappings.
    """
    outer: list[str] = []
    inner: list[str] = []
    merges = False
    anchors: dict[str | None, str] = {}
    levels: list[_Level] = []
    with contextlib.suppress(yaml.YAMLError, ValueError, RecursionError):
        for count, event in enumerate(yaml.parse(block, Loader=_Loader)):
            if len(levels) > MAX_DEPTH or count > MAX_EVENTS:
                break
            text = ""
            if isinstance(event, yaml.AliasEvent):
                text, merges = anchors.get(event.anchor, ""), True
            elif isinstance(event, yaml.ScalarEvent):
                text = anchors[event.anchor] = event.value
                merges = merges or text == "<<" or event.tag == f"{_TAG}merge"
            elif isinstance(event, yaml.CollectionStartEvent):
                levels.append(_Level(isinstance(event, yaml.MappingStartEvent)))
                continue
            elif isinstance(event, yaml.CollectionEndEvent):
                levels.pop()
            else:
                continue
            if any(level.key == "state" for level in levels):
                is_outer = levels[0].key == "state"
                (outer if is_outer else inner).append(text.strip().lower())
            if levels:
                levels[-1].step(text)
    return (*outer, *(each for each in inner if merges or each == "quarantined"))


def _read_root(events: Iterator[Any]) -> _Node | None:
    """Return the root of the one document, or None; all events are checked first."""
    root = second = None
    for event in events:
        if not isinstance(event, yaml.DocumentStartEvent):
            continue
        if root is not None:
            second = second or event.start_mark
        root = _read_node(next(events), events)
    if second is not None:
        raise _not_valid(second, "but found another document")
    return root


def _read_node(event: Any, events: Iterator[Any]) -> _Node:
    """Return the value that begins with `event`; consume the events up to its end."""
    if isinstance(event, yaml.ScalarEvent):
        kind = resolve_scalar(event.value) if event.implicit[0] else "str"
        kind = event.tag.removeprefix(_TAG) if event.tag else kind
        return _Node("scalar", kind, event.start_mark, event.end_mark, str(event.value))
    shape = "seq" if isinstance(event, yaml.SequenceStartEvent) else "map"
    children: list[_Node] = []
    while not isinstance(each := next(events), yaml.CollectionEndEvent):
        children.append(_read_node(each, events))
    return _Node(
        shape,
        shape,
        event.start_mark,
        each.end_mark,
        inside=tuple(children),
        is_flow=bool(event.flow_style),
    )


def _read_mapping(root: _Node, length: int) -> tuple[tuple[Property, ...], tuple[str, ...]]:
    properties: dict[str, Property] = {}
    warnings: list[str] = []
    for name, value in zip(root.inside[::2], root.inside[1::2], strict=True):
        if name.shape != "scalar":
            warnings.append("a property's name is not plain text; it was ignored")
            continue
        if name.text in properties:
            counting = "most restricted" if name.text == "state" else "last"
            warnings.append(f'the property "{name.text}" occurs twice; the {counting} one counts')
        properties[name.text] = _read_property(name, value, length)
    return tuple(properties.values()), tuple(warnings)


def _read_property(name: _Node, node: _Node, length: int) -> Property:
    items: tuple[int, ...] = ()
    is_hyphen_list = node.shape == "seq" and not node.is_flow
    if is_hyphen_list and all(item.start.line == item.end.line for item in node.inside):
        items = tuple(item.start.line for item in node.inside)
    return Property(
        name=name.text,
        value=node.text if node.shape != "seq" else _read_texts(node),
        kind=node.kind,
        first=name.start.line,
        last=_last_line(node, name.start.line),
        span=(min(node.start.index, length), min(node.end.index, length)),
        items=items,
        indent=name.start.column,
    )


def _read_texts(node: _Node) -> tuple[str, ...]:
    items = (item for item in node.inside if item.shape == "scalar")
    return tuple(item.text for item in items if item.kind != "null")


def _last_line(node: _Node, first: int) -> int:
    """Return the line after a value, without the blank lines and comments in YAML's marks."""
    if node.inside and not node.is_flow:
        return _last_line(node.inside[-1], first)
    ends_line = node.end.column == 0 and node.end.line > first
    return int(node.end.line if ends_line else node.end.line + 1)
