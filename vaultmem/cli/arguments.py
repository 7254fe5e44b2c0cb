"""A parser for simple arguments, without the command-line library, which is slow to import.

Everything else, such as help and errors, is left to the library.
"""

from __future__ import annotations

TYPE_CHECKING = False  # Importing `typing` takes as long as reading the arguments.

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Maximum bytes of standard input; a prompt can contain a whole file.
MAX_INPUT = 8 * 1024 * 1024

#: Options with a value that can precede the command's name.
GLOBAL_OPTIONS = frozenset({"--vault", "--agent", "--session", "--ref"})


def read_words(
    arguments: Sequence[str], values: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[list[str], dict[str, Any]] | None:
    """Return a command's words, and the values of its options by name.

    `values` are options with a value, `flags` those without. Return None if there is anything else.
    """
    words: list[str] = []
    options: dict[str, Any] = {}
    rest = iter(arguments)
    for word in rest:
        if values.get(word) in options:  # The library handles repeated options.
            return None
        if word in values:
            options[values[word]] = next(rest, "-")
        elif word in flags:
            options[flags[word]] = True
        else:
            words.append(word)
    if any(word[:1] == "-" for word in (*words, *options.values()) if isinstance(word, str)):
        return None
    return words, options


def find_command(arguments: list[str]) -> str:
    """Return the command that the arguments name, "" if the library has to parse them."""
    rest = iter(arguments)
    for argument in rest:
        if argument in GLOBAL_OPTIONS:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
        elif argument.partition("=")[0] not in GLOBAL_OPTIONS:
            return ""
    return ""
