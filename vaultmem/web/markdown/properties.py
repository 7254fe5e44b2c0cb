"""A note's properties as a table."""

from __future__ import annotations

import re

from markdown_it.common.utils import escapeHtml

from vaultmem.core.links.link import read_wikilink
from vaultmem.core.notes.frontmatter import Frontmatter
from vaultmem.core.notes.note import INLINE_TAG
from vaultmem.core.notes.properties import Property
from vaultmem.web.markdown.clean import REL
from vaultmem.web.markdown.links import name_link, render_link
from vaultmem.web.markdown.page import Page

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
