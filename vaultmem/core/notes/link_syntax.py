"""Find links in a note's text, resolve them to files, and skip links in code.

Source: Obsidian Help, "Internal links", "Embed files" and "Basic formatting syntax" (comments).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from vaultmem.core.anchors import CITE_PROPERTIES, parse_anchor
from vaultmem.core.notes.frontmatter import Frontmatter
from vaultmem.core.notes.properties import Property
from vaultmem.core.notes.sections import blank_fences, find_fences
from vaultmem.core.text.paths import fold
from vaultmem.core.text.patterns import compile_later

# Code and comments of a text, which contain no links.
#
# Sources: CommonMark 0.31 ("Code spans", "Indented code blocks", "HTML blocks"); Obsidian Help,
# "Basic formatting syntax" (`%%` comments).

#: Start and end offsets of spans, alternating, in the order of the text.
Edges = Sequence[int]

_MARK = compile_later(r"(?P<ticks>`+)|(?P<html><!--)|(?P<comment>%%)|(?P<gap>\n[ \t]*\r?\n)")
_BACKTICK = compile_later("`")
_GAP = compile_later(r"\n[ \t]*\r?\n")
_LIST_ITEM = compile_later(r"[ \t]*(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)")
_INDENTED = compile_later(r" {4}| {0,3}\t")


class HiddenSpans(NamedTuple):
    """Code spans, HTML comments and `%%` comments of a text."""

    code: Edges = ()
    comments: Edges = ()
    hidden: Edges = ()


def drop_unread(
    matches: Iterable[re.Match[str]],
    text: str,
    body: int,
    prose: str,
    fences: Sequence[tuple[int, int]],
) -> Iterator[tuple[re.Match[str], bool]]:
    """Yield each match outside code and HTML comments, and whether a `%%` comment contains it.

    The matches are in order and on one line each. They were found in `prose`, the text with its
    fences blanked. Only paragraphs with matches are searched.
    """
    has_comments = "<!--" in prose or ("%" in prose and "%%" in prose)
    code, comments, hidden = find_marked(text, body, prose) if has_comments else HiddenSpans()
    indented: Edges | None = None
    gap = "\n\r\n" if "\r" in prose else "\n\n"
    end = body
    for match in matches:
        start = match.start()
        if start >= end:
            # A paragraph between blank lines; a "blank" line with spaces in it divides it further.
            begin = prose.rfind(gap, end, start) + 1 or end
            end = prose.find(gap, start)
            if end < 0:
                end = len(prose)
            paragraph = prose[begin:end]
            if not has_comments:
                code = _find_code(paragraph, begin) if "`" in paragraph else ()
            if indented is None and ("    " in paragraph or "\t" in paragraph):
                indented = _find_indented(text, body, fences)
        if not (
            (code and _touches(code, match))
            or (comments and _touches(comments, match))
            or (indented and _touches(indented, match))
        ):
            yield match, bool(hidden) and _is_within(hidden, start)


def _touches(edges: Edges, match: re.Match[str]) -> bool:
    return _is_within(edges, match.start()) or _is_within(edges, match.end() - 1)


def _is_within(edges: Edges, place: int) -> bool:
    return bisect_right(edges, place) % 2 == 1


def _find_code(paragraph: str, start: int) -> Edges:
    """Return the code spans of a paragraph without comments that begins at offset `start`."""
    if "``" in paragraph or "\\`" in paragraph or _GAP.search(paragraph):
        return [start + place for place in find_marked(paragraph, 0, paragraph).code]
    ticks = [start + match.start() for match in _BACKTICK.finditer(paragraph)]
    return ticks[: len(ticks) // 2 * 2]  # Backticks pair up in order.


def find_marked(text: str, body: int, prose: str) -> HiddenSpans:
    """Return code spans, HTML comments and `%%` comments; the one that opens first wins.

    An unclosed HTML comment reaches to the end; `%%` without a second one is text.
    """
    marks = list(_MARK.finditer(prose, body))
    closings = _pair_ticks(marks)
    code: list[int] = []
    comments: list[int] = []
    hidden: list[int] = []
    place, opened = body, -1
    for match in marks:
        start = match.start()
        if start < place:
            continue
        if match["ticks"] and start in closings:
            place = closings[start]
            code += (start, place)
        elif match["html"]:
            end = text.find("-->", match.end())
            place = len(text) if end < 0 else end + 3
            comments += (start, place)
        elif match["comment"] and opened < 0:
            opened = start
        elif match["comment"]:
            hidden += (opened, match.end())
            opened = -1
    return HiddenSpans(code, comments, hidden)


def _pair_ticks(marks: list[re.Match[str]]) -> dict[int, int]:
    """Return the end of the code span that each run of backticks would open, if closed."""
    closings: dict[int, int] = {}
    later: dict[int, int] = {}
    for match in reversed(marks):
        if match["gap"]:
            later.clear()  # A code span stays in its paragraph.
        elif match["ticks"]:
            length = len(match["ticks"])
            escaped = match.string[match.start() - 1 : match.start()] == "\\"
            if (end := later.get(length - escaped)) is not None:
                closings[match.start()] = end
            later[length] = match.end()
    return closings


def _find_indented(text: str, body: int, fences: Sequence[tuple[int, int]]) -> Edges:
    """Return indented code: lines indented four columns after a blank line, outside lists."""
    fenced = [place for span in fences for place in span]
    edges: list[int] = []
    is_blank, is_code, in_list = True, False, False
    place = body
    for line in text[body:].splitlines(keepends=True):
        start, place = place, place + len(line)
        if line.isspace():
            is_blank = True
            continue
        indented = line[0] in " \t" and _INDENTED.match(line)
        if fenced and _is_within(fenced, start):
            is_code = False
        elif indented and not in_list and (is_blank or is_code):
            edges += (start, place)
            is_code = True
        else:
            is_code = False
            if _LIST_ITEM.match(line):
                in_list = True
            elif is_blank and not line[0].isspace():
                in_list = False
        is_blank = False
    return edges


# Only `]]` ends a link, on the same line; of nested brackets the inner ones count. The pattern
# begins with plain characters, which `re` finds fastest; the text before it is checked later.
_WIKILINK = re.compile(r"\[\[(?!\[)((?:[^\[\]\n]|\](?!\])|\[(?!\[))+)\]\]")
_DESTINATION = compile_later(
    r"\]\([ \t]*(?:<(?P<angle>[^<>\n]*)>|(?P<bare>[^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*))"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'))?[ \t]*\)"
)
_SCHEME = compile_later(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_ESCAPES = compile_later(r"(?:%[0-9A-Fa-f]{2})+")

#: Most characters of a markdown link's text.
_MAX_TEXT = 500


class LinkKind(StrEnum):
    """The syntax of a link; `PATH` is a plain path in the property `cites`."""

    WIKILINK = "wikilink"
    MARKDOWN = "markdown"
    PATH = "path"


class Link(NamedTuple):
    """A link: its decoded `path` ("" for the note itself), and `subpath` after the first `#`.

    `start` and `end` are character offsets of the path in the note's text, `line` is 1-based.
    `property` is the name of its property, "" for the body. Links in `%%` comments are hidden: they
    are updated, but they do not count as links.
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
    text: str, frontmatter: Frontmatter, fences: Sequence[tuple[int, int]] | None = None
) -> tuple[Link, ...]:
    """Return the links of a note's text in order; `fences` are its fenced code, if known.

    Ignored: code, HTML comments, properties that are not one whole link, and invalid frontmatter.
    """
    links = _number_lines(text, list(_find_in_properties(text, frontmatter)))
    if "](" not in text and "[[" not in text:
        return tuple(links)
    if fences is None:
        fences = find_fences(text, frontmatter.body)
    return (*links, *_find_in_body(text, frontmatter.body, fences))


def read_whole_link(text: str) -> Link | None:
    """Return the link that is all of a text, or None. `line` is 0."""
    if wikilink := _WIKILINK.fullmatch(text):
        return _make_wikilink(text, wikilink, 0, is_hidden=False)
    destination = _DESTINATION.search(text)
    link = _make_markdown_link(text, destination, 0, False, 0) if destination else None
    return link if link and destination and _join_link(link, destination) == text else None


def _join_link(link: Link, destination: re.Match[str]) -> str:
    return f"[{link.text}{destination.group()}"


def read_wikilink(text: str, start: int) -> tuple[Link, int] | None:
    """Return the wikilink whose brackets begin at an offset, and its end, or None.

    Code is not recognized here. `line` is 0.
    """
    match = _WIKILINK.match(text, start)
    link = _make_wikilink(text, match, 0, is_hidden=False) if match else None
    return (link, match.end()) if match and link else None


def split_destination(destination: str) -> tuple[str, str] | None:
    """Return path and subpath of a markdown link's destination, None if it leaves the vault.

    Both stay as written; decode them with `decode_destination`.
    """
    if not destination or (
        (":" in destination or "//" in destination) and _SCHEME.match(destination)
    ):
        return None
    path, _, subpath = destination.partition("#")
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
    """Return a path as a markdown link's destination; characters that would end it are escaped."""
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
    prefix = text[match.start() - 1 : match.start()]
    if prefix == "\\":
        return None
    inner = match[1]
    target, bar, label = inner.partition("|")
    if bar and target.endswith("\\"):  # In a table, the bar is escaped.
        target = target[:-1]
    path, mark, subpath = target.partition("#")
    if not path.strip() and not (mark and subpath.strip()):
        return None
    if "](" in path:  # Obsidian reads this as a markdown link.
        return None
    start = match.start(1) + len(path) - len(path.lstrip())
    stripped = path.strip()
    return Link(
        kind=LinkKind.WIKILINK,
        path=stripped,
        subpath=subpath.strip(),
        text=label.strip(),
        start=start,
        end=start + len(stripped),
        line=line,
        is_embed=prefix == "!",
        property=name,
        is_hidden=is_hidden,
    )


def _make_markdown_link(
    text: str, match: re.Match[str], line: int, is_hidden: bool, body: int
) -> Link | None:
    group = match.lastindex or 0
    destination, closing = match[group], match.start()
    if (parts := split_destination(destination)) is None:
        return None
    opening = _find_opening(text, closing, body)
    if opening < 0:
        return None
    path, subpath = parts
    start = match.start(group)
    end = start + len(path)
    is_embed = opening > 0 and text[opening - 1] == "!"
    if "%" in destination:
        path, subpath = decode_destination(path), decode_destination(subpath)
    label = text[opening + 1 : closing]
    return Link(
        LinkKind.MARKDOWN, path, subpath, label, start, end, line, is_embed, is_hidden=is_hidden
    )


def _find_opening(text: str, closing: int, body: int) -> int:
    """Return the offset of the bracket that opens a link's text, or -1."""
    first = max(closing - _MAX_TEXT + 1, body)
    opening = text.rfind("[", first, closing)
    if opening < 0:
        return -1
    label = text[opening:closing]
    if not ("]" in label or "\\" in label or "\n\n" in label or text[opening - 1] == "\\"):
        return opening  # Nearly all links.
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


def _find_in_properties(text: str, frontmatter: Frontmatter) -> Iterator[Link]:
    if frontmatter.problem or not frontmatter.properties:
        return
    block = text[frontmatter.start : frontmatter.end]
    if not any(mark in block for mark in ("[[", "](", *CITE_PROPERTIES)):
        return
    lines = block.splitlines(keepends=True)
    for prop in frontmatter.properties:
        values = (prop.value,) if isinstance(prop.value, str) else prop.value
        start = frontmatter.start + sum(map(len, lines[: prop.first]))
        piece = "".join(lines[prop.first : prop.last])
        whole = {value.strip().removeprefix("!") for value in values}
        for match in _WIKILINK.finditer(text, start, start + len(piece)):
            unquoted = match.group().replace("''", "'")
            link = _make_wikilink(text, match, 0, is_hidden=False, name=prop.name)
            if link and match.group() in whole:
                yield link
            elif link and unquoted in whole:  # YAML doubles quotes in single quotes.
                yield link._replace(path=link.path.replace("''", "'"))
        for destination in _DESTINATION.finditer(text, start, start + len(piece)):
            link = _make_markdown_link(text, destination, 0, False, start)
            if link and _join_link(link, destination) in whole:
                yield link._replace(property=prop.name)
        if prop.name in CITE_PROPERTIES:
            yield from _find_paths(piece, start, prop)


def _find_paths(piece: str, start: int, prop: Property) -> Iterator[Link]:
    """Yield the items of `cites` that are plain paths; `start` is -1 if the position is unclear.

    `text` is the whole item if it is an anchor (see `core.anchors`).
    """
    for value in (prop.value,) if isinstance(prop.value, str) else prop.value:
        item = value.strip()
        anchor = parse_anchor(item)
        if anchor is None and (not item or item.startswith("[[") or _SCHEME.match(item)):
            continue
        if "\n" in item or read_whole_link(item):
            continue
        path, _, subpath = (anchor.path if anchor else item).partition("#")
        place = piece.find(item, piece.find(":") + 1)
        once = place >= 0 and piece.find(item, place + 1) < 0
        begin = start + place if once else -1
        yield Link(
            kind=LinkKind.PATH,
            path=path,
            subpath=subpath,
            text=item if anchor is not None and item != anchor.path else "",
            start=begin,
            end=begin + len(path) if once else -1,
            line=0,
            property=prop.name,
        )


def _number_lines(text: str, links: list[Link]) -> Iterator[Link]:
    line, counted = 1, 0
    for link in sorted(links, key=lambda each: each.start):
        if link.start >= 0:
            line += text.count("\n", counted, link.start)
            counted = link.start
        yield link._replace(line=line)


#: Characters that a wikilink's name cannot contain.
UNLINKABLE = frozenset("#^[]|")


def link_to(path: str, subpath: str = "") -> str:
    """Return a link by full path, which is unique in the vault; `subpath` begins with `#`.

    It is a wikilink, or a markdown link if no wikilink can contain the path.
    """
    if UNLINKABLE & set(path):
        return link_in_markdown(path, encode_destination(path) + subpath)
    return f"[[{path.removesuffix('.md')}{subpath}]]"


def link_in_markdown(path: str, destination: str) -> str:
    """Return a markdown link whose text is the name of the file at a path."""
    label = path.rpartition("/")[2].removesuffix(".md")
    return f"[{re.sub(r'[][]', '', label)}]({destination})"


# Resolve links to files and sections as Obsidian does, and write them.


class LinkNames:
    """Index of a vault's paths and aliases for resolving links."""

    def __init__(
        self, paths: Iterable[str], aliases: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        self._by_name: dict[str, list[tuple[str, str]]] = {}
        for path in paths:
            folded = fold(path)
            self._by_name.setdefault(folded.rpartition("/")[2], []).append((folded, path))
        self._aliases: dict[str, list[tuple[str, str]]] = {}
        for path, names in (aliases or {}).items():
            for name in names:
                self._aliases.setdefault(fold(name.strip()), []).append((fold(path), path))

    def find(self, link: Link, source: str) -> str | None:
        """Return the path that a link in the note `source` resolves to, or None."""
        if not link.path:
            return source
        if link.kind is LinkKind.PATH:
            return self._find_exact(fold(link.path), link.path)
        return self.resolve(link.path, source)

    def resolve(self, target: str, source: str) -> str | None:
        """Return the path that a link's path in the note `source` resolves to, or None."""
        key = fold(target)
        folder = fold(source).rpartition("/")[0]
        for name, spelling in ((key, target), (f"{key}.md", f"{target}.md")):
            if "." in name.rpartition("/")[2] and (path := self._look_up(name, spelling, folder)):
                return path
        return _choose(self._aliases.get(key, []), folder, "")

    def is_alone(self, path: str) -> bool:
        """Return whether no other file has this file's name."""
        return len(self._by_name.get(fold(path).rpartition("/")[2], [])) <= 1

    def _look_up(self, name: str, spelling: str, folder: str) -> str | None:
        if name.startswith(("./", "../")):
            path = _join(folder, name)
            return None if path is None else self._find_exact(path, "")
        if name.startswith("/"):
            return self._find_exact(name[1:], spelling[1:])
        if exact := self._find_exact(name, spelling):
            return exact
        ending = f"/{name}"
        candidates = self._by_name.get(name.rpartition("/")[2], [])
        return _choose([each for each in candidates if each[0].endswith(ending)], folder, name)

    def _find_exact(self, name: str, spelling: str) -> str | None:
        """Return the file at a path; of paths that differ only in case, the one as written."""
        candidates = self._by_name.get(name.rpartition("/")[2], [])
        paths = sorted(path for folded, path in candidates if folded == name)
        return spelling if spelling in paths else paths[0] if paths else None


def spell(link: Link, target: str, source: str, names: LinkNames) -> str | None:
    """Return a link's path, rewritten to resolve to `target` in `source`.

    The style stays: relative, from the root, with folders, or only the name; with or without `.md`.
    None if this kind of link cannot contain a path to the target.
    """
    has_ending = link.path.lower().endswith(".md") or not target.lower().endswith(".md")
    whole = target if has_ending else target[:-3]
    name = whole.rpartition("/")[2]
    if link.kind is LinkKind.PATH:
        return target
    if link.path.startswith(("./", "../")):
        candidates = [_relative(whole, source), whole]
    elif link.path.startswith("/"):
        candidates = [f"/{whole}", whole]
    elif "/" in link.path:
        candidates = [whole]
    else:
        candidates = [name, whole]
    for path in (*candidates, target):
        if link.kind is LinkKind.WIKILINK and UNLINKABLE & set(path):
            continue
        if names.resolve(path, source) == target:
            return encode_destination(path) if link.kind is LinkKind.MARKDOWN else path
    return None


def spell_new(target: str, source: str, names: LinkNames, *, is_relative: bool) -> str:
    """Return the path of a new link to a note, without its ending, as Obsidian writes it.

    The name alone if unique, else the whole path; with `is_relative`, the path from the folder
    of `source` without a leading `./`. A path that would resolve to another file is the whole path.
    """
    whole = target.removesuffix(".md")
    if is_relative:
        path = _relative(whole, source).removeprefix("./")
    else:
        path = whole.rpartition("/")[2] if names.is_alone(target) else whole
    return path if names.resolve(path, source) == target else whole


def _choose(candidates: list[tuple[str, str]], folder: str, name: str) -> str | None:
    """Return the best candidate (folded, path): own folder, then shortest, then alphabetical."""
    if not candidates:
        return None
    own = f"{folder}/{name}" if folder else name
    best = min(
        candidates,
        key=lambda each: (
            each[0] != own if name else each[0].rpartition("/")[0] != folder,
            len(each[1]),
            each[1],
        ),
    )
    return best[1]


def _join(folder: str, name: str) -> str | None:
    """Return the target of a relative path, None if outside the vault."""
    parts = folder.split("/") if folder else []
    for part in name.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in {".", ""}:
            parts.append(part)
    return "/".join(parts)


def _relative(target: str, source: str) -> str:
    source_folders, target_parts = source.split("/")[:-1], target.split("/")
    shared = 0
    while (
        shared < min(len(source_folders), len(target_parts) - 1)
        and source_folders[shared] == target_parts[shared]
    ):
        shared += 1
    up = [".."] * (len(source_folders) - shared) or ["."]
    return "/".join([*up, *target_parts[shared:]])


#: A block's name, at the end of the block.
BLOCK_NAME = compile_later(r"(?:^|(?<=\s))\^([A-Za-z0-9-]+)[ \t]*\r?$", re.MULTILINE)


class SectionHeading(Protocol):
    """The fields of a section that links need."""

    @property
    def heading(self) -> str:
        """The heading, "" without one."""

    @property
    def parents(self) -> tuple[str, ...]:
        """The headings above it, outermost first."""

    @property
    def start(self) -> int:
        """The offset where its text begins in the note's."""

    @property
    def end(self) -> int:
        """The offset where its text ends."""


S = TypeVar("S", bound=SectionHeading)


def find_place(sections: Sequence[S], subpath: str, text: str) -> S | None:
    """Return the section that a link's subpath resolves to, or None.

    Without a subpath it is the first section. A heading without own text resolves to the first
    section below it. Block names are searched in `text`, the note's text.
    """
    if not subpath:
        return sections[0] if sections else None
    if subpath.startswith("^"):
        block_name = subpath[1:].strip().casefold()
        for match in BLOCK_NAME.finditer(text):
            if match[1].casefold() == block_name:
                inside = (s for s in sections if s.start <= match.start() <= s.end)
                return next(inside, None)
        return None
    names = [name for part in subpath.split("#") if (name := fold_heading(part))]
    for section in sections if names else ():
        if _matches(section, names):
            return section
    return None


def _matches(section: SectionHeading, names: list[str]) -> bool:
    """Return whether a section's headings contain the names, in order."""
    line = [fold_heading(name) for name in (*section.parents, section.heading)]
    rest = iter(line)
    return all(name in rest for name in names)


def fold_heading(text: str) -> str:
    """Return a heading's words in lower case, for comparison with links."""
    return " ".join(re.findall(r"\w+", text)).casefold()
