"""Frontmatter: find it by position, read it within limits, and convert its values.

YAML never becomes Python objects: each value is its text and the name of its type. So no tag can
run code, `010` stays "010", and an edit knows the lines of each property. The limits are
documented in docs/reference/vault-format.md.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypeVar

from vaultmem.core.notes.properties import (
    HEAD,
    STATES,
    Property,
    find_foreign_block,
    find_hint,
    find_state_lines,
    has_lost_lines,
    has_names,
    may_hide,
    read_plain_block,
    replace_state_lines,
    starts_with_name,
)
from vaultmem.core.text.patterns import compile_later

MAX_BLOCK_BYTES = 64 * 1024

#: Obsidian's delimiter: a line of exactly `---`.
_OPENING = compile_later(r"---[ \t]*\r?$", re.MULTILINE)
_CLOSING = compile_later(r"\n---[ \t]*\r?$", re.MULTILINE)
_MISSING_DELIMITER_TEXT = "it has properties, but not between two lines `---` at its start"


class Frontmatter(NamedTuple):
    """The position of a note's frontmatter in its text, and its properties.

    `start` and `end` are character offsets of the block between the two `---` lines; `body` is the
    offset after the closing line. `problem` is why the block cannot be read; then there are no
    properties, and the block must not be edited. All zero: no frontmatter, or its position is
    unclear. `states` are the values of `state`, in any spelling, of a block that is not only plain
    lines.
    """

    start: int = 0
    end: int = 0
    body: int = 0
    properties: tuple[Property, ...] = ()
    problem: str = ""
    warnings: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    def get(self, name: str) -> Property | None:
        """Return the property of this name, or None."""
        return next((item for item in self.properties if item.name == name), None)


_NONE = Frontmatter()


def read_frontmatter(text: str) -> Frontmatter:
    """Find and read the frontmatter of a note's text; problems are returned, never raised."""
    span = _find_block(text)
    if span is None:
        return _read_lost(text, _MISSING_DELIMITER_TEXT)
    start, end, body = span
    if body < 0:
        problem = "the frontmatter is never closed"
        lost = _read_lost(text, problem)
        return lost._replace(problem=problem) if starts_with_name(text, start) else lost
    frontmatter = _read_block(text[start:end], Frontmatter(start, end, body))
    # Text between two thematic breaks is not frontmatter.
    lost = _NONE if frontmatter.body else _read_lost(text, _MISSING_DELIMITER_TEXT)
    return lost if lost.problem else frontmatter


def read_state_lines(text: str, frontmatter: Frontmatter) -> list[str]:
    """Return the states that a block, or the start of a text without one, contains.

    A hint for blocks that cannot be read, or that have `state` twice.
    """
    head = text[frontmatter.start : frontmatter.end or HEAD]
    return [*find_state_lines(head), *(each for each in frontmatter.states if each in STATES)]


def replace_said_states(text: str, frontmatter: Frontmatter, state: str) -> str:
    """Return the text with `state` in each line that contains a state."""
    return replace_state_lines(text, frontmatter.start, frontmatter.end, state)


def _read_lost(text: str, problem: str) -> Frontmatter:
    """Return a problem if a text without a block has properties elsewhere."""
    head = text[:HEAD]
    if "\r" in head:
        head = head.replace("\r\n", "\n").replace("\r", "\n")
    states: tuple[str, ...] = ()
    is_lost = has_lost_lines(head)
    if block := find_foreign_block(head):
        hint = find_hint(block, _find_states(block))
        is_lost, states = is_lost or hint.is_hidden, hint.states
    return Frontmatter(problem=problem, states=states) if is_lost else _NONE


def _find_states(block: str) -> tuple[str, ...]:
    from vaultmem.core.notes.yaml_block import find_states

    return find_states(block)


def _read_block(block: str, place: Frontmatter) -> Frontmatter:
    if len(block.encode("utf-8", "surrogatepass")) > MAX_BLOCK_BYTES:
        limit = MAX_BLOCK_BYTES // 1024
        return _reject(block, place, f"the frontmatter is larger than {limit} KiB")
    if (properties := read_plain_block(block)) is not None:
        return place._replace(properties=properties)
    from vaultmem.core.notes.yaml_block import UnreadableBlockError, read_yaml_block

    try:
        result = read_yaml_block(block)
    except UnreadableBlockError as error:
        return _reject(block, place, str(error), error.is_mapping)
    states = _find_states(block) if may_hide(block) else ()
    if result is not None:
        return place._replace(properties=result[0], warnings=result[1], states=states)
    hint = find_hint(block, states)
    if hint.is_hidden:
        problem = "the frontmatter gives a state, but not as a property"
        return place._replace(problem=problem, states=hint.states)
    # Not frontmatter (unless empty): text between two thematic breaks.
    return Frontmatter() if block.strip() else place


def _reject(block: str, place: Frontmatter, problem: str, is_mapping: bool = False) -> Frontmatter:
    """Return invalid frontmatter if an unread block might be properties, else a warning."""
    hint = find_hint(block, _find_states(block))
    if is_mapping or hint.is_hidden or has_names(block):
        return place._replace(problem=problem, states=hint.states)
    return Frontmatter(warnings=(f"{problem}; all of it was read as body",))


def _find_block(text: str) -> tuple[int, int, int] | None:
    """Return start, end and body offset of the block; a body of -1 if it is not closed."""
    offset = 1 if text.startswith("\ufeff") else 0
    if not _OPENING.match(text, offset):
        return None
    start = _next_line(text, offset)
    closing = _CLOSING.search(text, start - 1)
    if closing is None:
        return start, start, -1
    return start, closing.start() + 1, _next_line(text, closing.end())


def _next_line(text: str, offset: int) -> int:
    newline = text.find("\n", offset)
    return len(text) if newline < 0 else newline + 1


# Convert property values, with a warning for each invalid value.

_E = TypeVar("_E", bound=StrEnum)

_TRUE = frozenset({"true", "yes", "on"})

JsonValue = str | bool | int | float | None | list[str]


class PropertyReader:
    """Convert properties to the types documented in vault-format.md, and collect warnings.

    Without `is_strict`, invalid values belong to the user, and there are no warnings.
    """

    def __init__(self, frontmatter: Frontmatter, *, is_strict: bool = True) -> None:
        self._is_strict = is_strict
        self._properties = {prop.name: prop for prop in frontmatter.properties}
        self.warnings: list[str] = []

    def text(self, name: str) -> str:
        """Return a property's text as written, "" if missing."""
        prop = self._properties.get(name)
        if prop is None or prop.kind == "null":
            return ""
        if isinstance(prop.value, tuple) or prop.kind == "map":
            self._warn(prop, "text")
            return ", ".join(prop.value) if isinstance(prop.value, tuple) else ""
        return prop.value.strip()

    def texts(self, *names: str) -> tuple[str, ...]:
        """Return the first of these list properties that exists; a single text is split."""
        for name in names:
            prop = self._properties.get(name)
            if prop is None or prop.kind == "null":
                continue
            if isinstance(prop.value, tuple):
                return tuple(item for item in prop.value if item.strip())
            if prop.kind == "map":
                self._warn(prop, "a list")
                return ()
            if prop.kind != "str":
                self._warn(prop, "a list")
            return split_text(name, prop.value)
        return ()

    def names_like(self, *names: str) -> tuple[str, ...]:
        """Return the properties with one of these names, exact matches first, then in any case."""
        lower_names = {each.lower(): each for each in self._properties}
        exact = [name for name in names if name in self._properties]
        return (
            *exact,
            *(lower_names[name] for name in names if name in lower_names and name not in exact),
        )

    def flag(self, name: str) -> bool:
        """Return whether a checkbox is set."""
        prop = self._properties.get(name)
        if prop is None or prop.kind == "null":
            return False
        if prop.kind != "bool":
            self._warn(prop, "true or false")
        return isinstance(prop.value, str) and prop.value.lower() in _TRUE

    def member(self, name: str, enum_type: type[_E], default: _E) -> _E:
        """Return the enum member of a property's value, or `default`."""
        text = self.text(name)
        if not text:
            return default
        try:
            return enum_type(text.lower())
        except ValueError:
            from difflib import get_close_matches

            names = [item.value for item in enum_type]
            near = get_close_matches(text.lower()[:40], names, 1)
            remedy = f'did you mean "{near[0]}"?' if near else f"use {', '.join(names)}"
            self._say(f'unknown {name} "{text[:40]}", read as {default}; {remedy}')
            return default

    def share(self, name: str) -> float | None:
        """Return a number from 0 to 1, or None."""
        text = self.text(name)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 <= number <= 1:
            self._say(f'{name} "{text[:40]}" is not a number from 0 to 1; ignored')
            return None
        return number

    def timestamp(self, name: str) -> str:
        """Return a date or timestamp as ISO 8601 text, or ""."""
        text = self.text(name)
        if not text:
            return ""
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            self._say(f'{name} "{text[:40]}" is not a date like 2026-11-21; ignored')
            return ""
        if len(text) <= 10:
            return value.date().isoformat()
        return text if text.startswith(f"{value.date()}T") else value.isoformat()

    def day(self, name: str) -> str:
        """Return a date as ISO 8601 text, or ""; never warn."""
        prop = self._properties.get(name)
        text = prop.value.strip(" []") if prop and isinstance(prop.value, str) else ""
        try:
            return datetime.fromisoformat(text[:10]).date().isoformat() if text else ""
        except ValueError:
            return ""

    def unknown_text(self, known_names: frozenset[str]) -> str:
        """Return the values of properties that are not in `known_names`, for search."""
        parts: list[str] = []
        for prop in self._properties.values():
            if prop.name in known_names or prop.kind in {"null", "bool", "map"}:
                continue
            parts.extend([prop.value] if isinstance(prop.value, str) else prop.value)
        return "\n".join(parts)

    def _warn(self, prop: Property, expected_type: str) -> None:
        self._say(f'the property "{prop.name}" should be {expected_type}')

    def _say(self, warning: str) -> None:
        if self._is_strict:
            self.warnings.append(warning)


def split_text(name: str, text: str) -> tuple[str, ...]:
    """Return the items of a list written as one text: split at commas, tags also at spaces."""
    is_tags = name.lower() in {"tags", "tag"}
    parts = text.replace(",", " ").split() if is_tags else text.split(",")
    return tuple(part for item in parts if (part := item.strip()))


def as_json(prop: Property) -> JsonValue:
    """Return a property as a JSON value; dates and NaN stay text, a map becomes null."""
    value = prop.value
    if isinstance(value, tuple):
        return list(value)
    if prop.kind == "null" or prop.kind == "map":
        return None
    if prop.kind == "bool":
        return value.lower() in _TRUE
    if prop.kind == "int" and re.fullmatch(r"-?(0|[1-9][0-9]{0,15})", value):
        return int(value)
    if prop.kind == "float" and re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", value):
        return float(value)
    return value


def read_timestamp(text: str) -> float | None:
    """Return an ISO 8601 date or timestamp as seconds since the epoch, else None.

    Without an offset, local time is used.
    """
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
