"""Render a note as HTML with markdown-it and Obsidian's rules."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml, unescapeAll
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline import image as read_image
from markdown_it.rules_inline import link as read_markdown_link
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from vaultmem.core.notes.comments import hide_comments
from vaultmem.core.notes.frontmatter import Frontmatter, read_frontmatter
from vaultmem.core.notes.link_syntax import BLOCK_NAME, read_whole_link
from vaultmem.core.notes.note import INLINE_TAG
from vaultmem.core.notes.properties import Property
from vaultmem.core.notes.sections import MASK_CHAR
from vaultmem.core.text.display import escape_bytes
from vaultmem.web.markdown import html_links, syntax
from vaultmem.web.markdown.clean import REL, clean_html
from vaultmem.web.markdown.html_links import (
    MAX_EMBED_DEPTH,
    Budget,
    LinkContext,
    Page,
    find_target,
    format_heading,
    format_link,
    page_of,
    render_attributes,
    render_link,
)
from vaultmem.web.markdown.syntax import TooLargeError, select_part

# Tasks, block names, headings and lines: added after the blocks are parsed.

_TASK = re.compile(r"\[([^\]\n])\](?:[ \t]+|$)")
_TEXT_TOKENS = frozenset({"text", "code_inline", "wikilink", "tag", "math", "outside_image"})
#: Lists and tables have no line numbers; their items and rows do.
_NO_LINE_NUMBER_TOKENS = frozenset(
    ["bullet_list_open", "ordered_list_open", "table_open", "thead_open", "tbody_open", "inline"]
)


class Heading(NamedTuple):
    """A heading of a note: its level (1 to 6), its text, its id in the page, its line."""

    level: int
    text: str
    anchor: str
    line: int


def shape_items(state: StateCore) -> None:
    """Remove task marks and block names from the text that contains them."""
    tokens = state.tokens
    for index, token in enumerate(tokens):
        if token.type != "inline" or tokens[index - 1].type != "paragraph_open":
            continue
        holder = tokens[index - 1]
        if index > 1 and tokens[index - 2].type == "list_item_open":
            holder = tokens[index - 2]
            _extract_task(holder, token)
        if "^" in token.content:
            _extract_name(tokens, index, holder)


def _extract_task(item: Token, text: Token) -> None:
    if match := _TASK.match(text.content):
        text.meta["task"] = item.attrs["data-task"] = match[1]
        item.attrs["class"] = "task"
        text.content = text.content[match.end() :]


def _extract_name(tokens: list[Token], index: int, holder: Token) -> None:
    """Name a block by the end of its text, or the block before if the paragraph is only a name."""
    text = tokens[index]
    begin = text.content.rfind("\n") + 1
    match = BLOCK_NAME.search(text.content, begin)
    if match is None:
        return
    text.content = text.content[: match.start()].rstrip()
    if not text.content:
        tokens[index - 1].hidden = tokens[index + 1].hidden = True
        if holder is tokens[index - 1]:
            holder = _find_before(tokens, index - 1)
    holder.meta["block"] = match[1].casefold()


def _find_before(tokens: list[Token], index: int) -> Token:
    """Return the opening token of the block before, or of the first block itself."""
    for position in range(index - 1, -1, -1):
        token = tokens[position]
        if token.level < tokens[index].level:
            break
        if token.level == tokens[index].level and token.nesting >= 0:
            return token
    return tokens[index]


def show_tasks(state: StateCore) -> None:
    """Insert a box before the text of each task."""
    for token in state.tokens:
        if token.type == "inline" and "task" in token.meta and token.children is not None:
            token.children.insert(0, Token("task", "span", 0, content=token.meta["task"]))


def render_task(token: Token, page: Page) -> str:
    """Render a task's box, which is not clickable."""
    mark = token.content
    label = {" ": "open", "x": "done", "X": "done"}.get(mark, f"marked {mark}")
    box = {" ": "☐", "x": "☑", "X": "☑"}.get(mark, mark)
    return (
        f'<span class="task-box" role="img" aria-label="{escapeHtml(label)}">{escapeHtml(box)}'
        "</span> "
    )


def assign_anchors(state: StateCore) -> None:
    """Set the ids of headings and named blocks, and the line numbers of all blocks."""
    page = page_of(state.env)
    if not page.first:
        return
    anchors: dict[str, int] = {}
    headings: list[Heading] = state.env["headings"]
    blank = [not line.strip("> \t") for line in state.src.split("\n")]
    for index, token in enumerate(state.tokens):
        if token.type == "heading_open":
            text = state.tokens[index + 1]
            anchor = _once(format_heading(text.content), anchors)
            token.attrs["id"] = anchor
            line = page.first + (token.map or [0])[0]
            headings.append(Heading(int(token.tag[1]), _show(text), anchor, line))
        elif "block" in token.meta:
            token.attrs.setdefault("id", _once(f"block-{token.meta['block']}", anchors))
        elif token.type == "inline" and "<a" in token.content:
            _assign_anchors(token.children or [], anchors)
        if (
            token.map
            and token.block
            and token.nesting >= 0
            and token.type not in _NO_LINE_NUMBER_TOKENS
        ):
            _report_lines(token, page.first, blank)


def _assign_anchors(children: list[Token], anchors: dict[str, int]) -> None:
    for child in children:
        if child.type == "name" and (anchor := format_heading(child.meta["name"])) not in anchors:
            child.attrs["id"] = _once(anchor, anchors)


def _once(anchor: str, anchors: dict[str, int]) -> str:
    """Return an id, with a number appended if it is in use."""
    name = anchor
    while name in anchors:
        anchors[anchor] += 1
        name = f"{anchor}-{anchors[anchor]}"
    anchors[name] = 1
    return name


def _show(heading: Token) -> str:
    children = heading.children or ()
    return "".join(each.content if each.type in _TEXT_TOKENS else "" for each in children).strip()


def _report_lines(token: Token, first: int, blank: list[bool]) -> None:
    begin, end = token.map or (0, 0)
    while end > begin + 1 and (end > len(blank) or blank[end - 1]):
        end -= 1
    token.attrs["data-line"] = begin + first
    token.attrs["data-end"] = max(end, begin + 1) + first - 1


InlineRule = Callable[[StateInline, bool], bool]
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}", re.ASCII)
_BEFORE_PARAGRAPHS: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}


def make_parser(render_embed: Callable[[Token, Page], str]) -> MarkdownIt:
    """Return a parser of notes; `render_embed` renders the embedded notes."""
    options = {"html": False, "breaks": True, "xhtmlOut": False, "maxNesting": 100}
    md = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    md.disable(["html_block", "html_inline"])
    md.validateLink = html_links.is_shown_link  # type: ignore[method-assign]
    _add_block_rules(md)
    _add_inline_rules(md)
    _add_core_rules(md)
    _add_renderers(md, render_embed)
    # Compile the rules now: two threads might do it at once on first use.
    for rules in (md.core.ruler, md.block.ruler, md.inline.ruler, md.inline.ruler2):
        rules.getRules()
    return md


def _add_block_rules(md: MarkdownIt) -> None:
    rules = md.block.ruler
    rules.before("table", "bounds", syntax.check_bounds)
    rules.before("fence", "math_block", syntax.read_math_block, _BEFORE_PARAGRAPHS)
    rules.before("reference", "footnote", syntax.read_definition, _BEFORE_PARAGRAPHS)


def _add_inline_rules(md: MarkdownIt) -> None:
    rules = md.inline.ruler
    rules.before("link", "wikilink", html_links.read_link)
    rules.before("link", "footnote", syntax.read_reference)
    rules.before("link", "inline_footnote", _bound(syntax.read_inline_note))
    rules.before("link", "tag", syntax.read_tag)
    rules.before("emphasis", "highlight", syntax.read_highlight)
    rules.after("escape", "math", syntax.read_math)
    rules.before("autolink", "html", syntax.read_html)
    rules.before("newline", "url", syntax.read_url)
    rules.at("image", _bound(_read_image))
    rules.at("link", _bound(read_markdown_link))
    md.inline.ruler2.after("balance_pairs", "highlight", syntax.pair_highlights)


def _add_core_rules(md: MarkdownIt) -> None:
    rules = md.core.ruler
    rules.after("block", "callouts", syntax.shape_callouts)
    rules.after("callouts", "items", shape_items)
    rules.push("footnotes", syntax.collect_footnotes)  # Completes the visible tokens.
    rules.push("links", syntax.direct_all)
    rules.push("tasks", show_tasks)
    rules.push("places", assign_anchors)


def _bound(rule: InlineRule) -> InlineRule:
    """Return a rule for brackets that gives up after too many failed searches for a closing one.

    Each search reads the rest of the paragraph: many thousands of unclosed brackets would take
    minutes. After the limit, brackets are text.
    """

    def read(state: StateInline, silent: bool) -> bool:
        if state.src[state.pos] not in "[!^" or state.html_terminator_last("]") <= state.pos:
            return False
        budget = page_of(state.env).budget
        if budget.steps <= 0:
            return False
        start, end = state.pos, state.posMax
        if rule(state, silent):
            return True
        if "[" in state.src[start : start + 2]:
            budget.steps -= end - start
        return False

    return read


def _read_image(state: StateInline, silent: bool) -> bool:
    """Read an image, except inside the text of another one, where markdown-it would recurse."""
    if state.src[state.pos] != "!" or state.env.get("in_image"):
        return False
    state.env["in_image"] = not silent
    try:
        return read_image(state, silent)
    finally:
        state.env["in_image"] = False


def _add_renderers(md: MarkdownIt, render_embed: Callable[[Token, Page], str]) -> None:
    renderers: dict[str, Callable[[Token, Page], str]] = {
        "wikilink": html_links.render_wikilink,
        "link_open": html_links.render_opening,
        "image": html_links.render_undirected_image,
        "outside_image": html_links.render_outside_image,
        "tag": syntax.render_tag,
        "name": syntax.render_name,
        "math": syntax.render_math,
        "math_block": _render_math_block,
        "task": render_task,
        "footnote": syntax.render_reference,
        "footnote_back": syntax.render_back,
        "fence": _render_code,
        "code_block": _render_code,
        "embed": render_embed,
    }
    for kind, render in renderers.items():
        md.add_render_rule(kind, _adapt(render))
    for kind in ("th_open", "td_open"):
        md.add_render_rule(kind, _adapt(_render_cell))


def _adapt(render: Callable[[Token, Page], str]) -> Callable[..., str]:
    def call(
        _: object, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
    ) -> str:
        return render(tokens[index], page_of(env))

    return call


def _render_code(token: Token, page: Page) -> str:
    words = unescapeAll(token.info).split(maxsplit=1)
    match = words and _LANGUAGE.match(words[0])
    language = f' class="language-{match[0]}"' if match else ""
    code = f"<code{language}>{escapeHtml(token.content)}</code>"
    return f"<pre{html_links.render_attributes(token)}>{code}</pre>\n"


def _render_math_block(token: Token, page: Page) -> str:
    attributes = html_links.render_attributes(token)
    return f'<div class="math"{attributes}>{escapeHtml(token.content)}</div>\n'


def _render_cell(token: Token, page: Page) -> str:
    align = str(token.attrs.get("style", "")).rpartition(":")[2]
    return f'<{token.tag} class="{align}">' if align else f"<{token.tag}>"


# A note's text as HTML, and its properties as a table.

#: Longer texts, and texts with more markdown characters, are shown as source.
MAX_CHARACTERS = 1_000_000
MAX_MARKS = 100_000
_MARKS = "[*_~=$!<#&\\`^:|\n"


class RenderedNote(NamedTuple):
    """A note as HTML that is safe to insert into a page.

    `properties` is the table of its properties, "" if it has none. Blocks have the lines of the
    note's file in `data-line` and `data-end` (both from 1, both inclusive).
    """

    html: str
    properties: str
    headings: tuple[Heading, ...]


def render_note(text: str, path: str, link_context: LinkContext) -> RenderedNote:
    """Render a note as Obsidian shows it, for any text."""
    text, frontmatter, body = _read_text(text)
    page = Page(
        path, link_context, Budget(), text.count("\n", 0, frontmatter.body) + 1, (f"{path}#",)
    )
    properties = clean_html(render_properties(text, frontmatter, page))
    headings: list[Heading] = []
    try:
        env: dict[str, object] = {"page": page, "headings": headings}
        html = _parser().renderer.render(_parse(body, env), _parser().options, env)
    except TooLargeError:
        lines = f'data-line="{page.first}" data-end="{page.first + body.rstrip().count(chr(10))}"'
        html = f'<pre class="plain" {lines}>{escapeHtml(body)}</pre>'
        return RenderedNote(clean_html(html), properties, ())
    return RenderedNote(clean_html(html), properties, tuple(headings))


def _read_text(text: str) -> tuple[str, Frontmatter, str]:
    """Return a note's text, its properties, and its visible body with the same lines."""
    text = escape_bytes(text)
    frontmatter = read_frontmatter(text)
    body = hide_comments(text, frontmatter.body).text[frontmatter.body :].replace(MASK_CHAR, "")
    return text, frontmatter, body.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", " ")


@functools.cache
def _parser() -> MarkdownIt:
    return make_parser(_render_embed)


def _parse(body: str, env: dict[str, object]) -> list[Token]:
    if len(body) > MAX_CHARACTERS or sum(map(body.count, _MARKS)) > MAX_MARKS:
        raise TooLargeError
    return _parser().parse(body, env)


def _render_embed(token: Token, page: Page) -> str:
    """Render a note, or a part of one, inside another; a link if that is not possible."""
    link = token.meta["link"]
    target = find_target(link, page)
    key = f"{target.path}#{link.subpath}"
    inner, why = "", "This note embeds itself"
    if key not in page.trail:
        inner, why = _render_inner(page._replace(path=target.path), key, link.subpath)
    if why:
        return f"<p{render_attributes(token)}>{render_link(link, token.content, page, why)}</p>\n"
    name = render_link(link._replace(is_embed=False), token.content, page)
    title = f'<div class="embed-title">{name}</div>'
    return f'<div class="embed"{render_attributes(token)}>{title}\n{inner}</div>\n'


def _render_inner(page: Page, key: str, subpath: str) -> tuple[str, str]:
    """Return a part of the text at a page's path as HTML, and the reason if it is not shown."""
    if len(page.trail) > MAX_EMBED_DEPTH:
        return "", "Embeds are nested too deeply"
    text = page.around.read(page.path)
    if text is None:
        return "", "This file cannot be embedded"
    if not page.budget.take(text):
        return "", "This page has too many embeds"
    mark = f"{page.budget.embeds}-"
    page = page._replace(first=0, trail=(*page.trail, key), mark=mark)
    env: dict[str, object] = {"page": page}
    try:
        tokens = select_part(_parse(_read_text(text)[2], env), subpath)
    except TooLargeError:
        return "", "This note is too large to embed"
    html: str = _parser().renderer.render(tokens, _parser().options, env)
    return html, "" if tokens or not subpath else "Heading or block not found"


_URL = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_TAGS = frozenset({"tags", "tag"})


def render_properties(text: str, frontmatter: Frontmatter, page: Page) -> str:
    """Render the properties of a note; invalid ones as source."""
    block = text[frontmatter.start : frontmatter.end]
    if frontmatter.problem and block:
        return f'<pre class="properties">{escapeHtml(block)}</pre>'
    if not frontmatter.properties:
        return ""
    first = text.count("\n", 0, frontmatter.start) + 1
    lines = block.splitlines()
    rows = [_render_row(prop, lines, first, page) for prop in frontmatter.properties]
    return f'<table class="properties"><tbody>\n{"".join(rows)}</tbody></table>'


def _render_row(prop: Property, lines: list[str], first: int, page: Page) -> str:
    values = (prop.value,) if isinstance(prop.value, str) else prop.value
    if prop.name in _TAGS and prop.kind == "str":
        values = tuple(filter(str.strip, values[0].split(",")))
    if prop.kind == "map" or (prop.kind == "seq" and not values):
        source = "\n".join(lines[prop.first : prop.last])
        cell = f"<code>{escapeHtml(source.partition(':')[2].strip())}</code>"
    else:
        cell = ", ".join(_render_value(value, prop.name, page) for value in values)
    attributes = f'data-line="{first + prop.first}" data-end="{first + prop.last - 1}"'
    return f"<tr {attributes}><th>{escapeHtml(prop.name)}</th><td>{cell}</td></tr>\n"


def _render_value(value: str, name: str, page: Page) -> str:
    """Render one value: a link if all of it is a link, or else its text."""
    value = value.strip()
    if link := read_whole_link(value):
        return render_link(link, format_link(link), page)
    if _URL.fullmatch(value):
        return f'<a class="external" href="{escapeHtml(value)}" rel="{REL}">{escapeHtml(value)}</a>'
    tag = value.removeprefix("#")
    if name in _TAGS and INLINE_TAG.fullmatch(f"#{tag}"):
        href = escapeHtml(page.around.addresses.tag(tag.strip("/")))
        return f'<a class="tag" href="{href}">{escapeHtml(tag)}</a>'
    return escapeHtml(value)
