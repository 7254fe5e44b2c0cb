"""Footnotes: `[^name]`, what `[^name]: text` says of them, and `^[text]` for both at once.

Source: Obsidian Help, "Basic formatting syntax" (footnotes).
"""

from __future__ import annotations

import re
from typing import Any

from markdown_it.helpers import parseLinkLabel
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from vaultmem.web.markdown.page import Page, page_of

_REFERENCE = re.compile(r"\[\^([^\]\s]{1,100})\]")
_DEFINITION = re.compile(r"\[\^([^\]\s]{1,100})\]:[ \t]*")


def read_definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read what a footnote says: a line, and those behind it that are indented."""
    place = state.bMarks[start] + state.tShift[start]
    if state.is_code_block(start) or not state.src.startswith("[^", place):
        return False
    found = _DEFINITION.match(state.src, place, state.eMarks[start])
    if found is None:
        return False
    if silent:
        return True
    state.env.setdefault("footnotes", {}).setdefault(found[1], [])
    token = state.push("footnote_open", "li", 1)
    token.meta, token.map = {"name": found[1]}, [start, start]
    _read_text(state, start, end, found.end())
    token.map[1] = state.line
    state.push("footnote_close", "li", -1)
    return True


def _read_text(state: StateBlock, start: int, end: int, place: int) -> None:
    """Read the blocks of a footnote, the first of which begins at a place of its first line."""
    kept = state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType
    state.bMarks[start], state.tShift[start], state.parentType = place, 0, "footnote"
    state.blkIndent += 4
    state.sCount[start] = state.blkIndent
    if place >= state.eMarks[start] and (start + 1 >= end or state.isEmpty(start + 1)):
        state.line = start + 1
    else:
        state.md.block.tokenize(state, start, end)
    state.blkIndent -= 4
    state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType = kept


def read_reference(state: StateInline, silent: bool) -> bool:
    """Read a mark that leads to a footnote that there is."""
    if not state.src.startswith("[^", state.pos) or state.linkLevel:
        return False
    found = _REFERENCE.match(state.src, state.pos, state.posMax)
    known: dict[str, Any] = state.env.get("footnotes", {})
    if found is None or found[1] not in known:
        return False
    if not silent:
        state.push("footnote", "sup", 0).meta = {"name": found[1]}
    state.pos = found.end()
    return True


def read_inline_note(state: StateInline, silent: bool) -> bool:
    """Read a footnote that stands where it is meant."""
    start = state.pos
    if not state.src.startswith("^[", start) or state.linkLevel or state.env.get("in_footnote"):
        return False
    end = parseLinkLabel(state, start + 1)
    if end < 0:
        return False
    if not silent:
        known = state.env.setdefault("footnotes", {})
        name = f" {len(known)}"  # No name that is written has a blank.
        children: list[Token] = []
        state.env["in_footnote"] = True
        state.md.inline.parse(state.src[start + 2 : end], state.md, state.env, children)
        state.env["in_footnote"] = False
        known[name] = [Token("inline", "", 0, children=children, content="")]
        state.push("footnote", "sup", 0).meta = {"name": name}
    state.pos = end + 1
    return True


def gather_footnotes(state: StateCore) -> None:
    """Move the footnotes to the end, in the order of their marks; those without a mark are last."""
    known: dict[str, list[Token]] = state.env.get("footnotes", {})
    if not known:
        return
    state.tokens = _take_definitions(state.tokens, known)
    marked = _number_marks([*state.tokens, *(each for text in known.values() for each in text)])
    prefix = f"footnote-{page_of(state.env).mark}"
    items: list[Token] = []
    for number, name in enumerate(dict.fromkeys([*marked, *known]), 1):
        items += _make_item(known[name], prefix, number, name in marked)
    state.tokens += [
        Token("footnotes_open", "section", 1, {"class": "footnotes"}, block=True),
        Token("footnotes_list_open", "ol", 1, block=True),
        *items,
        Token("footnotes_list_close", "ol", -1, block=True),
        Token("footnotes_close", "section", -1, block=True),
    ]


def _number_marks(tokens: list[Token]) -> dict[str, int]:
    """Give the marks their numbers, by the first of each footnote, and return those by name."""
    numbers: dict[str, int] = {}
    for mark in (child for token in tokens for child in token.children or ()):
        if mark.type == "footnote":
            name = mark.meta["name"]
            mark.meta["is_first"] = name not in numbers
            mark.meta["number"] = numbers.setdefault(name, len(numbers) + 1)
    return numbers


def _take_definitions(tokens: list[Token], known: dict[str, list[Token]]) -> list[Token]:
    """Return the tokens without the definitions, which are put where their names are known."""
    kept: list[Token] = []
    into = [kept]
    for token in tokens:
        if token.type == "footnote_open":
            into.append([token])
        elif token.type == "footnote_close":
            whole = [*into.pop(), token]
            name = whole[0].meta["name"]
            known[name] = known[name] or whole
        else:
            into[-1].append(token)
    return kept


def _make_item(tokens: list[Token], prefix: str, number: int, is_marked: bool) -> list[Token]:
    """Return a footnote's tokens as an item of the list, with a way back to its mark."""
    lines = None
    if tokens and tokens[0].type == "footnote_open":
        lines, tokens = tokens[0].map, tokens[1:-1]
    attrs: dict[str, str | int | float] = {"id": f"{prefix}{number}"}
    opening = Token("footnote_item_open", "li", 1, attrs, map=lines, block=True)
    closing = Token("footnote_item_close", "li", -1, block=True)
    back = [Token("footnote_back", "a", 0, meta={"number": number})] if is_marked else []
    text = next((each for each in tokens[-2:] if each.type == "inline"), None)
    if text is not None and text.children is not None:
        text.children += back
        back = []
    return [opening, *tokens, *back, closing]


def render_reference(token: Token, page: Page) -> str:
    """Render the mark of a footnote."""
    number = token.meta["number"]
    name = f"{page.mark}{number}"
    place = f' id="footnote-mark-{name}"' if token.meta["is_first"] else ""
    return f'<sup class="footnote"><a href="#footnote-{name}"{place}>{number}</a></sup>'


def render_back(token: Token, page: Page) -> str:
    """Render the way from a footnote back to its mark."""
    name = f"{page.mark}{token.meta['number']}"
    return f' <a class="footnote-back" href="#footnote-mark-{name}">↩</a>'
