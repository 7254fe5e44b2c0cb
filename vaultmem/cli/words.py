"""Read plain arguments without the command line's library, whose import takes as long as Python.

Only what is plain to see is read: everything else, help and mistakes too, is for the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def read_words(
    arguments: Sequence[str], values: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[list[str], dict[str, Any]] | None:
    """Return a command's words, and what was given by the names that its options stand for.

    `values` are options that take a text, `flags` those that take none. None if anything else
    is there.
    """
    words: list[str] = []
    given: dict[str, Any] = {}
    rest = iter(arguments)
    for word in rest:
        if word in values:
            given[values[word]] = next(rest, "-")
        elif word in flags:
            given[flags[word]] = True
        else:
            words.append(word)
    if any(word[:1] == "-" for word in (*words, *given.values()) if isinstance(word, str)):
        return None
    return words, given
