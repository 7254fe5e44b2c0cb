"""Within a line: tags, math, highlights, bare links, and the little HTML that is shown as such."""

from __future__ import annotations

import re

from markdown_it.common.utils import escapeHtml
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token

from vaultmem.core.notes.note import INLINE_TAG
from vaultmem.web.markdown.page import Page

_MATH = re.compile(r"\$(?![\s$])[^$\n]{1,400}+(?<!\s)\$(?![\d$])")
_URL = re.compile(r"https?://[^\s<>\[\]\"`\\^{}|]{1,2000}", re.IGNORECASE)
_URL_END = ".,;:!?'\"*_~=)"
#: HTML without attributes around a few words, a line break, and the names that others link to.
_AROUND = re.compile(
    r"<(sub|sup|u|b|i|s|em|strong|kbd|mark|small)>(?P<text>[^<>\n]{1,400}+)</\1>", re.IGNORECASE
)
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_NAME = re.compile(r"<a (?:name|id)=\"([\w.-]{1,100})\" ?(?:/>|>[ \t]?</a>)", re.IGNORECASE)
_EQUALS = ord("=")


def read_tag(state: StateInline, silent: bool) -> bool:
    """Read what the index takes for a tag."""
    if state.src[state.pos] != "#" or state.linkLevel:
        return False
    found = INLINE_TAG.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        token = state.push("tag", "a", 0)
        token.content = found[0]
        token.meta = {"tag": found[1].strip("/")}
    state.pos = found.end()
    return True


def render_tag(token: Token, page: Page) -> str:
    """Render a tag as a link to all that has it."""
    href = page.around.addresses.tag(token.meta["tag"])
    return f'<a class="tag" href="{escapeHtml(href)}">{escapeHtml(token.content)}</a>'


def read_math(state: StateInline, silent: bool) -> bool:
    """Read mathematics, in which nothing is markdown; they are shown as written."""
    start = state.pos
    if state.src[start] != "$":
        return False
    if state.src.startswith("$$", start):
        end = state.src.find("$$", start + 2, state.posMax) + 2
        if end <= start + 4:
            return False
    elif found := _MATH.match(state.src, start, state.posMax):
        end = found.end()
    else:
        return False
    if not silent:
        state.push("math", "span", 0).content = state.src[start:end]
    state.pos = end
    return True


def render_math(token: Token, page: Page) -> str:
    """Render mathematics as their source."""
    return f'<span class="math">{escapeHtml(token.content)}</span>'


def read_html(state: StateInline, silent: bool) -> bool:
    """Read the HTML that notes cannot do without; all other is text."""
    if state.src[state.pos] != "<":
        return False
    if found := _AROUND.match(state.src, state.pos, state.posMax):
        if not silent:
            _push_around(state, found)
    elif found := _BREAK.match(state.src, state.pos, state.posMax):
        if not silent:
            state.push("hardbreak", "br", 0)
    elif found := _NAME.match(state.src, state.pos, state.posMax):
        if not silent:
            state.push("name", "a", 0).meta = {"name": found[1]}
    else:
        return False
    state.pos = found.end()
    return True


def _push_around(state: StateInline, found: re.Match[str]) -> None:
    """Add a tag and what is in it, which is markdown."""
    tag, end = found[1].lower(), state.posMax
    state.push("html_open", tag, 1)
    state.pos, state.posMax = found.span("text")
    state.md.inline.tokenize(state)
    state.posMax = end
    state.push("html_close", tag, -1)


def render_name(token: Token, page: Page) -> str:
    """Render the place of a name, if it is the first of it."""
    return f'<a id="{token.attrs["id"]}"></a>' if "id" in token.attrs else ""


def read_url(state: StateInline, silent: bool) -> bool:
    """Read an address that stands in the text as it is."""
    if silent or state.linkLevel or not state.src.startswith("://", state.pos):
        return False
    scheme = state.pending[-5:].lower()
    start = state.pos - (5 if scheme == "https" else 4)
    before = state.pending[: start - state.pos]
    if not scheme.endswith(("http", "https")) or before[-1:].isalnum():
        return False
    found = _URL.match(state.src, start, state.posMax)
    if found is None:
        return False
    url = _strip_url(found[0])
    state.pending = before
    state.push("link_open", "a", 1).attrs = {"href": state.md.normalizeLink(url)}
    state.push("text", "", 0).content = url
    state.push("link_close", "a", -1)
    state.pos = start + len(url)
    return True


def _strip_url(url: str) -> str:
    """Return an address without what ends the sentence that it stands in."""
    while url[-1] in _URL_END and not (url[-1] == ")" and url.count("(") >= url.count(")")):
        url = url[:-1]
    return url


def read_highlight(state: StateInline, silent: bool) -> bool:
    """Read a run of `=` that may begin or end a highlight."""
    if silent or not state.src.startswith("==", state.pos):
        return False
    run = state.scanDelims(state.pos, True)
    if run.length % 2:
        state.push("text", "", 0).content = "="
    for _ in range(run.length // 2):
        state.push("text", "", 0).content = "=="
        token = len(state.tokens) - 1
        state.delimiters.append(Delimiter(_EQUALS, 0, token, -1, run.can_open, run.can_close))
    state.pos += run.length
    return True


def pair_highlights(state: StateInline) -> None:
    """Make highlights of the runs that markdown-it has paired."""
    lists = [state.delimiters, *(meta["delimiters"] for meta in state.tokens_meta if meta)]
    for delimiters in lists:
        for opening in delimiters:
            if opening.marker == _EQUALS and opening.end >= 0:
                _mark(state.tokens[opening.token], 1)
                _mark(state.tokens[delimiters[opening.end].token], -1)


def _mark(token: Token, nesting: int) -> None:
    token.type = "mark_open" if nesting > 0 else "mark_close"
    token.tag, token.content = "mark", ""
    token.nesting = 1 if nesting > 0 else -1
