"""Short functions for JSON Schemas, and validation against them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vaultmem.core.text.display import one_line, pluralize

Schema = dict[str, Any]

STRINGS: Schema = {"type": "array", "items": {"type": "string"}}

#: Marks an argument that is not listed to clients.
UNLISTED_MARK = "unlisted"

NOTE = "The note: its path in the vault, path#Heading, or its bare name."


def text(description: str, most: int = 10_000, least: int = 0) -> Schema:
    """Return the schema of a text of `least` to `most` characters."""
    size = {"minLength": least} if least else {}
    return {"type": "string", "description": description, "maxLength": most, **size}


def whole(description: str, least: int, most: int) -> Schema:
    """Return the schema of a whole number within bounds."""
    return {"type": "integer", "description": description, "minimum": least, "maximum": most}


def number(description: str, least: float, most: float) -> Schema:
    """Return the schema of a number within bounds."""
    return {"type": "number", "description": description, "minimum": least, "maximum": most}


def flag(description: str) -> Schema:
    """Return the schema of a boolean."""
    return {"type": "boolean", "description": description}


def choice(description: str, values: Sequence[str]) -> Schema:
    """Return the schema of one of several words."""
    return {"type": "string", "description": description, "enum": list(values)}


def texts(description: str, values: Sequence[str] = (), least: int = 0) -> Schema:
    """Return the schema of a list of short texts, at least `least`, from `values` if any."""
    item: Schema = {"type": "string", "maxLength": 1_000}
    if values:
        item = {"type": "string", "enum": list(values)}
    size = {"minItems": least} if least else {}
    return {"type": "array", "description": description, "items": item, "maxItems": 100, **size}


def values(description: str) -> Schema:
    """Return the schema of values by name; null removes one."""
    plain: Schema = {"type": ["string", "number", "boolean", "null"]}
    each: Schema = {"anyOf": [plain, {**STRINGS, "maxItems": 100}]}
    return {"type": "object", "description": description, "additionalProperties": each}


def unlist(schema: Schema) -> Schema:
    """Return the schema of an argument that is accepted but not listed to clients."""
    return {**schema, UNLISTED_MARK: True}


def arguments(required: Sequence[str] = (), **properties: Schema) -> Schema:
    """Return the schema of arguments; no others are accepted."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def answer(**properties: Schema | str) -> Schema:
    """Return the schema of a tool's result: a message and these properties."""
    return record(message="string", **properties)


def record(**properties: Schema | str) -> Schema:
    """Return the schema of an object; properties are schemas or types ("string?": nullable)."""
    full = {
        name: _of_type(each) if isinstance(each, str) else each for name, each in properties.items()
    }
    return {"type": "object", "properties": full, "required": list(full)}


def rows(**properties: Schema | str) -> Schema:
    """Return the schema of a list of objects, which can have more properties."""
    return {"type": "array", "items": record(**properties)}


def fields(names: str) -> dict[str, Schema | str]:
    """Return properties from names: strings, or "name:integer"; a `?` at the end allows null."""
    pairs = (each.partition(":") for each in names.split())
    return {
        name.rstrip("?"): f"{kind or 'string'}{'?' * name.endswith('?')}" for name, _, kind in pairs
    }


def _of_type(name: str) -> Schema:
    if name.endswith("?"):
        return {"type": [name[:-1], "null"]}
    return {"type": name}


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}

#: The types as error messages name them.
_KINDS = {
    "string": "a string",
    "integer": "an integer, such as 5",
    "number": "a number, such as 0.5",
    "boolean": "true or false",
    "array": 'an array, such as ["TEXT"]',
    "object": "an object",
    "null": "null",
}


def read_given(schema: Schema, argument_values: dict[str, Any]) -> dict[str, Any]:
    """Return arguments in their intended form, without empty optional ones.

    5.0 becomes a whole number. Some models give all arguments, with null, "" or 0 for optional
    ones. Those are dropped if the schema does not allow the value.
    """
    properties, required = schema["properties"], schema["required"]
    result = {}
    for name, value in argument_values.items():
        property_schema = properties.get(name, {})
        if (
            property_schema.get("type") == "integer"
            and isinstance(value, float)
            and value.is_integer()
        ):
            value = int(value)
        if (
            value
            or name in required
            or name not in properties
            or not find_problem(property_schema, value)
        ):
            result[name] = value
    return result


def find_problem(schema: Schema, value: Any, where: str = "") -> str:
    """Return why a value does not match its schema, or "".

    The value itself is not repeated, because it can be long or secret.
    """
    if problem := _find_kind(schema, value):
        return f"{where}: {problem}" if where else problem
    if isinstance(value, dict):
        return _find_in_object(schema, value, where)
    if isinstance(value, list):
        items = schema.get("items", {})
        problems = (find_problem(items, each, f"{where}[{n}]") for n, each in enumerate(value))
        return next(filter(None, problems), "")
    return ""


def _find_kind(schema: Schema, value: Any) -> str:
    """Return why a value's type or size is wrong, or ""."""
    if "anyOf" in schema and all(find_problem(each, value) for each in schema["anyOf"]):
        return " or ".join(find_problem(each, value) for each in schema["anyOf"])
    if not any(_is_of(name, value) for name in _list_kinds(schema)):
        return _describe_kind(schema)
    if "enum" in schema and value not in schema["enum"]:
        return _describe_kind(schema)
    return _find_size(schema, value)


def _list_kinds(schema: Schema) -> list[str]:
    kind = schema.get("type", list(_TYPES))
    return [kind] if isinstance(kind, str) else kind


def _describe_kind(schema: Schema) -> str:
    """Return which values a schema allows."""
    if "enum" in schema:
        return f"must be one of {', '.join(map(str, schema['enum']))}"
    return f"must be {' or '.join(_KINDS[name] for name in _list_kinds(schema))}"


def _find_size(schema: Schema, value: Any) -> str:
    """Return why a value's length or size is wrong, or ""."""
    size: float
    if isinstance(value, str):
        size, least, most, unit = len(value), "minLength", "maxLength", "character"
    elif isinstance(value, list):
        size, least, most, unit = len(value), "minItems", "maxItems", "item"
    elif isinstance(value, int | float):
        size, least, most, unit = value, "minimum", "maximum", ""
    else:
        return ""
    if size < schema.get(least, size):
        return f"must {_format_bound('at least', schema[least], unit)}"
    if size > schema.get(most, size):
        return f"must {_format_bound('at most', schema[most], unit)}"
    return ""


def _format_bound(word: str, bound: float, unit: str) -> str:
    return f"have {word} {pluralize(int(bound), unit)}" if unit else f"be {word} {bound}"


def _find_in_object(schema: Schema, value: dict[str, Any], where: str) -> str:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            needed = properties[name].get("description") or f"it {_describe_kind(properties[name])}"
            return f'"{name}" is missing: {needed}'
    unknown = [name for name in value if name not in properties]
    if unknown and schema.get("additionalProperties", True) is False:
        name = one_line(unknown[0])[:60]
        return f'"{name}" is unknown: it takes {", ".join(properties)}, and nothing else'
    others = schema.get("additionalProperties")
    others = others if isinstance(others, dict) else {}
    problems = (
        find_problem(properties.get(name, others), each, f"{where}.{name}" if where else name)
        for name, each in value.items()
    )
    return next(filter(None, problems), "")


def _is_of(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if isinstance(value, float):
        return name == "number" and math.isfinite(value)
    return isinstance(value, _TYPES[name])
