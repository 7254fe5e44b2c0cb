"""Convert Python values to JSON values, and JSON values to types."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from vaultmem.core.text.display import escape_bytes


def as_json_object(value: Any) -> Any:
    """Return a value with all named tuples in it as dicts; tuples become lists."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: as_json_object(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json_object(item) for item in value]
    return value


def as_plain(value: Any) -> Any:
    """Return a value as JSON types; bytes that are not UTF-8 are escaped, other types are str."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {escape_bytes(str(key)): as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_plain(item) for item in value]
    if isinstance(value, str):
        return escape_bytes(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return escape_bytes(str(value))


def pick(value: Any, names: str) -> dict[str, Any]:
    """Return attributes of a value as a dict.

    A `?` after a name makes an empty value null. `name=path` reads a nested or renamed attribute:
    "commit?=report.commit".
    """
    result = {}
    for each in names.split():
        name, _, path = each.partition("=")
        key = name.rstrip("?")
        item = attrgetter(path or key)(value)
        result[key] = item or None if name != key else item
    return result


def as_typed(value: Any, hint: Any) -> Any:
    """Return a JSON value as the annotated type, such as a named tuple.

    A named tuple or dataclass is read from a dict by field, or from a list by order. Unknown
    fields are ignored; missing ones get their defaults.

    Raises:
        ValueError: the value is not of this type.
        TypeError: a field without a default is missing.
    """
    if type(value) is hint:
        return value
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind is UnionType and isinstance(value, dict):  # `X | None`: the first type is used.
        return as_typed(value, inner[0])
    fields = getattr(kind, "_fields", None) or getattr(kind, "__dataclass_fields__", None)
    if fields and isinstance(value, dict | list):
        hints = _read_hints(kind)
        items = value if isinstance(value, dict) else dict(zip(fields, value, strict=False))
        names = [name for name in fields if name in items]
        return kind(**{name: as_typed(items[name], hints[name]) for name in names})
    if kind is list and isinstance(value, list):
        return [as_typed(item, inner[0]) for item in value]
    if kind is tuple and isinstance(value, list):
        each = inner[:1] * len(value) if inner[-1:] == (...,) else inner
        return tuple(as_typed(item, of) for item, of in zip(value, each, strict=True))
    if kind is dict and isinstance(value, dict):
        return {as_typed(key, inner[0]): as_typed(item, inner[1]) for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(value)
    if not fits(value, hint):
        raise ValueError(f"not {getattr(hint, '__name__', hint)}: {str(value)[:60]}")
    return value


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value and its items are of the annotated type."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in {Union, UnionType}:
        return any(fits(value, each) for each in inner)
    if kind is float:
        return isinstance(value, int | float)
    if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
        return False
    if hasattr(kind, "_fields"):
        hints = _read_hints(kind)
        return all(fits(getattr(value, name), hints[name]) for name in kind._fields)
    if kind is dict:
        return all(fits(k, inner[0]) and fits(each, inner[1]) for k, each in value.items())
    if kind is tuple and inner[-1:] == (...,):
        return all(fits(each, inner[0]) for each in value)
    return kind is not tuple or (len(value) == len(inner) and all(map(fits, value, inner)))


@cache
def _read_hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
