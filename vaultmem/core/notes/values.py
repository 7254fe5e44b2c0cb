"""Properties as values: read as far as they make sense, with a warning where they do not."""

from __future__ import annotations

import math
import re
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from vaultmem.core.notes.frontmatter import Frontmatter
from vaultmem.core.notes.properties import Property

_E = TypeVar("_E", bound=StrEnum)

_TRUE = frozenset({"true", "yes", "on"})

JsonValue = str | bool | int | float | None | list[str]


class PropertyReader:
    """Gives each property as the type that vault-format.md documents; collects warnings.

    Where it is not `is_strict`, what does not fit is a person's own, and nobody is warned.
    """

    def __init__(self, matter: Frontmatter, *, is_strict: bool = True) -> None:
        self._is_strict = is_strict
        self._properties = {prop.name: prop for prop in matter.properties}
        self.warnings: list[str] = []

    def text(self, name: str) -> str:
        """Return a property's text as written; empty where it has none."""
        prop = self._properties.get(name)
        if prop is None or prop.kind == "null":
            return ""
        if isinstance(prop.value, tuple) or prop.kind == "map":
            self._warn(prop, "text")
            return ", ".join(prop.value) if isinstance(prop.value, tuple) else ""
        return prop.value.strip()

    def texts(self, *names: str) -> tuple[str, ...]:
        """Return a list property, the first of these that there is; a single text is divided."""
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
            return divide_text(name, prop.value)
        return ()

    def names_like(self, *names: str) -> tuple[str, ...]:
        """Return the names of properties that are one of these in whatever case, in this order."""
        known = {each.lower(): each for each in self._properties}
        exact = [name for name in names if name in self._properties]
        return (*exact, *(known[name] for name in names if name in known and name not in exact))

    def flag(self, name: str) -> bool:
        """Return a checkbox."""
        prop = self._properties.get(name)
        if prop is None or prop.kind == "null":
            return False
        if prop.kind != "bool":
            self._warn(prop, "true or false")
        return isinstance(prop.value, str) and prop.value.lower() in _TRUE

    def member(self, name: str, closed: type[_E], default: _E) -> _E:
        """Return the member of a closed set that a property names."""
        text = self.text(name)
        if not text:
            return default
        try:
            return closed(text.lower())
        except ValueError:
            from difflib import get_close_matches

            names = [item.value for item in closed]
            near = get_close_matches(text.lower()[:40], names, 1)
            remedy = f'did you mean "{near[0]}"?' if near else f"use {', '.join(names)}"
            self._say(f'unknown {name} "{text[:40]}", read as {default}; {remedy}')
            return default

    def share(self, name: str) -> float | None:
        """Return a number from 0 to 1."""
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
        """Return a date or date and time as ISO 8601 text."""
        text = self.text(name)
        if not text:
            return ""
        try:
            read = datetime.fromisoformat(text)
        except ValueError:
            self._say(f'{name} "{text[:40]}" is not a date like 2026-11-21; ignored')
            return ""
        if len(text) <= 10:
            return read.date().isoformat()
        return text if text.startswith(f"{read.date()}T") else read.isoformat()

    def day(self, name: str) -> str:
        """Return a date as ISO 8601 text, "" where it is none: nobody is warned."""
        prop = self._properties.get(name)
        text = prop.value.strip(" []") if prop and isinstance(prop.value, str) else ""
        try:
            return datetime.fromisoformat(text[:10]).date().isoformat() if text else ""
        except ValueError:
            return ""

    def unknown_text(self, known: frozenset[str]) -> str:
        """Return the values of properties that are not `known`, to be searched as text."""
        parts: list[str] = []
        for prop in self._properties.values():
            if prop.name in known or prop.kind in {"null", "bool", "map"}:
                continue
            parts.extend([prop.value] if isinstance(prop.value, str) else prop.value)
        return "\n".join(parts)

    def _warn(self, prop: Property, wanted: str) -> None:
        self._say(f'the property "{prop.name}" should be {wanted}')

    def _say(self, warning: str) -> None:
        if self._is_strict:
            self.warnings.append(warning)


def divide_text(name: str, text: str) -> tuple[str, ...]:
    """Return the items of a list that is given as one text: at commas, tags at spaces as well."""
    is_tags = name.lower() in {"tags", "tag"}
    parts = text.replace(",", " ").split() if is_tags else text.split(",")
    return tuple(part for item in parts if (part := item.strip()))


def as_json(prop: Property) -> JsonValue:
    """Return a property as a JSON value; what JSON cannot hold (NaN, dates) stays text."""
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
    """Return an ISO 8601 date or time as seconds since the epoch, local time where unsaid."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
