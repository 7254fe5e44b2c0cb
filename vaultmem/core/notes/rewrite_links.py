"""Change link paths in the text of a note or canvas by position; the rest is unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from vaultmem.core.notes.canvas import find_strings, is_canvas
from vaultmem.core.notes.frontmatter import Frontmatter, read_frontmatter
from vaultmem.core.notes.link_syntax import (
    Link,
    LinkKind,
    LinkNames,
    decode_destination,
    find_links,
    spell,
)
from vaultmem.errors import RefusedError


class LinkEdit(NamedTuple):
    """A link's old path and the new one."""

    link: Link
    old: str
    new: str


def plan_edits(
    text: str, place: tuple[str, str], before: LinkNames, after: LinkNames, moved: tuple[str, str]
) -> list[LinkEdit]:
    """Return the edits after which each link of a note resolves to the same file as before.

    `place` is the note's own path before and after the move, `moved` that of the moved note.

    Raises:
        RefusedError: a link cannot contain the new path.
    """
    edits = []
    for link in _find_all(place[0], text):
        if link.start < 0 or not link.path:
            continue
        old_target = before.find(link, place[0])
        if old_target is None:
            continue
        target = moved[1] if old_target == moved[0] else old_target
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


def plan_repairs(
    text: str, place: tuple[str, str], before: LinkNames, after: LinkNames, moved: Mapping[str, str]
) -> list[LinkEdit]:
    """Return the edits after which broken links resolve to their files again.

    `place` is the note's own path before and after the moves; `moved` maps old paths of moved files
    to present ones. Links that cannot contain the new path are omitted.
    """
    edits = []
    for link in _find_all(place[1], text):
        if link.start < 0 or not link.path or after.find(link, place[1]) is not None:
            continue
        old_target = before.find(link, place[0])
        target = None if old_target is None else moved.get(old_target, old_target)
        if target and (path := spell(link, target, place[1], after)):
            edits.append(LinkEdit(link, text[link.start : link.end], path))
    return edits


def _find_all(path: str, text: str) -> Iterable[Link]:
    """Return the links of a note; for a canvas, `text` is its JSON."""
    if is_canvas(path):
        return find_canvas_links(text)
    return find_links(text, read_frontmatter(text))


def apply_edits(text: str, edits: Sequence[LinkEdit], path: str = "") -> str:
    """Return the text of the note at `path` with these edits, which are in link order.

    For a canvas, `text` is its JSON.

    Raises:
        RefusedError: an edit would change more than these paths.
    """
    if not edits:
        return text
    parts: list[str] = []
    place = 0
    for edit in edits:
        start = edit.link.start
        quoted = edit.link.property and text[max(start - 4, 0) : start].rstrip(" [!").endswith("'")
        new = edit.new.replace("'", "''") if quoted else edit.new
        new = json.dumps(new, ensure_ascii=False)[1:-1] if is_canvas(path) else new
        parts += [text[place:start], new]
        place = edit.link.end
    changed = "".join([*parts, text[place:]])
    _check(path, text, changed, edits)
    return changed


def _check(path: str, before: str, after: str, edits: Sequence[LinkEdit]) -> None:
    """Check that the result has the same links with the new paths; raise `RefusedError` if not."""
    new_paths = {edit.link: edit.new for edit in edits}
    expected = []
    for link in _find_all(path, before):
        target = new_paths.get(link, link.path)
        is_encoded = link in new_paths and link.kind is LinkKind.MARKDOWN
        expected.append(decode_destination(target) if is_encoded else target)
    if [link.path for link in _find_all(path, after)] != expected:
        raise RefusedError("a link cannot be changed without touching other text; change it there")


#: One character of a JSON string.
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)


def find_canvas_links(text: str) -> Iterator[Link]:
    """Yield the files of a canvas and the links in its cards, with their offsets in `text`.

    `line` is the line in the JSON. Invalid JSON gives no links.
    """
    try:
        strings = list(find_strings(text)) if json.loads(text) else []
    except (ValueError, RecursionError):
        return
    for key, start, end in strings:
        line = text.count("\n", 0, start) + 1
        value = json.loads(text[start - 1 : end + 1])
        if key == "file":
            yield Link(LinkKind.PATH, value, "", "", start, end, line)
            continue
        links = find_links(value, Frontmatter())
        places = [match.start() for match in _CHARACTER.finditer(text, start, end)] if links else []
        places.append(end)
        for link in links:
            yield link._replace(start=places[link.start], end=places[link.end], line=line)
