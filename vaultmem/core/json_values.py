"""Values as what JSON has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vaultmem.core.safe_text import escape_bytes


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
    """Return named tuples, sets and paths as what JSON has; bytes that are no UTF-8 are escaped."""
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
