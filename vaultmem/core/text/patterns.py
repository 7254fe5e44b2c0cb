"""Regular expressions compiled on first use, because a command imports many and uses few."""

from __future__ import annotations

import re
from typing import Any, cast


class _LaterPattern:
    """Compile an expression when one of its methods is read, and cache that method."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Copying and pickling look up absent methods.
            raise AttributeError(name)
        attribute = getattr(re.compile(*self._given), name)
        setattr(self, name, attribute)
        return attribute


def compile_later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression like `re.compile`, compiled on its first use.

    It has all methods and attributes of a pattern. Functions of `re` do not accept it.
    """
    return cast("re.Pattern[str]", _LaterPattern(pattern, flags))
