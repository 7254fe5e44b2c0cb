"""Files of markdown that other programs keep their memory in: properties, and sections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.sections import find_blocks


class MarkdownFile(NamedTuple):
    """A file: the parts of its path, its properties as texts, its text behind them, its time.

    `below` is its path in the folder that was named. `block` is the text of its properties.
    """

    parts: tuple[str, ...]
    below: tuple[str, ...]
    properties: Mapping[str, str | tuple[str, ...]]
    block: str
    body: str
    modified: datetime | None

    @property
    def stem(self) -> str:
        """Its name without ending."""
        return PurePosixPath(self.parts[-1]).stem

    def text_of(self, name: str) -> str:
        """Return a property's text, "" where it has none."""
        value = self.properties.get(name, "")
        return value if isinstance(value, str) else ""


def parse_markdown(
    parts: tuple[str, ...], below: tuple[str, ...], text: str, modified: datetime | None
) -> MarkdownFile:
    """Return a file of markdown as it is read."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    matter = read_frontmatter(text)
    properties = {each.name: each.value for each in matter.properties}
    block, body = text[: matter.body], text[matter.body :]
    return MarkdownFile(parts, below, properties, block, body, modified)


def find_owner(parts: tuple[str, ...], folder: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of the folder that the last `folder` on a path is in, and what is below.

    Without one, the name of the folder that the file is in, and the file's.
    """
    places = [place for place, part in enumerate(parts[:-1]) if part == folder]
    place = places[-1] if places else len(parts) - 1
    return (parts[place - 1] if place else ""), parts[place + 1 :] if places else parts[-1:]


def divide_text(text: str, level: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of each section that has text; deeper headings are of that.

    `level` is how deep headings divide; else it is the first that there are several of, else that
    below the document's title.
    """
    found = find_blocks(text, 0).headings
    depths = sorted({depth for _, _, depth, _ in found})
    several = [each for each in depths if sum(depth == each for _, _, depth, _ in found) > 1]
    level = level or next(iter(several or depths[1:] or depths), 0)
    kept = [each for each in found if each[2] <= level]
    ends = [*(begin for begin, _, _, _ in kept), len(text)]
    for (_, start, _, heading), end in zip([(0, 0, 0, ""), *kept], ends, strict=True):
        if body := text[start:end].strip():
            yield heading, body


def drop_lines(text: str, form: re.Pattern[str]) -> str:
    """Return a text without the lines that have a form."""
    return "\n".join(line for line in text.splitlines() if not form.match(line))
