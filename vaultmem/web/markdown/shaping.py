"""Tasks, names of blocks, headings and lines: what is told of blocks once they are known."""

from __future__ import annotations

import re
from typing import NamedTuple

from markdown_it.common.utils import escapeHtml
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from vaultmem.core.links.names import BLOCK_NAME
from vaultmem.web.markdown.page import Page, name_heading, page_of

_TASK = re.compile(r"\[([^\]\n])\](?:[ \t]+|$)")
_SHOWN = frozenset({"text", "code_inline", "wikilink", "tag", "math", "outside_image"})
#: Of lists and tables, the items and rows have lines.
_UNLINED = frozenset(
    ["bullet_list_open", "ordered_list_open", "table_open", "thead_open", "tbody_open", "inline"]
)


class Heading(NamedTuple):
    """A heading of a note: its level (1 to 6), what it shows, its id in the page, its line."""

    level: int
    text: str
    anchor: str
    line: int


def shape_items(state: StateCore) -> None:
    """Take the marks of tasks and the names of blocks out of the text that they stand in."""
    tokens = state.tokens
    for at, token in enumerate(tokens):
        if token.type != "inline" or tokens[at - 1].type != "paragraph_open":
            continue
        holder = tokens[at - 1]
        if at > 1 and tokens[at - 2].type == "list_item_open":
            holder = tokens[at - 2]
            _take_task(holder, token)
        if "^" in token.content:
            _take_name(tokens, at, holder)


def _take_task(item: Token, text: Token) -> None:
    if found := _TASK.match(text.content):
        text.meta["task"] = item.attrs["data-task"] = found[1]
        item.attrs["class"] = "task"
        text.content = text.content[found.end() :]


def _take_name(tokens: list[Token], at: int, holder: Token) -> None:
    """Name a block by what its text ends with, or the block before a paragraph of nothing else."""
    text = tokens[at]
    begin = text.content.rfind("\n") + 1
    found = BLOCK_NAME.search(text.content, begin)
    if found is None:
        return
    text.content = text.content[: found.start()].rstrip()
    if not text.content:
        tokens[at - 1].hidden = tokens[at + 1].hidden = True
        if holder is tokens[at - 1]:
            holder = _find_before(tokens, at - 1)
    holder.meta["block"] = found[1].casefold()


def _find_before(tokens: list[Token], at: int) -> Token:
    """Return the beginning of the block before one, itself if it is the first."""
    for place in range(at - 1, -1, -1):
        token = tokens[place]
        if token.level < tokens[at].level:
            break
        if token.level == tokens[at].level and token.nesting >= 0:
            return token
    return tokens[at]


def show_tasks(state: StateCore) -> None:
    """Put a box before the text of each task."""
    for token in state.tokens:
        if token.type == "inline" and "task" in token.meta and token.children is not None:
            token.children.insert(0, Token("task", "span", 0, content=token.meta["task"]))


def render_task(token: Token, page: Page) -> str:
    """Render a task's box, which is not to be clicked at."""
    mark = token.content
    said = {" ": "open", "x": "done", "X": "done"}.get(mark, f"marked {mark}")
    shown = {" ": "☐", "x": "☑", "X": "☑"}.get(mark, mark)
    return (
        f'<span class="task-box" role="img" aria-label="{escapeHtml(said)}">{escapeHtml(shown)}'
        "</span> "
    )


def name_places(state: StateCore) -> None:
    """Give headings and named blocks their ids, and all blocks the lines that they stand in."""
    page = page_of(state.env)
    if not page.first:
        return
    taken: dict[str, int] = {}
    headings: list[Heading] = state.env["headings"]
    blank = [not line.strip("> \t") for line in state.src.split("\n")]
    for at, token in enumerate(state.tokens):
        if token.type == "heading_open":
            text = state.tokens[at + 1]
            anchor = _once(name_heading(text.content), taken)
            token.attrs["id"] = anchor
            line = page.first + (token.map or [0])[0]
            headings.append(Heading(int(token.tag[1]), _show(text), anchor, line))
        elif "block" in token.meta:
            token.attrs.setdefault("id", _once(f"block-{token.meta['block']}", taken))
        elif token.type == "inline" and "<a" in token.content:
            _name_places(token.children or [], taken)
        if token.map and token.block and token.nesting >= 0 and token.type not in _UNLINED:
            _tell_lines(token, page.first, blank)


def _name_places(children: list[Token], taken: dict[str, int]) -> None:
    for child in children:
        if child.type == "name" and (anchor := name_heading(child.meta["name"])) not in taken:
            child.attrs["id"] = _once(anchor, taken)


def _once(anchor: str, taken: dict[str, int]) -> str:
    """Return an id, with a number behind it where it stands already."""
    name = anchor
    while name in taken:
        taken[anchor] += 1
        name = f"{anchor}-{taken[anchor]}"
    taken[name] = 1
    return name


def _show(heading: Token) -> str:
    children = heading.children or ()
    return "".join(each.content if each.type in _SHOWN else "" for each in children).strip()


def _tell_lines(token: Token, first: int, blank: list[bool]) -> None:
    begin, end = token.map or (0, 0)
    while end > begin + 1 and (end > len(blank) or blank[end - 1]):
        end -= 1
    token.attrs["data-line"] = begin + first
    token.attrs["data-end"] = max(end, begin + 1) + first - 1
