"""Properties and where they stand; blocks of nothing but simple lines are read without YAML."""

from __future__ import annotations

import re
from typing import NamedTuple


class Property(NamedTuple):
    """One property as written: `value` is text or a list of texts, `kind` YAML's word for it.

    `kind` is one of str, int, float, bool, null, timestamp, seq, map; `first` and `last` are the
    0-based lines of the block that it occupies, `last` exclusive; `span` is where the value itself
    stands (character offsets in the block); `items` are the lines of a hyphen list's items, empty
    where one has more lines than one and for anything else; `indent` is the column of the name.
    """

    name: str
    value: str | tuple[str, ...]
    kind: str
    first: int
    last: int
    span: tuple[int, int] = (0, 0)
    items: tuple[int, ...] = ()
    indent: int = 0


# What YAML ends a line at, or does not take as text.
_ODD = r"\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufff0-\uffff"
_FIRST = rf"[^\s*&!\[\]{{}}?|>@`%#,:'\"\-{_ODD}]"
_TEXT = rf"{_FIRST}[^:#{_ODD}]*+(?:(?::(?=\S)|(?<=\S)#)[^:#{_ODD}]*+)*+"
_QUOTED = rf"\"[^\"\\{_ODD}]*+\"|'[^'{_ODD}]*+'"
_WITHIN = rf"(?:{_QUOTED}|[^\W\d](?:[\w./-]| (?=\w))*+)"
_FLOW = rf"\[ *+(?:{_WITHIN}(?: *+, *+{_WITHIN})*+ *+)?\]"
# The `^` makes a line that does not match fail once, and not again at each of its characters.
_LINE = re.compile(
    rf"^(?:(?P<name>[^\W\d][\w.-]{{0,99}}):"
    rf"(?: +(?:(?P<scalar>{_TEXT}|{_QUOTED})|(?P<flow>{_FLOW})))?"
    rf"|(?P<lead> {{0,4}}-) +(?P<item>{_TEXT}|{_QUOTED}))? *(?:(?:^|(?<= ))#[^{_ODD}]*+)?\r?\n",
    re.MULTILINE,
)
_FLOW_ITEM = re.compile(_WITHIN)
#: Each comma is one YAML event at most, each line four: fewer than MAX_EVENTS.
_MAX_MARKS = 4_900

# What YAML need not be loaded for: texts that begin like no other type, and the usual numbers.
_TYPED = frozenset("-+.0123456789<=~nNyYtTfFoO")
_NULLS = frozenset({"null", "Null", "NULL"})
_WORDS = frozenset({"null", "yes", "no", "true", "false", "on", "off"})
_COMMON = re.compile(
    r"(?P<timestamp>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}:[0-9]{2})?)"
    r"|(?P<int>0|[1-9][0-9]*)|(?P<float>[0-9]+\.[0-9]+)"
)


_Item = tuple[int, str]  # Its line and its text.


def read_plain_block(block: str) -> tuple[Property, ...] | None:
    """Return the properties of a block of simple lines, as YAML gives them; None if it has to."""
    if block.count(",") + 4 * block.count("\n") > _MAX_MARKS:
        return None
    found: dict[str, Property] = {}
    owner: Property | None = None  # Whose hyphen items the next lines may be.
    items: list[_Item] = []
    lead = ""
    at = begin = 0  # `begin` is where the first of the items stands.
    for line, match in enumerate(_LINE.finditer(block)):
        if match.start() != at:
            return None
        shape = match.lastgroup
        if shape == "item":
            kind, item = _read_scalar(match["item"])
            if owner is None or kind == "null" or (items and match["lead"] != lead):
                return None
            if not items:
                lead, begin = match["lead"], match.end("lead") - 1
            items.append((line, item))
        elif shape is not None:
            if owner and items:
                found[owner.name] = _list_property(owner, items, (begin, at))
                items = []
            prop = _read_line(match, shape, line)
            if prop is None or prop.name in found:
                return None
            found[prop.name] = prop
            owner = prop if shape == "name" else None
        at = match.end()
    if owner and items:
        found[owner.name] = _list_property(owner, items, (begin, at))
    is_whole = at == len(block) and (found or not block.strip())
    return tuple(found.values()) if is_whole else None


def _read_line(match: re.Match[str], shape: str, line: int) -> Property | None:
    """Return the property of one line; None if its list has an item that means nothing."""
    start, end = match.span(shape)
    value: str | tuple[str, ...] = ""
    kind = "null"
    if shape == "scalar":
        kind, value = _read_scalar(match["scalar"])
        end = start + len(match["scalar"].rstrip(" "))
    elif shape == "flow":
        kind = "seq"
        written = _FLOW_ITEM.findall(match["flow"])
        if not _NULLS.isdisjoint(written):
            return None
        value = tuple([item[1:-1] if item[0] in "\"'" else item for item in written])
    else:
        start = end = end + 1
    return Property(match["name"], value, kind, line, line + 1, (start, end))


def _list_property(
    owner: Property, items: list[tuple[int, str]], span: tuple[int, int]
) -> Property:
    """Return the property of this line with the hyphen items behind it."""
    lines, values = zip(*items, strict=True)
    return owner._replace(value=values, kind="seq", last=lines[-1] + 1, span=span, items=lines)


def _read_scalar(text: str) -> tuple[str, str]:
    """Return YAML's word for the type of a plain or quoted text, and its value."""
    text = text.rstrip(" ")
    if text[0] in "\"'":
        return "str", text[1:-1]
    return resolve_scalar(text), text


def resolve_scalar(text: str) -> str:
    """Return the type that YAML 1.1 gives a plain text: "str", "int", "timestamp" ..."""
    if text[:1] not in _TYPED:
        return "str" if text else "null"
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
