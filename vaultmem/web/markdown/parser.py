"""markdown-it with Obsidian's rules, and without HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml, unescapeAll
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline import image as read_image
from markdown_it.rules_inline import link as read_markdown_link
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from vaultmem.web.markdown import blocks, callouts, embeds, footnotes, inline, links, shaping
from vaultmem.web.markdown.page import Page, page_of

InlineRule = Callable[[StateInline, bool], bool]
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}", re.ASCII)
_BEFORE_PARAGRAPHS: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}


def make_parser(render_embed: Callable[[Token, Page], str]) -> MarkdownIt:
    """Return a parser of notes; `render_embed` renders the notes in them."""
    options = {"html": False, "breaks": True, "xhtmlOut": False, "maxNesting": 100}
    md = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    md.disable(["html_block", "html_inline"])
    md.validateLink = links.is_shown_link  # type: ignore[method-assign]
    _add_block_rules(md)
    _add_inline_rules(md)
    _add_core_rules(md)
    _add_renderers(md, render_embed)
    # They would be made ready by whoever asks first, and two threads may do so at once.
    for rules in (md.core.ruler, md.block.ruler, md.inline.ruler, md.inline.ruler2):
        rules.getRules()
    return md


def _add_block_rules(md: MarkdownIt) -> None:
    rules = md.block.ruler
    rules.before("table", "bounds", blocks.check_bounds)
    rules.before("fence", "math_block", blocks.read_math_block, _BEFORE_PARAGRAPHS)
    rules.before("reference", "footnote", footnotes.read_definition, _BEFORE_PARAGRAPHS)


def _add_inline_rules(md: MarkdownIt) -> None:
    rules = md.inline.ruler
    rules.before("link", "wikilink", links.read_link)
    rules.before("link", "footnote", footnotes.read_reference)
    rules.before("link", "inline_footnote", _bound(footnotes.read_inline_note))
    rules.before("link", "tag", inline.read_tag)
    rules.before("emphasis", "highlight", inline.read_highlight)
    rules.after("escape", "math", inline.read_math)
    rules.before("autolink", "html", inline.read_html)
    rules.before("newline", "url", inline.read_url)
    rules.at("image", _bound(_read_image))
    rules.at("link", _bound(read_markdown_link))
    md.inline.ruler2.after("balance_pairs", "highlight", inline.pair_highlights)


def _add_core_rules(md: MarkdownIt) -> None:
    rules = md.core.ruler
    rules.after("block", "callouts", callouts.shape_callouts)
    rules.after("callouts", "items", shaping.shape_items)
    rules.push("footnotes", footnotes.gather_footnotes)  # With them, all that is shown is there.
    rules.push("links", embeds.direct_all)
    rules.push("tasks", shaping.show_tasks)
    rules.push("places", shaping.name_places)


def _bound(rule: InlineRule) -> InlineRule:
    """Return a rule that looks for a closing bracket, which gives up where too many look in vain.

    Each one goes through the rest of its paragraph: many thousands that none closes would take
    minutes. From then on, brackets are text.
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
    """Read an image, but none within the text of another one: markdown-it would go ever deeper."""
    if state.src[state.pos] != "!" or state.env.get("in_image"):
        return False
    state.env["in_image"] = not silent
    try:
        return read_image(state, silent)
    finally:
        state.env["in_image"] = False


def _add_renderers(md: MarkdownIt, render_embed: Callable[[Token, Page], str]) -> None:
    renderers: dict[str, Callable[[Token, Page], str]] = {
        "wikilink": links.render_wikilink,
        "link_open": links.render_opening,
        "image": links.render_undirected_image,
        "outside_image": links.render_outside_image,
        "tag": inline.render_tag,
        "name": inline.render_name,
        "math": inline.render_math,
        "math_block": _render_math_block,
        "task": shaping.render_task,
        "footnote": footnotes.render_reference,
        "footnote_back": footnotes.render_back,
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
        _: object, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType
    ) -> str:
        return render(tokens[at], page_of(env))

    return call


def _render_code(token: Token, page: Page) -> str:
    words = unescapeAll(token.info).split(maxsplit=1)
    known = words and _LANGUAGE.match(words[0])
    language = f' class="language-{known[0]}"' if known else ""
    code = f"<code{language}>{escapeHtml(token.content)}</code>"
    return f"<pre{links.render_attributes(token)}>{code}</pre>\n"


def _render_math_block(token: Token, page: Page) -> str:
    return f'<div class="math"{links.render_attributes(token)}>{escapeHtml(token.content)}</div>\n'


def _render_cell(token: Token, page: Page) -> str:
    align = str(token.attrs.get("style", "")).rpartition(":")[2]
    return f'<{token.tag} class="{align}">' if align else f"<{token.tag}>"
