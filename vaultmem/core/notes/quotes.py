"""Lines of properties that YAML reads only with quotes: `- @name`, `title: Boats: a list`."""

from __future__ import annotations

import re

from vaultmem.core.notes.problems import NEEDS_QUOTES

#: A line of a block: what is before its value, the value, and what is after.
_VALUE = re.compile(r"(\s*(?:- +)*(?:[\w .-]+:[ \t]+)?)(\S.*?)([ \t]*\r?)")
_PLAIN = re.compile(r"[\w(][^#\"'{}\[\]|>]*")


def describe_unquoted(line: str) -> str:
    """Return why a line of a block needs quotes, "" if quotes would not help."""
    match = _VALUE.fullmatch(line)
    if match is None or " #" in match[2]:
        return ""
    if match[2].startswith(("@", "`")):
        return f"a value that begins with {match[2][0]} {NEEDS_QUOTES}"
    is_plain = ":" in match[1] and ": " in match[2] and _PLAIN.fullmatch(match[2])
    return f'a value with ": " in it {NEEDS_QUOTES}' if is_plain else ""


def quote_value(line: str) -> str:
    """Return a line with quotes around its value, and everything else as it was."""
    match = _VALUE.fullmatch(line)
    if match is None:
        return line
    before, value, after = match.groups()
    is_odd = '"' in value or "\\" in value
    quoted = "'" + value.replace("'", "''") + "'" if is_odd else f'"{value}"'
    return f"{before}{quoted}{after}"
