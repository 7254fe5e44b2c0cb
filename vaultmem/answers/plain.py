"""Values as what JSON has."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any


def as_plain(value: Any) -> Any:
    """Return dataclasses, sets and paths as what JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        return as_plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_plain(item) for item in value]
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)
