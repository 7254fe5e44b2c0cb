"""Obsidian's markdown: blocks, callouts, embeds, footnotes and inline syntax."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from markdown_it.common.utils import escapeHtml
from markdown_it.helpers import parseLinkLabel
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token

from vaultmem.core.notes.link_syntax import fold_heading
from vaultmem.core.notes.note import INLINE_TAG
from vaultmem.web.markdown.clean import CALLOUTS
from vaultmem.web.markdown.html_links import Page, direct_links, find_target, page_of

#: The most levels of quotes and lists (two levels each).
MAX_DEPTH = 60
#: The most block tokens of a text.
MAX_TOKENS = 60_000


class TooLargeError(Exception):
    """A text has too many blocks to be rendered."""


def check_bounds(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read blocks that are nested too deeply as code, so that their text stays visible.

    Raises:
        TooLargeError: there are too many blocks.
    """
    if len(state.tokens) > MAX_TOKENS:
        raise TooLargeError
    if silent or state.level < MAX_DEPTH:
        return False
    token = state.push("code_block", "code", 0)
    token.content = state.getLines(start, end, state.blkIndent, True)
    token.map = [start, end]
    state.line = end
    return True


def read_math_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read lines from one that starts with `$$` to one that ends with it."""
    position = state.bMarks[start] + state.tShift[start]
    if not state.src.startswith("$$", position) or state.is_code_block(start):
        return False
    last = _find_end(state, start, end, position)
    if last < 0:
        return False
    if not silent:
        token = state.push("math_block", "div", 0)
        token.content = state.getLines(start, last + 1, state.blkIndent, False)
        token.map = [start, last + 1]
        state.line = last + 1
    return True


def _find_end(state: StateBlock, start: int, end: int, position: int) -> int:
    """Return the line where a math block ends, -1 if it is not closed."""
    if state.env.get("math_ends", end) <= start:
        return -1
    for line in range(start, end):
        text = state.src[position if line == start else state.bMarks[line] : state.eMarks[line]]
        text = text.rstrip()
        if text.endswith("$$") and (line > start or len(text) > 3):
            return line
        if line > start and state.sCount[line] < state.blkIndent and text:
            return -1
    if not state.level:
        state.env["math_ends"] = start  # No block ends below: later searches can stop here.
    return -1


# Quotes that are callouts: `> [!kind]± title`.
#
# Source: Obsidian Help, "Callouts".

_MARK = re.compile(r"\[!([^\]\n]{1,100})\]([+-]?)[ \t]*([^\n]*)(?:\n|$)")
_ALIASES = {
    **dict.fromkeys(["summary", "tldr"], "abstract"),
    **dict.fromkeys(["hint", "important"], "tip"),
    **dict.fromkeys(["check", "done"], "success"),
    **dict.fromkeys(["help", "faq"], "question"),
    **dict.fromkeys(["caution", "attention"], "warning"),
    **dict.fromkeys(["fail", "missing"], "failure"),
    "error": "danger",
    "cite": "quote",
}


def shape_callouts(state: StateCore) -> None:
    """Turn quotes whose first line is a callout mark into callouts."""
    tokens: list[Token] = []
    tags: list[str] = []  # For each open quote, the tag of its callout or "".
    rest = iter(enumerate(state.tokens))
    for index, token in rest:
        if token.type == "blockquote_open":
            match = _find_mark(state.tokens[index + 1 : index + 3])
            tags.append("")
            if match:
                tags[-1] = "details" if match[2] else "div"
                tokens += _open_callout(token, match)
                tokens += _strip_first_line(state.tokens[index + 1 : index + 4], match)
                for _ in range(3):
                    next(rest)
                continue
        elif token.type == "blockquote_close" and (tag := tags.pop()):
            tokens += (_make("callout_body", "div", -1), _make("callout", tag, -1))
            continue
        tokens.append(token)
    state.tokens = tokens


def _find_mark(next_tokens: Sequence[Token]) -> re.Match[str] | None:
    """Return the callout mark of a quote; a rule below it makes the line a heading."""
    kinds = {"paragraph_open", "heading_open"}
    if (
        len(next_tokens) < 2
        or next_tokens[0].type not in kinds
        or next_tokens[0].markup.startswith("#")
    ):
        return None
    return _MARK.match(next_tokens[1].content)


def _open_callout(quote: Token, match: re.Match[str]) -> list[Token]:
    """Return the tokens from the callout's start to the start of its text."""
    name = match[1].partition("|")[0].strip()
    kind = _ALIASES.get(name.lower(), name.lower())
    kind = kind if kind in CALLOUTS else "note"
    callout = _make("callout", "details" if match[2] else "div", 1)
    callout.map, callout.attrs = quote.map, {"class": f"callout callout-{kind}"}
    if match[2] == "+":
        callout.attrs["open"] = ""
    tag = "summary" if match[2] else "div"
    title = _make("callout_title", tag, 1)
    title.attrs = {"class": "callout-title"}
    text = Token("inline", "", 0, content=match[3].strip() or name.capitalize(), children=[])
    body = _make("callout_body", "div", 1)
    body.attrs = {"class": "callout-body"}
    return [callout, title, text, _make("callout_title", tag, -1), body]


def _strip_first_line(paragraph: Sequence[Token], match: re.Match[str]) -> Sequence[Token]:
    """Return the first paragraph without the callout mark's line."""
    opening, text, _ = paragraph
    text.content = text.content[match.end() :]
    if not text.content:
        last = opening.map[1] if opening.map else 0
        rule = Token("hr", "hr", 0, map=[last - 1, last], block=True)
        return [rule] if opening.markup == "-" else []
    for token in (opening, text):
        if token.map:
            token.map = [token.map[0] + 1, token.map[1]]
    return paragraph


def _make(kind: str, tag: str, nesting: Literal[-1, 1]) -> Token:
    return Token(f"{kind}_{'open' if nesting > 0 else 'close'}", tag, nesting, block=True)


# Embedded notes: the position of an embed, and the part of the other note that it shows.

_GAPS = frozenset({"softbreak", "hardbreak"})


def direct_all(state: StateCore) -> None:
    """Resolve all links, and turn embedded notes into blocks."""
    page = page_of(state.env)
    tokens: list[Token] = []
    rest = iter(enumerate(state.tokens))
    for index, token in rest:
        if token.type == "inline" and token.children:
            direct_links(token.children, page)
            if tokens[-1].type == "paragraph_open" and _has_embed(token.children, page):
                tokens += _split_paragraph(tokens.pop(), token, state.tokens[index + 1], page)
                next(rest)
                continue
        tokens.append(token)
    state.tokens = tokens


def _has_embed(children: list[Token], page: Page) -> bool:
    return any(_is_embed(child, page) for child in children)


def _is_embed(token: Token, page: Page) -> bool:
    """Return whether an inline token embeds a note and is not nested in another token."""
    if token.type != "wikilink" or token.level or not token.meta["link"].is_embed:
        return False
    return find_target(token.meta["link"], page).is_note


def _split_paragraph(opening: Token, text: Token, closing: Token, page: Page) -> Iterator[Token]:
    """Yield a paragraph's tokens, split so that each embed is between paragraphs."""
    piece: list[Token] = []
    for child in [*(text.children or ()), None]:
        if child is not None and not _is_embed(child, page):
            piece.append(child)
            continue
        if piece := _strip(piece):
            yield from (opening.copy(), text.copy(children=piece), closing.copy())
            piece = []
        if child is not None:
            yield Token(
                "embed",
                "div",
                0,
                map=opening.map,
                meta={**opening.meta, **child.meta},
                content=child.content,
                block=True,
            )
        opening.meta = {}


def _strip(piece: list[Token]) -> list[Token]:
    """Return inline tokens without line breaks and blanks at both ends."""
    while piece and (piece[-1].type in _GAPS or _is_blank(piece[-1])):
        piece = piece[:-1]
    while piece and (piece[0].type in _GAPS or _is_blank(piece[0])):
        piece = piece[1:]
    return piece


def _is_blank(token: Token) -> bool:
    return token.type == "text" and not token.content.strip()


def select_part(tokens: list[Token], subpath: str) -> list[Token]:
    """Return the tokens of the section or block of a link's subpath, empty if not found.

    A section includes its subsections. Footnotes are added if the part refers to any.
    """
    if not subpath:
        return tokens
    last = next((index for index, each in enumerate(tokens) if each.type == "footnotes_open"), None)
    body, footnotes = tokens[:last], tokens[last:] if last is not None else []
    part = _select_block(body, subpath[1:]) if subpath[0] == "^" else _select_section(body, subpath)
    marks = (child.type == "footnote" for token in part for child in token.children or ())
    return [*part, *footnotes] if any(marks) else part


def _select_block(tokens: list[Token], name: str) -> list[Token]:
    key = name.strip().casefold()
    for index, token in enumerate(tokens):
        if token.meta.get("block") == key:
            depth = 0
            for end in range(index, len(tokens)):
                depth += tokens[end].nesting
                if not depth:
                    return tokens[index : end + 1]
    return []


def _select_section(tokens: list[Token], subpath: str) -> list[Token]:
    names = [name for part in subpath.split("#") if (name := fold_heading(part))]
    ancestors: list[tuple[str, str]] = []  # Tags and headings above this position.
    start, tag = -1, ""
    for index, token in enumerate(tokens):
        if token.type != "heading_open" or token.level:
            continue
        if start >= 0 and token.tag <= tag:
            return tokens[start:index]
        ancestors = [each for each in ancestors if each[0] < token.tag]
        ancestors.append((token.tag, fold_heading(tokens[index + 1].content)))
        line = iter([heading for _, heading in ancestors])
        if start < 0 and names and all(name in line for name in names):
            start, tag = index, token.tag
    return tokens[start:] if start >= 0 else []


# Footnotes: `[^name]`, its definition `[^name]: text`, and `^[text]` for both at once.
#
# Source: Obsidian Help, "Basic formatting syntax" (footnotes).

_REFERENCE = re.compile(r"\[\^([^\]\s]{1,100})\]")
_DEFINITION = re.compile(r"\[\^([^\]\s]{1,100})\]:[ \t]*")


def read_definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read the definition of a footnote: a line, and the indented lines after it."""
    position = state.bMarks[start] + state.tShift[start]
    if state.is_code_block(start) or not state.src.startswith("[^", position):
        return False
    match = _DEFINITION.match(state.src, position, state.eMarks[start])
    if match is None:
        return False
    if silent:
        return True
    state.env.setdefault("footnotes", {}).setdefault(match[1], [])
    token = state.push("footnote_open", "li", 1)
    token.meta, token.map = {"name": match[1]}, [start, start]
    _read_text(state, start, end, match.end())
    token.map[1] = state.line
    state.push("footnote_close", "li", -1)
    return True


def _read_text(state: StateBlock, start: int, end: int, position: int) -> None:
    """Read the blocks of a footnote; the first begins at `position` in its first line."""
    saved_state = state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType
    state.bMarks[start], state.tShift[start], state.parentType = position, 0, "footnote"
    state.blkIndent += 4
    state.sCount[start] = state.blkIndent
    if position >= state.eMarks[start] and (start + 1 >= end or state.isEmpty(start + 1)):
        state.line = start + 1
    else:
        state.md.block.tokenize(state, start, end)
    state.blkIndent -= 4
    state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType = saved_state


def read_reference(state: StateInline, silent: bool) -> bool:
    """Read the mark of a defined footnote."""
    if not state.src.startswith("[^", state.pos) or state.linkLevel:
        return False
    match = _REFERENCE.match(state.src, state.pos, state.posMax)
    footnotes: dict[str, Any] = state.env.get("footnotes", {})
    if match is None or match[1] not in footnotes:
        return False
    if not silent:
        state.push("footnote", "sup", 0).meta = {"name": match[1]}
    state.pos = match.end()
    return True


def read_inline_note(state: StateInline, silent: bool) -> bool:
    """Read an inline footnote."""
    start = state.pos
    if not state.src.startswith("^[", start) or state.linkLevel or state.env.get("in_footnote"):
        return False
    end = parseLinkLabel(state, start + 1)
    if end < 0:
        return False
    if not silent:
        footnotes = state.env.setdefault("footnotes", {})
        name = f" {len(footnotes)}"  # Names in notes have no blanks.
        children: list[Token] = []
        state.env["in_footnote"] = True
        state.md.inline.parse(state.src[start + 2 : end], state.md, state.env, children)
        state.env["in_footnote"] = False
        footnotes[name] = [Token("inline", "", 0, children=children, content="")]
        state.push("footnote", "sup", 0).meta = {"name": name}
    state.pos = end + 1
    return True


def collect_footnotes(state: StateCore) -> None:
    """Move the footnotes to the end, in the order of their marks; unreferenced ones are last."""
    footnotes: dict[str, list[Token]] = state.env.get("footnotes", {})
    if not footnotes:
        return
    state.tokens = _extract_definitions(state.tokens, footnotes)
    numbers = _number_marks(
        [*state.tokens, *(each for text in footnotes.values() for each in text)]
    )
    prefix = f"footnote-{page_of(state.env).mark}"
    items: list[Token] = []
    for number, name in enumerate(dict.fromkeys([*numbers, *footnotes]), 1):
        items += _make_item(footnotes[name], prefix, number, name in numbers)
    state.tokens += [
        Token("footnotes_open", "section", 1, {"class": "footnotes"}, block=True),
        Token("footnotes_list_open", "ol", 1, block=True),
        *items,
        Token("footnotes_list_close", "ol", -1, block=True),
        Token("footnotes_close", "section", -1, block=True),
    ]


def _number_marks(tokens: list[Token]) -> dict[str, int]:
    """Set the numbers of footnote marks; return the numbers by name."""
    numbers: dict[str, int] = {}
    for mark in (child for token in tokens for child in token.children or ()):
        if mark.type == "footnote":
            name = mark.meta["name"]
            mark.meta["is_first"] = name not in numbers
            mark.meta["number"] = numbers.setdefault(name, len(numbers) + 1)
    return numbers


def _extract_definitions(tokens: list[Token], footnotes: dict[str, list[Token]]) -> list[Token]:
    """Return the tokens without definitions, which are moved to `footnotes`."""
    body: list[Token] = []
    stack = [body]
    for token in tokens:
        if token.type == "footnote_open":
            stack.append([token])
        elif token.type == "footnote_close":
            whole = [*stack.pop(), token]
            name = whole[0].meta["name"]
            footnotes[name] = footnotes[name] or whole
        else:
            stack[-1].append(token)
    return body


def _make_item(tokens: list[Token], prefix: str, number: int, is_marked: bool) -> list[Token]:
    """Return a footnote's tokens as a list item, with a link back to its mark."""
    lines = None
    if tokens and tokens[0].type == "footnote_open":
        lines, tokens = tokens[0].map, tokens[1:-1]
    attrs: dict[str, str | int | float] = {"id": f"{prefix}{number}"}
    opening = Token("footnote_item_open", "li", 1, attrs, map=lines, block=True)
    closing = Token("footnote_item_close", "li", -1, block=True)
    back_link = [Token("footnote_back", "a", 0, meta={"number": number})] if is_marked else []
    text = next((each for each in tokens[-2:] if each.type == "inline"), None)
    if text is not None and text.children is not None:
        text.children += back_link
        back_link = []
    return [opening, *tokens, *back_link, closing]


def render_reference(token: Token, page: Page) -> str:
    """Render the mark of a footnote."""
    number = token.meta["number"]
    name = f"{page.mark}{number}"
    id_attribute = f' id="footnote-mark-{name}"' if token.meta["is_first"] else ""
    return f'<sup class="footnote"><a href="#footnote-{name}"{id_attribute}>{number}</a></sup>'


def render_back(token: Token, page: Page) -> str:
    """Render the link from a footnote back to its mark."""
    name = f"{page.mark}{token.meta['number']}"
    return f' <a class="footnote-back" href="#footnote-mark-{name}">↩</a>'


# Inline syntax: tags, math, highlights, bare links, and the few HTML elements that are rendered.

_MATH = re.compile(r"\$(?![\s$])[^$\n]{1,400}+(?<!\s)\$(?![\d$])")
_URL = re.compile(r"https?://[^\s<>\[\]\"`\\^{}|]{1,2000}", re.IGNORECASE)
_URL_END = ".,;:!?'\"*_~=)"
#: HTML without attributes around a few words, a line break, and named anchors.
_INLINE_HTML = re.compile(
    r"<(sub|sup|u|b|i|s|em|strong|kbd|mark|small)>(?P<text>[^<>\n]{1,400}+)</\1>", re.IGNORECASE
)
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_NAME = re.compile(r"<a (?:name|id)=\"([\w.-]{1,100})\" ?(?:/>|>[ \t]?</a>)", re.IGNORECASE)
_EQUALS = ord("=")


def read_tag(state: StateInline, silent: bool) -> bool:
    """Read a tag, by the same rule as the index."""
    if state.src[state.pos] != "#" or state.linkLevel:
        return False
    match = INLINE_TAG.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        token = state.push("tag", "a", 0)
        token.content = match[0]
        token.meta = {"tag": match[1].strip("/")}
    state.pos = match.end()
    return True


def render_tag(token: Token, page: Page) -> str:
    """Render a tag as a link to all notes that have it."""
    href = page.around.addresses.tag(token.meta["tag"])
    return f'<a class="tag" href="{escapeHtml(href)}">{escapeHtml(token.content)}</a>'


def read_math(state: StateInline, silent: bool) -> bool:
    """Read math, shown as source without markdown."""
    start = state.pos
    if state.src[start] != "$":
        return False
    if state.src.startswith("$$", start):
        end = state.src.find("$$", start + 2, state.posMax) + 2
        if end <= start + 4:
            return False
    elif match := _MATH.match(state.src, start, state.posMax):
        end = match.end()
    else:
        return False
    if not silent:
        state.push("math", "span", 0).content = state.src[start:end]
    state.pos = end
    return True


def render_math(token: Token, page: Page) -> str:
    """Render math as its source."""
    return f'<span class="math">{escapeHtml(token.content)}</span>'


def read_html(state: StateInline, silent: bool) -> bool:
    """Read the supported HTML elements; all others are text."""
    if state.src[state.pos] != "<":
        return False
    if match := _INLINE_HTML.match(state.src, state.pos, state.posMax):
        if not silent:
            _push_around(state, match)
    elif match := _BREAK.match(state.src, state.pos, state.posMax):
        if not silent:
            state.push("hardbreak", "br", 0)
    elif match := _NAME.match(state.src, state.pos, state.posMax):
        if not silent:
            state.push("name", "a", 0).meta = {"name": match[1]}
    else:
        return False
    state.pos = match.end()
    return True


def _push_around(state: StateInline, match: re.Match[str]) -> None:
    """Add an HTML element and its content, which is markdown."""
    tag, end = match[1].lower(), state.posMax
    state.push("html_open", tag, 1)
    state.pos, state.posMax = match.span("text")
    state.md.inline.tokenize(state)
    state.posMax = end
    state.push("html_close", tag, -1)


def render_name(token: Token, page: Page) -> str:
    """Render a named anchor, if it is the first of its name."""
    return f'<a id="{token.attrs["id"]}"></a>' if "id" in token.attrs else ""


def read_url(state: StateInline, silent: bool) -> bool:
    """Read a bare URL."""
    if silent or state.linkLevel or not state.src.startswith("://", state.pos):
        return False
    scheme = state.pending[-5:].lower()
    start = state.pos - (5 if scheme == "https" else 4)
    prefix = state.pending[: start - state.pos]
    if not scheme.endswith(("http", "https")) or prefix[-1:].isalnum():
        return False
    match = _URL.match(state.src, start, state.posMax)
    if match is None:
        return False
    url = _strip_url(match[0])
    state.pending = prefix
    state.push("link_open", "a", 1).attrs = {"href": state.md.normalizeLink(url)}
    state.push("text", "", 0).content = url
    state.push("link_close", "a", -1)
    state.pos = start + len(url)
    return True


def _strip_url(url: str) -> str:
    """Return a URL without trailing punctuation."""
    while url[-1] in _URL_END and not (url[-1] == ")" and url.count("(") >= url.count(")")):
        url = url[:-1]
    return url


def read_highlight(state: StateInline, silent: bool) -> bool:
    """Read a run of `=` that might start or end a highlight."""
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
    """Turn the runs that markdown-it has paired into highlights."""
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
