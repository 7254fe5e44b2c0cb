"""Find the links in a note's text, each with its place: wikilinks, embeds and markdown links.

Source: Obsidian Help, "Internal links", "Embed files" and "Basic formatting syntax" (comments).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.links.code import drop_unread
from vaultmem.core.notes.frontmatter import Frontmatter
from vaultmem.core.notes.properties import Property
from vaultmem.core.notes.sections import blank_fences, find_fences

# Only `]]` ends a link; a link stays on its line, and of nested brackets the inner ones count.
# It begins with plain characters, which `re` finds fastest; what stands before is looked at later.
_WIKILINK = re.compile(r"\[\[(?!\[)((?:[^\[\]\n]|\](?!\])|\[(?!\[))+)\]\]")
_DESTINATION = re.compile(
    r"\]\([ \t]*(?:<(?P<angle>[^<>\n]*)>|(?P<bare>[^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*))"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'))?[ \t]*\)"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")

#: Characters that the text of a markdown link may have.
_MAX_TEXT = 500


class LinkKind(StrEnum):
    """How a link is written; `PATH` is a plain path in the property `refs`."""

    WIKILINK = "wikilink"
    MARKDOWN = "markdown"
    PATH = "path"


class Link(NamedTuple):
    """A link as written: `path` decoded ("" for the note itself), `subpath` behind the first `#`.

    `start` and `end` are where the path is in the note's text (characters), `line` is 1-based.
    `property` names the property that it is in, "" for the body. A link in a `%%` comment is
    `hidden`: it is kept up to date and counts nowhere.
    """

    kind: LinkKind
    path: str
    subpath: str
    text: str
    start: int
    end: int
    line: int
    is_embed: bool = False
    property: str = ""
    is_hidden: bool = False


def find_links(
    text: str, matter: Frontmatter, fences: Sequence[tuple[int, int]] | None = None
) -> tuple[Link, ...]:
    """Return the links of a note's text in their order; `fences` are its own, if they are known.

    Not read: code, HTML comments, properties that are not one link as a whole, and anything in
    frontmatter that cannot be read.
    """
    found = _number_lines(text, list(_find_in_properties(text, matter)))
    if "](" not in text and "[[" not in text:
        return tuple(found)
    if fences is None:
        fences = find_fences(text, matter.body)
    return (*found, *_find_in_body(text, matter.body, fences))


def read_wikilink(text: str, start: int) -> tuple[Link, int] | None:
    """Return the wikilink whose brackets begin at a place of a text, and where it ends.

    It is not known here whether the place is code. `line` is 0.
    """
    match = _WIKILINK.match(text, start)
    link = _make_wikilink(text, match, 0, is_hidden=False) if match else None
    return (link, match.end()) if match and link else None


def split_destination(written: str) -> tuple[str, str] | None:
    """Return path and subpath of a markdown link's destination, None if it leads out of the vault.

    Both are as written, so that they can be found again; `decode_destination` reads them.
    """
    if not written or ((":" in written or "//" in written) and _SCHEME.match(written)):
        return None
    path, _, subpath = written.partition("#")
    path, mark, _ = path.partition("?")
    return None if mark and not path else (path, subpath)


def decode_destination(text: str) -> str:
    """Return a markdown link's destination without its percent escapes."""
    if "%" not in text:
        return text
    return _ESCAPES.sub(
        lambda run: bytes.fromhex(run.group().replace("%", "")).decode("utf-8", "replace"), text
    )


def encode_destination(text: str) -> str:
    """Return a path as a markdown link's destination: only what would end it is escaped."""
    return re.sub(r"[\s%#?()<>\\\[\]]", _escape, text)


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode())


def _find_in_body(text: str, body: int, fences: Sequence[tuple[int, int]]) -> Iterator[Link]:
    prose = blank_fences(text, fences)
    matches = list(_DESTINATION.finditer(prose, body))
    if wikilinks := list(_WIKILINK.finditer(prose, body)):
        matches = sorted([*wikilinks, *matches], key=re.Match.start)
    line, counted = 1, 0
    for match, is_hidden in drop_unread(matches, text, body, prose, fences):
        start = match.start()
        line, counted = line + text.count("\n", counted, start), start
        if match.re is _WIKILINK:
            link = _make_wikilink(text, match, line, is_hidden)
        else:
            link = _make_markdown_link(text, match, line, is_hidden, body)
        if link is not None:
            yield link


def _make_wikilink(
    text: str, match: re.Match[str], line: int, is_hidden: bool, name: str = ""
) -> Link | None:
    before = text[match.start() - 1 : match.start()]
    if before == "\\":
        return None
    inner = match[1]
    target, bar, shown = inner.partition("|")
    if bar and target.endswith("\\"):  # In a table, the bar is escaped.
        target = target[:-1]
    path, mark, subpath = target.partition("#")
    if not path.strip() and not (mark and subpath.strip()):
        return None
    if "](" in path:  # Obsidian takes what is in these brackets for a markdown link.
        return None
    start = match.start(1) + len(path) - len(path.lstrip())
    stripped = path.strip()
    return Link(
        kind=LinkKind.WIKILINK,
        path=stripped,
        subpath=subpath.strip(),
        text=shown.strip(),
        start=start,
        end=start + len(stripped),
        line=line,
        is_embed=before == "!",
        property=name,
        is_hidden=is_hidden,
    )


def _make_markdown_link(
    text: str, match: re.Match[str], line: int, is_hidden: bool, body: int
) -> Link | None:
    group = match.lastindex or 0
    written, closing = match[group], match.start()
    if (parts := split_destination(written)) is None:
        return None
    opening = _find_opening(text, closing, body)
    if opening < 0:
        return None
    path, subpath = parts
    start = match.start(group)
    end = start + len(path)
    is_embed = opening > 0 and text[opening - 1] == "!"
    if "%" in written:
        path, subpath = decode_destination(path), decode_destination(subpath)
    shown = text[opening + 1 : closing]
    return Link(
        LinkKind.MARKDOWN, path, subpath, shown, start, end, line, is_embed, is_hidden=is_hidden
    )


def _find_opening(text: str, closing: int, body: int) -> int:
    """Return where the bracket stands that a link's text begins with, -1 if there is none."""
    first = max(closing - _MAX_TEXT + 1, body)
    opening = text.rfind("[", first, closing)
    if opening < 0:
        return -1
    shown = text[opening:closing]
    if not ("]" in shown or "\\" in shown or "\n\n" in shown or text[opening - 1] == "\\"):
        return opening  # As nearly all are.
    depth = 0
    for place in range(closing, first - 1, -1):
        mark = text[place]
        if mark not in "[]\n" or text[place - 1 : place] == "\\":
            continue
        if mark == "\n" and text[place - 1 : place] in {"\n", ""}:
            return -1
        depth += {"]": 1, "[": -1}.get(mark, 0)
        if depth == 0 and mark == "[":
            return place
    return -1


def _find_in_properties(text: str, matter: Frontmatter) -> Iterator[Link]:
    if matter.problem or not matter.properties:
        return
    block = text[matter.start : matter.end]
    if "[[" not in block and "refs" not in block:
        return
    lines = block.splitlines(keepends=True)
    for prop in matter.properties:
        values = (prop.value,) if isinstance(prop.value, str) else prop.value
        start = matter.start + sum(map(len, lines[: prop.first]))
        piece = "".join(lines[prop.first : prop.last])
        whole = {value.strip().removeprefix("!") for value in values}
        for match in _WIKILINK.finditer(text, start, start + len(piece)):
            unquoted = match.group().replace("''", "'")
            link = _make_wikilink(text, match, 0, is_hidden=False, name=prop.name)
            if link and match.group() in whole:
                yield link
            elif link and unquoted in whole:  # In single quotes, YAML doubles each of them.
                yield link._replace(path=link.path.replace("''", "'"))
        if prop.name == "refs":
            yield from _find_paths(piece, start, prop)


def _find_paths(piece: str, start: int, prop: Property) -> Iterator[Link]:
    """Yield the items of `refs` that are plain paths, each where it stands if that is plain."""
    for value in (prop.value,) if isinstance(prop.value, str) else prop.value:
        item = value.strip()
        if not item or item.startswith("[[") or _SCHEME.match(item) or "\n" in item:
            continue
        path, _, subpath = item.partition("#")
        place = piece.find(item, piece.find(":") + 1)
        once = place >= 0 and piece.find(item, place + 1) < 0
        begin = start + place if once else -1
        yield Link(
            kind=LinkKind.PATH,
            path=path,
            subpath=subpath,
            text="",
            start=begin,
            end=begin + len(path) if once else -1,
            line=0,
            property=prop.name,
        )


def _number_lines(text: str, found: list[Link]) -> Iterator[Link]:
    line, counted = 1, 0
    for link in sorted(found, key=lambda each: each.start):
        if link.start >= 0:
            line += text.count("\n", counted, link.start)
            counted = link.start
        yield link._replace(line=line)


def link_to(path: str) -> str:
    """Return the wikilink that means the note at a path and no other, wherever it stands."""
    return f"[[{path.removesuffix('.md')}]]"
