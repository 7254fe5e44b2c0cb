"""JSON Schemas of tools, written short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Schema = dict[str, Any]

MOMENT = "As it was then: a branch, tag, commit or date such as 2026-10-01."

NOTE = "The note: its path in the vault, path#Heading, or its bare name."


def text(description: str, most: int = 10_000, least: int = 0) -> Schema:
    """Return the schema of a text of at most so many characters."""
    size = {"minLength": least} if least else {}
    return {"type": "string", "description": description, "maxLength": most, **size}


def whole(description: str, least: int, most: int) -> Schema:
    """Return the schema of a whole number within bounds."""
    return {"type": "integer", "description": description, "minimum": least, "maximum": most}


def share(description: str) -> Schema:
    """Return the schema of a number from 0 to 1."""
    return {"type": "number", "description": description, "minimum": 0, "maximum": 1}


def flag(description: str) -> Schema:
    """Return the schema of a yes or no."""
    return {"type": "boolean", "description": description}


def choice(description: str, values: Sequence[str]) -> Schema:
    """Return the schema of one of these words."""
    return {"type": "string", "description": description, "enum": list(values)}


def texts(description: str, values: Sequence[str] = ()) -> Schema:
    """Return the schema of a list of short texts, of these words if there are any."""
    item: Schema = {"type": "string", "maxLength": 1_000}
    if values:
        item = {"type": "string", "enum": list(values)}
    return {"type": "array", "description": description, "items": item, "maxItems": 100}


def arguments(required: Sequence[str] = (), **properties: Schema) -> Schema:
    """Return the schema of a tool's arguments; no others are taken."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def answer(**properties: Schema | str) -> Schema:
    """Return the schema of an answer, which has what is told beside these properties."""
    return record(told={"type": "string", "description": "The answer in words."}, **properties)


def record(**properties: Schema | str) -> Schema:
    """Return the schema of an object; `properties` are schemas or types ("string?" may be null)."""
    full = {
        name: _of_type(each) if isinstance(each, str) else each for name, each in properties.items()
    }
    return {"type": "object", "properties": full, "required": list(full)}


def rows(**properties: Schema | str) -> Schema:
    """Return the schema of a list of such objects, which may hold more."""
    return {"type": "array", "items": record(**properties)}


def _of_type(name: str) -> Schema:
    if name.endswith("?"):
        return {"type": [name[:-1], "null"]}
    return {"type": name}
