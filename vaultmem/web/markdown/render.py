"""A note's text as HTML, and its properties as a table."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.token import Token

from vaultmem.core.links.link import read_wikilink
from vaultmem.core.notes.frontmatter import Frontmatter, read_frontmatter
from vaultmem.core.notes.hidden import hide_comments
from vaultmem.core.notes.note import INLINE_TAG
from vaultmem.core.notes.properties import Property
from vaultmem.core.notes.sections import GONE
from vaultmem.core.safe_text import escape_bytes
from vaultmem.web.markdown.blocks import TooLargeError
from vaultmem.web.markdown.clean import REL, clean_html
from vaultmem.web.markdown.embeds import select_part
from vaultmem.web.markdown.links import find_target, name_link, render_attributes, render_link
from vaultmem.web.markdown.page import MAX_EMBED_DEPTH, Budget, Page, Surroundings
from vaultmem.web.markdown.parser import make_parser
from vaultmem.web.markdown.shaping import Heading

#: A longer text, and one with more of what may be a mark of markdown, is shown as it is written.
MAX_CHARACTERS = 1_000_000
MAX_MARKS = 100_000
_MARKS = "[*_~=$!<#&\\`^:|\n"


class Rendered(NamedTuple):
    """A note as HTML that can stand in a page as it is.

    `properties` is the table of its properties, "" if it has none. Blocks have the lines of the
    note's file in `data-line` and `data-end` (both from 1, both inclusive).
    """

    html: str
    properties: str
    headings: tuple[Heading, ...]


def render_note(text: str, path: str, around: Surroundings) -> Rendered:
    """Render a note as Obsidian shows it, whatever its text is."""
    text, matter, body = _read_text(text)
    page = Page(path, around, Budget(), text.count("\n", 0, matter.body) + 1, (f"{path}#",))
    properties = clean_html(render_properties(text, matter, page))
    headings: list[Heading] = []
    try:
        env: dict[str, object] = {"page": page, "headings": headings}
        html = _parser().renderer.render(_parse(body, env), _parser().options, env)
    except TooLargeError:
        lines = f'data-line="{page.first}" data-end="{page.first + body.rstrip().count(chr(10))}"'
        html = f'<pre class="plain" {lines}>{escapeHtml(body)}</pre>'
        return Rendered(clean_html(html), properties, ())
    return Rendered(clean_html(html), properties, tuple(headings))


def _read_text(text: str) -> tuple[str, Frontmatter, str]:
    """Return a note's text, its properties, and what people see of its body, line by line."""
    text = escape_bytes(text)
    matter = read_frontmatter(text)
    body = hide_comments(text, matter.body).text[matter.body :].replace(GONE, "")
    return text, matter, body.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", " ")


@functools.cache
def _parser() -> MarkdownIt:
    return make_parser(_render_embed)


def _parse(body: str, env: dict[str, object]) -> list[Token]:
    if len(body) > MAX_CHARACTERS or sum(map(body.count, _MARKS)) > MAX_MARKS:
        raise TooLargeError
    return _parser().parse(body, env)


def _render_embed(token: Token, page: Page) -> str:
    """Render a note, or a part of one, within another; a link where that cannot be."""
    link = token.meta["link"]
    target = find_target(link, page)
    key = f"{target.path}#{link.subpath}"
    inner, why = "", "It is embedded in itself"
    if key not in page.trail:
        inner, why = _render_inner(page._replace(path=target.path), key, link.subpath)
    if why:
        return f"<p{render_attributes(token)}>{render_link(link, token.content, page, why)}</p>\n"
    name = render_link(link._replace(is_embed=False), token.content, page)
    title = f'<div class="embed-title">{name}</div>'
    return f'<div class="embed"{render_attributes(token)}>{title}\n{inner}</div>\n'


def _render_inner(page: Page, key: str, subpath: str) -> tuple[str, str]:
    """Return a part of the text at a page's path as HTML, or why it is not shown."""
    if len(page.trail) > MAX_EMBED_DEPTH:
        return "", "Embeds are nested too deeply here"
    text = page.around.read(page.path)
    if text is None:
        return "", "It cannot be shown here"
    if not page.budget.take(text):
        return "", "This page has more embeds than are shown"
    mark = f"{page.budget.embeds}-"
    page = page._replace(first=0, trail=(*page.trail, key), mark=mark)
    env: dict[str, object] = {"page": page}
    try:
        tokens = select_part(_parse(_read_text(text)[2], env), subpath)
    except TooLargeError:
        return "", "It is too large to be shown here"
    html: str = _parser().renderer.render(tokens, _parser().options, env)
    return html, "" if tokens or not subpath else "It has no such heading or block"


_URL = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_TAGS = frozenset({"tags", "tag"})


def render_properties(text: str, matter: Frontmatter, page: Page) -> str:
    """Render the properties of a note; those that cannot be read as they are written."""
    block = text[matter.start : matter.end]
    if matter.problem and block:
        return f'<pre class="properties">{escapeHtml(block)}</pre>'
    if not matter.properties:
        return ""
    first = text.count("\n", 0, matter.start) + 1
    lines = block.splitlines()
    rows = [_render_row(prop, lines, first, page) for prop in matter.properties]
    return f'<table class="properties"><tbody>\n{"".join(rows)}</tbody></table>'


def _render_row(prop: Property, lines: list[str], first: int, page: Page) -> str:
    values = (prop.value,) if isinstance(prop.value, str) else prop.value
    if prop.name in _TAGS and prop.kind == "str":
        values = tuple(filter(str.strip, values[0].split(",")))
    if prop.kind == "map" or (prop.kind == "seq" and not values):
        source = "\n".join(lines[prop.first : prop.last])
        shown = f"<code>{escapeHtml(source.partition(':')[2].strip())}</code>"
    else:
        shown = ", ".join(_render_value(value, prop.name, page) for value in values)
    place = f'data-line="{first + prop.first}" data-end="{first + prop.last - 1}"'
    return f"<tr {place}><th>{escapeHtml(prop.name)}</th><td>{shown}</td></tr>\n"


def _render_value(value: str, name: str, page: Page) -> str:
    """Render one value: a link where it is one as a whole, else its text."""
    value = value.strip()
    found = read_wikilink(value, 0)
    if found and found[1] == len(value):
        return render_link(found[0], name_link(found[0]), page)
    if _URL.fullmatch(value):
        return f'<a class="external" href="{escapeHtml(value)}" rel="{REL}">{escapeHtml(value)}</a>'
    tag = value.removeprefix("#")
    if name in _TAGS and INLINE_TAG.fullmatch(f"#{tag}"):
        href = escapeHtml(page.around.addresses.tag(tag.strip("/")))
        return f'<a class="tag" href="{href}">{escapeHtml(tag)}</a>'
    return escapeHtml(value)
