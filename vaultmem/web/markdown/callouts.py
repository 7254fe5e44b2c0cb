"""Quotes that are callouts: `> [!kind]± title`.

Source: Obsidian Help, "Callouts".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from vaultmem.web.markdown.clean import CALLOUTS

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
    """Make callouts of the quotes whose first line says so."""
    shaped: list[Token] = []
    closing: list[str] = []  # Of each quote that is open, the tag of its callout or "".
    rest = iter(enumerate(state.tokens))
    for at, token in rest:
        if token.type == "blockquote_open":
            found = _find_mark(state.tokens[at + 1 : at + 3])
            closing.append("")
            if found:
                closing[-1] = "details" if found[2] else "div"
                shaped += _open_callout(token, found)
                shaped += _keep_rest(state.tokens[at + 1 : at + 4], found)
                for _ in range(3):
                    next(rest)
                continue
        elif token.type == "blockquote_close" and (tag := closing.pop()):
            shaped += (_make("callout_body", "div", -1), _make("callout", tag, -1))
            continue
        shaped.append(token)
    state.tokens = shaped


def _find_mark(behind: Sequence[Token]) -> re.Match[str] | None:
    """Return what makes a callout of a quote; with a rule below, it was taken for a heading."""
    kinds = {"paragraph_open", "heading_open"}
    if len(behind) < 2 or behind[0].type not in kinds or behind[0].markup.startswith("#"):
        return None
    return _MARK.match(behind[1].content)


def _open_callout(quote: Token, found: re.Match[str]) -> list[Token]:
    """Return the tokens from the callout's beginning to that of its text."""
    name = found[1].partition("|")[0].strip()
    kind = _ALIASES.get(name.lower(), name.lower())
    kind = kind if kind in CALLOUTS else "note"
    callout = _make("callout", "details" if found[2] else "div", 1)
    callout.map, callout.attrs = quote.map, {"class": f"callout callout-{kind}"}
    if found[2] == "+":
        callout.attrs["open"] = ""
    tag = "summary" if found[2] else "div"
    title = _make("callout_title", tag, 1)
    title.attrs = {"class": "callout-title"}
    text = Token("inline", "", 0, content=found[3].strip() or name.capitalize(), children=[])
    body = _make("callout_body", "div", 1)
    body.attrs = {"class": "callout-body"}
    return [callout, title, text, _make("callout_title", tag, -1), body]


def _keep_rest(paragraph: Sequence[Token], found: re.Match[str]) -> Sequence[Token]:
    """Return the first paragraph without the line that made its quote a callout."""
    opening, text, _ = paragraph
    text.content = text.content[found.end() :]
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
