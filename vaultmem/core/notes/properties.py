"""Properties and where they stand; blocks of nothing but simple lines are read without YAML."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Property(NamedTuple):
    """One property as written: `value` is text or a list of texts, `kind` YAML's word for it.

    `kind` is one of str, int, float, bool, null, timestamp, seq, map; `first` and `last` are the
    0-based lines of the block that it occupies, `last` exclusive; `span` is where the value itself
    stands (character offsets in the block; 0, 0 for a hyphen list that was read the fast way);
    `items` are the lines of a hyphen list's items, empty where one has more lines than one and
    for anything else; `indent` is the column of the name.
    """

    name: str
    value: str | tuple[str, ...]
    kind: str
    first: int
    last: int
    span: tuple[int, int] = (0, 0)
    items: tuple[int, ...] = ()
    indent: int = 0


_CONTROL = r"\x00-\x1f\x7f"
_TEXT = rf"[^\s*&!\[\]{{}}?|>@`%#,:'\"\-{_CONTROL}](?:[^:#{_CONTROL}]|:(?=[^\s])|(?<=\S)#)*"
_QUOTED = rf"\"[^\"\\{_CONTROL}]*\"|'[^'{_CONTROL}]*'"
_LINE = re.compile(
    rf"(?:(?P<name>[A-Za-z_][\w-]{{0,99}}):(?: +(?P<value>{_TEXT}|{_QUOTED}))? *"
    rf"|(?P<lead>(?: {{0,4}})-) +(?P<item>{_TEXT}|{_QUOTED}) *)?\r?\n"
)
_MAX_CHARS = 4096

# What YAML need not be loaded for: texts that begin like no other type, and the usual numbers.
_TYPED = frozenset("-+.0123456789<=~nNyYtTfFoO")
_WORDS = frozenset({"null", "yes", "no", "true", "false", "on", "off"})
_COMMON = re.compile(
    r"(?P<timestamp>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}:[0-9]{2})?)"
    r"|(?P<int>0|[1-9][0-9]*)|(?P<float>[0-9]+\.[0-9]+)"
)


def read_plain_block(block: str) -> tuple[Property, ...] | None:
    """Return the properties of a block of simple lines; None if YAML has to read it."""
    if len(block) > _MAX_CHARS or not block.isascii() or not block.endswith("\n"):
        return None
    found: dict[str, Property] = {}
    name = opened = lead = ""  # `opened` is the name that hyphen items would belong to.
    start = span = offset = line = 0
    items: list[tuple[int, str]] = []
    while offset < len(block):
        match = _LINE.match(block, offset)
        if match is None:
            return None
        if match["name"]:
            if items:
                found[name] = _list_property(name, start, items)
                items, lead = [], ""
            name, start, span = match["name"], line, match.end("name") + 1
            if name in found:
                return None
            if match["value"] is not None:
                opened = ""
                found[name] = _scalar(name, match["value"], line, match.start("value"))
            else:
                opened = name
                found[name] = Property(
                    name=name,
                    value="",
                    kind="null",
                    first=line,
                    last=line + 1,
                    span=(span, span),
                )
        elif match["item"] is not None:
            kind, item = _resolve(match["item"])
            if not opened or kind == "null" or match["lead"] != (lead or match["lead"]):
                return None
            lead = match["lead"]
            items.append((line, item))
        offset = match.end()
        line += 1
    if items:
        found[name] = _list_property(name, start, items)
    return tuple(found.values())


def _scalar(name: str, text: str, line: int, start: int) -> Property:
    kind, value = _resolve(text)
    end = start + len(text.rstrip(" "))
    return Property(
        name=name,
        value=value,
        kind=kind,
        first=line,
        last=line + 1,
        span=(start, end),
    )


def _list_property(name: str, start: int, items: list[tuple[int, str]]) -> Property:
    lines = tuple(line for line, _ in items)
    values = tuple(value for _, value in items)
    return Property(
        name=name,
        value=values,
        kind="seq",
        first=start,
        last=lines[-1] + 1,
        items=lines,
    )


@lru_cache(maxsize=10_000)
def _resolve(text: str) -> tuple[str, str]:
    """Return YAML's word for the type of a plain or quoted text, and its value."""
    text = text.rstrip(" ")
    if text[0] in "\"'":
        return "str", text[1:-1]
    return resolve_scalar(text), text


def resolve_scalar(text: str) -> str:
    """Return the type that YAML 1.1 gives a plain text: "str", "int", "timestamp" ..."""
    if text[:1] not in _TYPED:
        return "str"
    if text[0].isalpha():
        if text.lower() not in _WORDS:
            return "str"
    elif found := _COMMON.fullmatch(text):
        return str(found.lastgroup)
    from yaml.resolver import Resolver

    for tag, pattern in Resolver.yaml_implicit_resolvers.get(text[:1], []):
        if pattern.match(text):
            return str(tag).rpartition(":")[2]
    return "str"
