"""Where in a note a link leads: the section under a heading, or the one that holds a block.

Source: Obsidian Help, "Internal links": `#A#B` is B below A; `#^id` is the block that ends in
` ^id`. Case, spacing and punctuation of a heading do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

_BLOCK = re.compile(r"(?:^|(?<=\s))\^([A-Za-z0-9-]+)[ \t]*\r?$", re.MULTILINE)


class Place(Protocol):
    """What a section has to tell."""

    @property
    def heading(self) -> str:
        """Its heading, "" where it has none."""

    @property
    def parents(self) -> tuple[str, ...]:
        """The headings above it, outermost first."""

    @property
    def start(self) -> int:
        """Where its text begins in the note's."""

    @property
    def end(self) -> int:
        """Where its text ends."""


S = TypeVar("S", bound=Place)


def find_place(sections: Sequence[S], subpath: str, text: str) -> S | None:
    """Return the section that a link's subpath means, None if there is none.

    Without a subpath it is the first section. A heading with no text of its own leads to the
    first section below it. `text` is the note's; blocks are looked for in it.
    """
    if not subpath:
        return sections[0] if sections else None
    if subpath.startswith("^"):
        wanted = subpath[1:].strip().casefold()
        for match in _BLOCK.finditer(text):
            if match[1].casefold() == wanted:
                inside = (s for s in sections if s.start <= match.start() <= s.end)
                return next(inside, None)
        return None
    names = [name for part in subpath.split("#") if (name := _fold_heading(part))]
    for section in sections if names else ():
        if _matches(section, names):
            return section
    return None


def _matches(section: Place, names: list[str]) -> bool:
    """Tell whether the wanted headings are among a section's, in their order."""
    line = [_fold_heading(name) for name in (*section.parents, section.heading)]
    rest = iter(line)
    return all(name in rest for name in names)


def _fold_heading(text: str) -> str:
    return " ".join(re.findall(r"\w+", text)).casefold()
