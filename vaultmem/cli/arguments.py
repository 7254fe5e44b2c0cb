"""Read plain arguments without the command line's library, whose import takes as long as Python.

Only what is plain to see is read: everything else, help and mistakes too, is for the library.
"""

from __future__ import annotations

TYPE_CHECKING = False  # What `typing` has; importing that takes as long as reading arguments.

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Bytes of standard input that are read; a prompt may hold a whole file.
MAX_INPUT = 8 * 1024 * 1024

#: Options with a value that may stand before the command's name.
GLOBAL_OPTIONS = frozenset({"--vault", "--agent", "--session", "--ref"})


def read_words(
    arguments: Sequence[str], values: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[list[str], dict[str, Any]] | None:
    """Return a command's words, and what was given by the names of its options.

    `values` are options that take a text, `flags` those that take none. None if anything else
    is there.
    """
    words: list[str] = []
    given: dict[str, Any] = {}
    rest = iter(arguments)
    for word in rest:
        if values.get(word) in given:  # Which of the two is meant, the library says.
            return None
        if word in values:
            given[values[word]] = next(rest, "-")
        elif word in flags:
            given[flags[word]] = True
        else:
            words.append(word)
    if any(word[:1] == "-" for word in (*words, *given.values()) if isinstance(word, str)):
        return None
    return words, given


def find_command(arguments: list[str]) -> str:
    """Return the command that the arguments name, empty if that is not plain to see."""
    rest = iter(arguments)
    for argument in rest:
        if argument in GLOBAL_OPTIONS:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
        elif argument.partition("=")[0] not in GLOBAL_OPTIONS:
            return ""
    return ""
