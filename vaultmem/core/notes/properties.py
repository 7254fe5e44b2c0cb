"""Properties and their positions; simple blocks are read without a YAML library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from vaultmem.core.lifecycle import HIDDEN_STATES, NoteState
from vaultmem.core.text.patterns import compile_later


class Property(NamedTuple):
    """One property as written: `value` is text or a list of texts, `kind` its YAML type.

    `kind` is one of str, int, float, bool, null, timestamp, seq, map. `first` and `last` are the
    property's 0-based lines in the block, `last` exclusive. `span` is the value's character span
    in the block. `items` are the lines of a hyphen list's items, empty if an item has several lines
    and for other values. `indent` is the column of the name.
    """

    name: str
    value: str | tuple[str, ...]
    kind: str
    first: int
    last: int
    span: tuple[int, int] = (0, 0)
    items: tuple[int, ...] = ()
    indent: int = 0


# Characters that end a line in YAML, or that it does not accept.
_FORBIDDEN_CHARS = r"\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufff0-\uffff"
_FIRST_CHAR = rf"[^\s*&!\[\]{{}}?|>@`%#,:'\"\-{_FORBIDDEN_CHARS}]"
_TEXT = (
    rf"{_FIRST_CHAR}[^:#{_FORBIDDEN_CHARS}]*+(?:(?::(?=\S)|(?<=\S)#)[^:#{_FORBIDDEN_CHARS}]*+)*+"
)
_QUOTED = rf"\"[^\"\\{_FORBIDDEN_CHARS}]*+\"|'[^'{_FORBIDDEN_CHARS}]*+'"
_FLOW_SCALAR = rf"(?:{_QUOTED}|[^\W\d](?:[\w./-]| (?=\w))*+)"
_FLOW = rf"\[ *+(?:{_FLOW_SCALAR}(?: *+, *+{_FLOW_SCALAR})*+ *+)?\]"
# The `^` makes a line without a match fail once, not at each character.
_LINE = compile_later(
    rf"^(?:(?P<name>[^\W\d][\w.-]{{0,99}}):"
    rf"(?: +(?:(?P<scalar>{_TEXT}|{_QUOTED})|(?P<flow>{_FLOW})))?"
    rf"|(?P<lead> {{0,4}}-) +(?P<item>{_TEXT}|{_QUOTED}))?"
    rf" *(?:(?:^|(?<= ))#[^{_FORBIDDEN_CHARS}]*+)?\r?\n",
    re.MULTILINE,
)
_FLOW_ITEM = compile_later(_FLOW_SCALAR)
#: At most one YAML event per comma and four per line: fewer than MAX_EVENTS.
_MAX_MARKS = 4_900

# Values that do not need PyYAML: text with an unambiguous start, and common numbers.
_AMBIGUOUS_FIRST_CHARS = frozenset("-+.0123456789<=~nNyYtTfFoO")
_NULLS = frozenset({"null", "Null", "NULL"})
_WORDS = frozenset({"null", "yes", "no", "true", "false", "on", "off"})
_TIMESTAMP_OR_NUMBER = compile_later(
    r"(?P<timestamp>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}:[0-9]{2})?)"
    r"|(?P<int>0|[1-9][0-9]*)|(?P<float>[0-9]+\.[0-9]+)"
)


_Item = tuple[int, str]  # Line and text.


@lru_cache(maxsize=16)  # Two versions of a note often have the same block.
def read_plain_block(block: str) -> tuple[Property, ...] | None:
    """Return the properties of a block of simple lines as YAML would, or None if YAML is needed."""
    if block.count(",") + 4 * block.count("\n") > _MAX_MARKS:
        return None
    properties: dict[str, Property] = {}
    owner: Property | None = None  # The property of the next hyphen items.
    items: list[_Item] = []
    lead = ""
    position = begin = 0  # `begin` is the offset of the first item.
    for line, match in enumerate(_LINE.finditer(block)):
        if match.start() != position:
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
                properties[owner.name] = _list_property(owner, items, (begin, position))
                items = []
            prop = _read_line(match, shape, line)
            if prop is None or prop.name in properties:
                return None
            properties[prop.name] = prop
            owner = prop if shape == "name" else None
        position = match.end()
    if owner and items:
        properties[owner.name] = _list_property(owner, items, (begin, position))
    is_whole = position == len(block) and (properties or not block.strip())
    return tuple(properties.values()) if is_whole else None


def _read_line(match: re.Match[str], shape: str, line: int) -> Property | None:
    """Return the property of one line; None if its list contains null."""
    start, end = match.span(shape)
    value: str | tuple[str, ...] = ""
    kind = "null"
    if shape == "scalar":
        kind, value = _read_scalar(match["scalar"])
        end = start + len(match["scalar"].rstrip(" "))
    elif shape == "flow":
        kind = "seq"
        items = _FLOW_ITEM.findall(match["flow"])
        if not _NULLS.isdisjoint(items):
            return None
        value = tuple([item[1:-1] if item[0] in "\"'" else item for item in items])
    else:
        start = end = end + 1
    return Property(match["name"], value, kind, line, line + 1, (start, end))


def _list_property(
    owner: Property, items: list[tuple[int, str]], span: tuple[int, int]
) -> Property:
    """Return a line's property with the hyphen items after it."""
    lines, values = zip(*items, strict=True)
    return owner._replace(value=values, kind="seq", last=lines[-1] + 1, span=span, items=lines)


def _read_scalar(text: str) -> tuple[str, str]:
    """Return the YAML type of a plain or quoted text, and its value."""
    text = text.rstrip(" ")
    if text[0] in "\"'":
        return "str", text[1:-1]
    return resolve_scalar(text), text


def resolve_scalar(text: str) -> str:
    """Return the YAML 1.1 type of a plain text: "str", "int", "timestamp" ..."""
    if text[:1] not in _AMBIGUOUS_FIRST_CHARS:
        return "str" if text else "null"
    if text[0].isalpha():
        if text.lower() not in _WORDS:
            return "str"
    elif match := _TIMESTAMP_OR_NUMBER.fullmatch(text):
        return str(match.lastgroup)
    from yaml.resolver import Resolver

    for tag, pattern in Resolver.yaml_implicit_resolvers.get(text[:1], []):
        if pattern.match(text):
            return str(tag).rpartition(":")[2]
    return "str"


# The state of a note whose frontmatter YAML alone does not decide.
#
# Other programs parse frontmatter differently: another version of YAML, TOML or JSON, other line
# ends, leading blank lines. So in an unread block, every spelling of a hiding state counts.

#: Most characters of a text that are searched for properties.
HEAD = 64 * 1024
#: Most characters of a text without a block in which a state line is rewritten.
_MAX_REWRITE_CHARS = 4_096

STATES = frozenset(state.value for state in NoteState)

_HIDING = "|".join(sorted(HIDDEN_STATES))
_HINT_LINE = r"[ \t]*[\"']?state[\"']?[ \t]*:[ \t]*[\"'\[]?(\w+)"
#: A line that looks like a state property.
_STATE_LINE = compile_later(rf"^{_HINT_LINE}", re.MULTILINE | re.IGNORECASE)
#: Possible property lines, down to a state line: a block without its first line, or not at the
#: note's start. Possessive, so that no long text takes quadratic time.
_LOST_BLOCK = compile_later(
    r"\ufeff?(?>(?:[\w\"'][\w .\"'-]{0,63}:(?:[ \t][^\n]*)?|[ \t]*-[ \t][^\n]*|[ \t]*#?)\r?\n)*?"
    rf"{_HINT_LINE}",
    re.IGNORECASE,
)
_RULE = compile_later(r"\n---[ \t]*\r?(?=\n)")
_FENCE = compile_later(r"^ {0,3}(?:```|~~~)", re.MULTILINE)

#: A state that hides the note, in YAML, TOML or JSON, or with small mistakes.
_HIDING_PROPERTY = compile_later(
    rf"(?<![\w-])state[\"'\s]*[:=][\"'\s\[>|-]*({_HIDING})(?!\w)", re.IGNORECASE
)
_HIDING_STATE = compile_later(_HIDING, re.IGNORECASE)
_QUARANTINED = compile_later(rf"\b{NoteState.QUARANTINED.value}\b", re.IGNORECASE)

#: A line that looks like a property, and the start of a one-line mapping: they distinguish a
#: broken block from prose between two rules.
_KEY = r"(?:\"[^\"\n]{1,99}\"|'[^'\n]{1,99}'|[\"']?\w[\w .-]{0,63}[\"']?)"
_MARKS = r"(?:[&!]\S{0,99}[ \t]+){0,3}"
_NAMED_LINE = compile_later(rf"^[ \t]*{_MARKS}{_KEY}[ \t]*:(?:\s|$)", re.MULTILINE)
_HINT_FLOW = compile_later(rf"\s*{_MARKS}\{{\s*{_MARKS}{_KEY}\s*:")

#: Letters as YAML, TOML and JSON escape them in quotes, and line continuations.
_ESCAPE = compile_later(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|\r?\n[ \t]*)")

#: The first line of a block for other programs, and its end. JSON has no first line.
_OPENING = compile_later(r"\ufeff?\s*(?:(-{3}|\+{3}|;{3})-*\w*[ \t]*\n|(?=\{))")
_CLOSING = {
    "-": compile_later(r"^(?:-{3,}|\.{3})[ \t]*$", re.MULTILINE),
    "+": compile_later(r"^\+{3}[ \t]*$", re.MULTILINE),
    ";": compile_later(r"^;{3}[ \t]*$", re.MULTILINE),
}


class Hint(NamedTuple):
    """States in a text, in any spelling; `is_hidden` is whether they might hide the note."""

    states: tuple[str, ...]
    is_hidden: bool


def find_state_lines(head: str) -> list[str]:
    """Return the states in the state lines of a text."""
    return [name for word in _STATE_LINE.findall(head) if (name := word.lower()) in STATES]


def replace_state_lines(text: str, start: int, end: int, state: str) -> str:
    """Return a text with `state` in the state lines of a block; without a block, of its head."""
    end = end or _MAX_REWRITE_CHARS

    def change(line: re.Match[str]) -> str:
        is_known = line[1].lower() in STATES
        return line[0][: line.start(1) - line.start()] + state if is_known else line[0]

    return text[:start] + _STATE_LINE.sub(change, text[start:end]) + text[end:]


def has_names(block: str) -> bool:
    """Return whether a text has a line like a property, or begins like a mapping."""
    return _NAMED_LINE.search(block) is not None or _HINT_FLOW.match(block) is not None


def starts_with_name(text: str, start: int) -> bool:
    """Return whether a text at an offset looks like a property."""
    return bool(_NAMED_LINE.match(text, start) or _HINT_FLOW.match(text, start))


def may_hide(block: str) -> bool:
    """Return whether a block contains the name of a state that hides a note."""
    return _HIDING_STATE.search(_unescape(block)) is not None


def find_hint(block: str, yaml_states: tuple[str, ...] = ()) -> Hint:
    """Return the possible states of an unread block; `yaml_states` are those that YAML found."""
    plain = _unescape(block)
    states = (*yaml_states, *(match[1].lower() for match in _HIDING_PROPERTY.finditer(plain)))
    hides = any(state in HIDDEN_STATES for state in states)
    return Hint(states, hides or _QUARANTINED.search(plain) is not None)


def find_foreign_block(text: str) -> str:
    """Return the block of a text that begins like other programs' frontmatter, or ""."""
    first = text[:1]
    opening = _OPENING.match(text) if first in "-+;{\ufeff" or first.isspace() else None
    if opening is None:
        return ""
    start = opening.end()
    if not opening[1]:
        return _extract_json(text, start)
    if closing := _CLOSING[opening[1][0]].search(text, start):
        return text[start : closing.start()]
    return _extract_paragraph(text, start) if starts_with_name(text, start) else ""


def _extract_json(text: str, start: int) -> str:
    """Return the JSON object that begins at an offset, or the first paragraph if it is invalid."""
    import json

    try:
        return text[start : json.JSONDecoder().raw_decode(text, start)[1]]
    except (ValueError, RecursionError):
        return _extract_paragraph(text, start)


def _extract_paragraph(text: str, start: int) -> str:
    return text[start:].partition("\n\n")[0]


def has_lost_lines(head: str) -> bool:
    """Return whether a text without a block has lines that look like a state property.

    For a state that hides the note, any line outside fenced code is enough.
    """
    lowered = head.lower()
    if "state" not in lowered:
        return False
    if any(state in lowered for state in HIDDEN_STATES) and any(
        state in HIDDEN_STATES for state in _list_outside_code(head)
    ):
        return True
    head = f"\n{head}"
    starts = [1, *(rule.end() + 1 for rule in _RULE.finditer(head))]
    matches = (_LOST_BLOCK.match(head, start) for start in starts)
    return any(match is not None and match[1].lower() in STATES for match in matches)


def _list_outside_code(head: str) -> Iterator[str]:
    place, fences = 0, 0
    for line in _STATE_LINE.finditer(head):
        fences += len(_FENCE.findall(head, place, line.start()))
        place = line.start()
        if fences % 2 == 0:
            yield line[1].lower()


def _unescape(text: str) -> str:
    """Return a text with its escapes replaced by the characters."""
    if "\\" not in text:
        return text

    def read(escape: re.Match[str]) -> str:
        number = int(escape[1] or escape[2] or escape[3] or "0", 16)
        return chr(number) if 0 < number < 0x11_0000 else ""

    return _ESCAPE.sub(read, text)
