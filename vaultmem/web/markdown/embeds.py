"""Notes in notes: where an embed stands, and which part of the other note it means."""

from __future__ import annotations

from collections.abc import Iterator

from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from vaultmem.core.links.names import fold_heading
from vaultmem.web.markdown.links import direct_links, find_target
from vaultmem.web.markdown.page import Page, page_of

_GAPS = frozenset({"softbreak", "hardbreak"})


def direct_all(state: StateCore) -> None:
    """Give all links their destinations, and make blocks of the notes that are embedded."""
    page = page_of(state.env)
    lifted: list[Token] = []
    rest = iter(enumerate(state.tokens))
    for at, token in rest:
        if token.type == "inline" and token.children:
            direct_links(token.children, page)
            if lifted[-1].type == "paragraph_open" and _has_embed(token.children, page):
                lifted += _split_paragraph(lifted.pop(), token, state.tokens[at + 1], page)
                next(rest)
                continue
        lifted.append(token)
    state.tokens = lifted


def _has_embed(children: list[Token], page: Page) -> bool:
    return any(_is_embed(child, page) for child in children)


def _is_embed(token: Token, page: Page) -> bool:
    """Tell whether an inline token embeds a note and stands in no other one."""
    if token.type != "wikilink" or token.level or not token.meta["link"].is_embed:
        return False
    return find_target(token.meta["link"], page).is_note


def _split_paragraph(opening: Token, text: Token, closing: Token, page: Page) -> Iterator[Token]:
    """Yield a paragraph's tokens with its embeds between paragraphs of their own."""
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
    """Return the tokens of the section or block that a link's subpath means; none if there is none.

    A section has those below it. Footnotes come along where some are meant.
    """
    if not subpath:
        return tokens
    last = next((at for at, each in enumerate(tokens) if each.type == "footnotes_open"), None)
    body, footnotes = tokens[:last], tokens[last:] if last is not None else []
    part = _select_block(body, subpath[1:]) if subpath[0] == "^" else _select_section(body, subpath)
    marks = (child.type == "footnote" for token in part for child in token.children or ())
    return [*part, *footnotes] if any(marks) else part


def _select_block(tokens: list[Token], name: str) -> list[Token]:
    wanted = name.strip().casefold()
    for at, token in enumerate(tokens):
        if token.meta.get("block") == wanted:
            depth = 0
            for end in range(at, len(tokens)):
                depth += tokens[end].nesting
                if not depth:
                    return tokens[at : end + 1]
    return []


def _select_section(tokens: list[Token], subpath: str) -> list[Token]:
    names = [name for part in subpath.split("#") if (name := fold_heading(part))]
    above: list[tuple[str, str]] = []  # Tags and headings down to here.
    start, tag = -1, ""
    for at, token in enumerate(tokens):
        if token.type != "heading_open" or token.level:
            continue
        if start >= 0 and token.tag <= tag:
            return tokens[start:at]
        above = [each for each in above if each[0] < token.tag]
        above.append((token.tag, fold_heading(tokens[at + 1].content)))
        line = iter([heading for _, heading in above])
        if start < 0 and names and all(name in line for name in names):
            start, tag = at, token.tag
    return tokens[start:] if start >= 0 else []
