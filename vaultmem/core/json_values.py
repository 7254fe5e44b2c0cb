"""Values as what JSON has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_named(value: Any) -> Any:
    """Return a named tuple as a dict by field, and so all that it holds; else the value itself."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: as_named(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_named(item) for item in value]
    return value


def as_plain(value: Any) -> Any:
    """Return named tuples, sets and paths as what JSON has; text is made UTF-8."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_plain(item) for item in value]
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)
