"""Regular expressions that are compiled on first use: a command imports many and uses few."""

from __future__ import annotations

import re
from typing import Any, cast


class _LaterPattern:
    """Compiles an expression when one of its methods is looked up, and keeps that method."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Copying and pickling look for methods that no pattern has.
            raise AttributeError(name)
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found


def compile_later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression as `re.compile` does, compiled on its first use.

    It has all methods and attributes of a pattern. The functions of `re` do not take it.
    """
    return cast("re.Pattern[str]", _LaterPattern(pattern, flags))
