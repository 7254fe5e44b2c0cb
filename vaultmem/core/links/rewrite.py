"""Change the paths of links in a note's text by position; every other character stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vaultmem.core.links.link import Link, LinkKind, decode_destination, find_links
from vaultmem.core.links.names import Names, spell
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.errors import RefusedError


class LinkEdit(NamedTuple):
    """One link's path and what replaces it."""

    link: Link
    old: str
    new: str


def plan_edits(
    text: str, place: tuple[str, str], before: Names, after: Names, moved: tuple[str, str]
) -> list[LinkEdit]:
    """Return what to change so that each link of a note means the same file as before.

    `place` is the note's own path before and behind the move, `moved` that of the moved note.

    Raises:
        RefusedError: a link cannot be written for its file.
    """
    edits = []
    for link in find_links(text, read_frontmatter(text)):
        if link.start < 0 or not link.path:
            continue
        meant = before.find(link, place[0])
        if meant is None:
            continue
        target = moved[1] if meant == moved[0] else meant
        if after.find(link, place[1]) == target:
            continue
        path = spell(link, target, place[1], after)
        if path is None:
            raise RefusedError(
                f"{place[0]}: line {link.line}: no link can name {target}; "
                "choose a name without # ^ [ ]"
            )
        edits.append(LinkEdit(link, text[link.start : link.end], path))
    return edits


def apply_edits(text: str, edits: Sequence[LinkEdit]) -> str:
    """Return the text with these edits made, which are in the order of the links.

    Raises:
        RefusedError: something else than these paths would change.
    """
    if not edits:
        return text
    parts: list[str] = []
    place = 0
    for edit in edits:
        start = edit.link.start
        quoted = edit.link.property and text[max(start - 4, 0) : start].rstrip(" [!").endswith("'")
        parts += [text[place:start], edit.new.replace("'", "''") if quoted else edit.new]
        place = edit.link.end
    changed = "".join([*parts, text[place:]])
    _check(text, changed, edits)
    return changed


def _check(before: str, after: str, edits: Sequence[LinkEdit]) -> None:
    """Read the result again: its links must be those of before, with the new paths."""
    new = {edit.link: edit.new for edit in edits}
    wanted = []
    for link in find_links(before, read_frontmatter(before)):
        path = new.get(link, link.path)
        is_encoded = link in new and link.kind is LinkKind.MARKDOWN
        wanted.append(decode_destination(path) if is_encoded else path)
    if [link.path for link in find_links(after, read_frontmatter(after))] != wanted:
        raise RefusedError("a link cannot be changed without touching other text; change it there")
