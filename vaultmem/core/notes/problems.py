"""What is wrong with notes, in few lines: equal problems together, with where and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from vaultmem.core.safe_text import name_some

#: Follows the problem of a note that cannot be taken at its word, before what counts instead.
IN_DOUBT = "; until it is mended, "

#: What the message of a value that YAML reads only in quotes ends with.
NEEDS_QUOTES = "needs quotes"

#: Begins what counts in place of a note that was hidden before: no repair lets it out.
RESTRICTED = "it is "

_PLACES = 10

_LINE = re.compile(r",? (?:in |\()?line (\d+)\)?")
_YAML = "the frontmatter is not valid YAML"

HOW_TO_QUOTE = "`vaultmem doctor --fix` adds the quotes, and changes nothing else"

#: Words of a problem, and what repairs it; the first that fits counts.
_REPAIRS = (
    ("comment", "close the comment in its own line, or write `%%` as code"),
    ("conflict markers", "remove the markers in an editor"),
    ("its text is", "save it as UTF-8 with `iconv` or an editor"),
    ("NUL bytes", "save it as text"),
    ("frontmatter", "correct the line that is named in an editor"),
    ("", "correct what is named in an editor"),
)


class ProblemGroup(NamedTuple):
    """One problem and the places (path, or path:line) that have it."""

    told: str
    places: tuple[str, ...]

    @property
    def repair(self) -> str:
        """What repairs it."""
        if self.told.endswith(NEEDS_QUOTES):
            return HOW_TO_QUOTE
        return next(repair for words, repair in _REPAIRS if words in self.told)


def group_problems(found: Iterable[tuple[str, str]]) -> list[ProblemGroup]:
    """Return problems (path, text), equal ones as one group; the largest groups first."""
    groups: dict[str, list[str]] = {}
    for path, problem in found:
        text, _, counts = problem.partition(IN_DOUBT)
        line = _LINE.search(text)
        text = _LINE.sub("", text, count=1)
        if text.startswith(_YAML):
            text = text.removeprefix(f"{_YAML}: ") if text.endswith(NEEDS_QUOTES) else _YAML
        text += f"; {counts}" if counts.startswith(RESTRICTED) else ""
        groups.setdefault(text, []).append(f"{path}:{line[1]}" if line else path)
    ordered = sorted(groups.items(), key=lambda each: -len(each[1]))
    return [ProblemGroup(told, tuple(places)) for told, places in ordered]


def describe_group(group: ProblemGroup, most: int = _PLACES) -> str:
    """Return a group as one line: its place or their number, the problem, and the first places."""
    if len(group.places) == 1:
        return f"{group.places[0]}: {group.told}"
    what = "notes" if all(".md" in each for each in group.places) else "files"
    return f"{len(group.places):,} {what}: {group.told}: {name_some(group.places, most)}"


def describe_repairs(groups: Iterable[ProblemGroup]) -> str:
    """Return what repairs the problems, each repair once."""
    return "; ".join(dict.fromkeys(group.repair for group in groups))
