"""Problems of a note's frontmatter, and how they quote its text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from vaultmem.core.text.display import format_names
from vaultmem.core.text.patterns import compile_later

#: Separates the problem of an invalid note from the version or state used instead.
IN_DOUBT = "; until it is fixed, "

#: The end of a message about a value that YAML reads only in quotes.
NEEDS_QUOTES = "needs quotes"

#: A message about a line that begins with a tab.
NO_TAB = "YAML indents with spaces, not with a tab"

#: Begins the note's state after `IN_DOUBT`, if the note was hidden before: a repair keeps that.
RESTRICTED = "it is "

_PLACES = 10

_LINE = compile_later(r",? (?:in |\()?line (\d+)\)?")
_YAML = "the frontmatter is not valid YAML"

HOW_TO_QUOTE = "`vaultmem doctor --fix` adds the quotes, and changes nothing else"

#: Words of a problem and its repair; the first match counts.
_REPAIRS = (
    ("comment", "close the comment in its own line, or write `%%` as code"),
    ("conflict markers", "remove the markers in an editor"),
    ("its text is", "save it as UTF-8 with `iconv` or an editor"),
    ("NUL bytes", "save it as text"),
    (NO_TAB, "replace the tab with spaces in an editor"),
    ("never closed", "add a line `---` after the last property"),
    (_YAML, "correct the line that is named, in an editor"),
    ("frontmatter", "correct the frontmatter in an editor"),
    ("not a regular file", "replace it by a regular file, or remove it"),
    ("", "correct what is named, in an editor"),
)


class ProblemGroup(NamedTuple):
    """A problem and its places (path, or path:line)."""

    message: str
    places: tuple[str, ...]

    @property
    def repair(self) -> str:
        """The instruction for repairing the problem."""
        if self.message.endswith(NEEDS_QUOTES):
            return HOW_TO_QUOTE
        return next(repair for words, repair in _REPAIRS if words in self.message)


def group_problems(problems: Iterable[tuple[str, str]]) -> list[ProblemGroup]:
    """Return problems (path, text) grouped by equal text, the largest groups first."""
    groups: dict[str, list[str]] = {}
    for path, problem in problems:
        text, _, counts = problem.partition(IN_DOUBT)
        line = _LINE.search(text)
        text = _LINE.sub("", text, count=1)
        if text.startswith(_YAML):
            text = (
                text.removeprefix(f"{_YAML}: ") if text.endswith((NEEDS_QUOTES, NO_TAB)) else _YAML
            )
        text += f"; {counts}" if counts.startswith(RESTRICTED) else ""
        groups.setdefault(text, []).append(f"{path}:{line[1]}" if line else path)
    ordered = sorted(groups.items(), key=lambda each: -len(each[1]))
    return [ProblemGroup(label, tuple(places)) for label, places in ordered]


def describe_group(group: ProblemGroup, most: int = _PLACES) -> str:
    """Return a group as one line: its place or their number, the problem, and the first places."""
    if len(group.places) == 1:
        return f"{group.places[0]}: {group.message}"
    noun = "notes" if all(".md" in each for each in group.places) else "files"
    return f"{len(group.places):,} {noun}: {group.message}: {format_names(group.places, most)}"


def describe_repairs(groups: Iterable[ProblemGroup]) -> str:
    """Return the instructions for repairing the problems, each once."""
    return "; ".join(dict.fromkeys(group.repair for group in groups))


# Property lines that YAML reads only with quotes: `- @name`, `title: Boats: a list`.

#: A line of a block: the text before its value, the value, and the text after.
_VALUE = compile_later(r"(\s*(?:- +)*(?:[\w .-]+:[ \t]+)?)(\S.*?)([ \t]*\r?)")
_PLAIN_SCALAR = compile_later(r"[\w(][^#\"'{}\[\]|>]*")


def describe_line(line: str, problem: str) -> str:
    """Return why YAML cannot read a line of a block; `problem` is the parser's reason."""
    if "cannot start any token" in problem and line.lstrip(" ").startswith("\t"):
        return NO_TAB
    return describe_unquoted(line) or problem


def describe_unquoted(line: str) -> str:
    """Return why a line of a block needs quotes, or "" if quotes would not help."""
    match = _VALUE.fullmatch(line)
    if match is None or " #" in match[2]:
        return ""
    if match[2].startswith(("@", "`")):
        return f"a value that begins with {match[2][0]} {NEEDS_QUOTES}"
    is_plain = ":" in match[1] and ": " in match[2] and _PLAIN_SCALAR.fullmatch(match[2])
    return f'a value with ": " in it {NEEDS_QUOTES}' if is_plain else ""


def quote_value(line: str) -> str:
    """Return a line with quotes around its value; the rest is unchanged."""
    match = _VALUE.fullmatch(line)
    if match is None:
        return line
    before, value, after = match.groups()
    is_odd = '"' in value or "\\" in value
    quoted = "'" + value.replace("'", "''") + "'" if is_odd else f'"{value}"'
    return f"{before}{quoted}{after}"
