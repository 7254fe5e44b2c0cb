"""Links and embeds of a rendered note, and the limits of one rendering."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from markdown_it.common.utils import escapeHtml
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from vaultmem.core.notes.link_syntax import (
    Link,
    LinkKind,
    decode_destination,
    fold_heading,
    read_wikilink,
    split_destination,
)
from vaultmem.core.text.display import escape_bytes
from vaultmem.core.text.paths import NOTE_ENDINGS
from vaultmem.web.markdown.clean import REL

if TYPE_CHECKING:
    from markdown_it.utils import EnvType


#: The most levels of nested embeds, embeds of a page, and characters in all of them.
MAX_EMBED_DEPTH = 4
MAX_EMBEDS = 50
MAX_EMBEDDED = 300_000
#: The most characters to search for brackets that turn out not to be links.
MAX_STEPS = 1_500_000


def _address(prefix: str) -> Callable[[str], str]:
    return lambda name: prefix + quote(os.fsencode(name), safe="/")


class Addresses(NamedTuple):
    """The URLs of notes, files and tags: functions from a path or tag to a quoted URL.

    A file with the URL "" cannot be shown; a note with the URL "" is treated as missing.
    """

    note: Callable[[str], str] = _address("/note/")
    file: Callable[[str], str] = _address("/file/")
    tag: Callable[[str], str] = _address("/tag/")


class LinkContext(NamedTuple):
    """The vault around a note.

    `find` returns the path of a link's target (`LinkNames.find` in `core.notes.link_syntax`).
    `read` returns the text of a note to embed, None if it is missing or must not be shown.
    """

    find: Callable[[Link, str], str | None]
    read: Callable[[str], str | None]
    addresses: Addresses = Addresses()


class Budget:
    """The remaining cost limits of a page with all its embeds."""

    def __init__(self) -> None:
        self.embeds = MAX_EMBEDS
        self.characters = MAX_EMBEDDED
        self.steps = MAX_STEPS

    def take(self, text: str) -> bool:
        """Return whether one more text can be embedded, and count it."""
        if self.embeds <= 0 or len(text) > self.characters:
            return False
        self.embeds -= 1
        self.characters -= len(text)
        return True


class Page(NamedTuple):
    """One text that is being rendered: the note itself, or an embedded one.

    `first` is the line at which the text begins, 0 if lines are not reported (embeds). `trail` are
    the texts that contain this one. `mark` makes its ids unique.
    """

    path: str
    around: LinkContext
    budget: Budget
    first: int = 1
    trail: tuple[str, ...] = ()
    mark: str = ""


def page_of(env: EnvType) -> Page:
    """Return the text that markdown-it is parsing."""
    page: Page = env["page"]
    return page


def find_anchor(subpath: str) -> str:
    """Return the id of a link's subpath: of its last heading, or of a block (`^id`)."""
    last = subpath.rpartition("#")[2].strip()
    return f"block-{last[1:].casefold()}" if last.startswith("^") else format_heading(last)


def format_heading(heading: str) -> str:
    """Return the id of a heading in its page.

    Its prefix differs from the page's own ids and from any name in a script.
    """
    return f"note-{fold_heading(heading).replace(' ', '-') or 'section'}"


# Targets of links: a page of the vault, an external page, or none.

_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".svg", ".webp", ".avif")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_EXTERNAL_URL = re.compile(r"https?://|mailto:", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]{1,4})(?:x([0-9]{1,4}))?")


class LinkTarget(NamedTuple):
    """The target of a link: the file, "" if it is missing, and its URL."""

    path: str
    href: str

    @property
    def is_note(self) -> bool:
        """Whether it is a note."""
        return self.path.lower().endswith(NOTE_ENDINGS)

    @property
    def is_image(self) -> bool:
        """Whether a browser can show it as an image."""
        return self.path.lower().endswith(_IMAGES)


def is_shown_link(url: str) -> bool:
    """Return whether a destination is allowed as a link; if not, its source is shown as text."""
    return _SCHEME.match(url) is None or _EXTERNAL_URL.match(url) is not None


def find_target(link: Link, page: Page) -> LinkTarget:
    """Return the target of a link in a text."""
    path = page.around.find(link, page.path) or ""
    if not path:
        return LinkTarget("", "")
    anchor = "#" + quote(find_anchor(link.subpath)) if link.subpath else ""
    if not link.path and page.first and anchor:
        return LinkTarget(path, anchor)
    addresses = page.around.addresses
    target = LinkTarget(path, addresses.file(path))
    if not target.is_note:
        return target
    page_of_note = addresses.note(path)
    return LinkTarget(path, page_of_note + anchor) if page_of_note else LinkTarget("", "")


def format_link(link: Link) -> str:
    """Return the display text of a wikilink: its own text, or its target."""
    if link.text and not (link.is_embed and _SIZE.fullmatch(link.text)):
        return link.text
    return " > ".join(filter(None, (link.path, *link.subpath.split("#"))))


def read_link(state: StateInline, silent: bool) -> bool:
    """Read a wikilink or an embed."""
    start, is_embed = state.pos, state.src.startswith("!", state.pos)
    if not state.src.startswith("[[", start + is_embed) or state.linkLevel:
        return False
    wikilink = read_wikilink(state.src, start + is_embed)
    if wikilink is None or wikilink[1] > state.posMax:
        return False
    if not silent:
        push_link(state, wikilink[0]._replace(is_embed=is_embed))
    state.pos = wikilink[1]
    return True


def push_link(state: StateInline, link: Link) -> None:
    """Add a link whose text is not markdown."""
    token = state.push("wikilink", "a", 0)
    token.meta = {"link": link}
    token.content = format_link(link)


def render_link(link: Link, text: str, page: Page, hint: str = "") -> str:
    """Return a link or an embedded image as HTML; `hint` is why an embed is only a link."""
    target, label = find_target(link, page), escapeHtml(text)
    if not target.path:
        return f'<span class="unresolved" title="Note or file not found">{label}</span>'
    if not target.href:
        return f'<span class="file" title="This file type is not shown">{label}</span>'
    if link.is_embed and target.is_image:
        return render_image(target, link.text)
    kind = "internal" if target.is_note else "internal file"
    if link.is_embed:
        kind += " embed-link"
    title = f' title="{escapeHtml(hint)}"' if hint else ""
    return f'<a class="{kind}" href="{escapeHtml(target.href)}"{title}>{label}</a>'


def render_image(target: LinkTarget, text: str) -> str:
    """Return an image of the vault; the last `|` of its text can precede its size."""
    prefix, _, size = text.rpartition("|")
    match = _SIZE.fullmatch(size.strip())
    alt = (prefix if match else text) or escape_bytes(target.path.rpartition("/")[2])
    width = f' width="{match[1]}"' if match else ""
    height = f' height="{match[2]}"' if match and match[2] else ""
    return (
        f'<img src="{escapeHtml(target.href)}" alt="{escapeHtml(alt)}"{width}{height} '
        'loading="lazy">'
    )


def direct_links(children: list[Token], page: Page) -> None:
    """Set the resolved destination of each markdown link and image among inline tokens."""
    open_links: list[Token] = []
    for token in children:
        if token.type == "link_open":
            _direct_link(token, page)
            open_links.append(token)
        elif token.type == "link_close" and open_links:
            token.tag = open_links.pop().tag
        elif token.type == "image":
            _direct_image(token, page, bool(open_links))


def _direct_link(token: Token, page: Page) -> None:
    href = str(token.attrs.get("href", ""))
    title = {"title": token.attrs["title"]} if "title" in token.attrs else {}
    if address := _go_outside(href):
        token.attrs = {"class": "external", "href": address, "rel": REL, **title}
        return
    link = _read_destination(href)
    target = find_target(link, page) if link else LinkTarget("", "")
    if not target.path:
        token.tag = "span"
        token.attrs = {"class": "unresolved", "title": f"Note or file not found: {href}"}
        return
    if not target.href:
        token.tag = "span"
        token.attrs = {"class": "file", "title": "This file type is not shown"}
        return
    kind = "internal" if target.is_note else "internal file"
    token.attrs = {"class": kind, "href": target.href, **title}


def _direct_image(token: Token, page: Page, in_link: bool) -> None:
    """Turn an image of the vault into an embedding wikilink, and any other one into a link."""
    src, text = str(token.attrs.get("src", "")), token.content
    link = (_read_destination(src) or _EMPTY_LINK)._replace(is_embed=True, text=text)
    address = _go_outside(src)
    if address or (in_link and not find_target(link, page).is_image):
        token.type = "outside_image"
        token.meta = {"href": "" if in_link else address}
        return
    token.type, token.meta = "wikilink", {"link": link}
    token.content = format_link(link) or src


def _go_outside(href: str) -> str:
    """Return the address if it is outside the vault, or else ""."""
    if href.startswith("//"):
        return f"https:{href}"
    return href if _EXTERNAL_URL.match(href) else ""


def _read_destination(href: str) -> Link | None:
    parts = split_destination(href)
    if parts is None:
        return None
    path, subpath = map(decode_destination, parts)
    return _EMPTY_LINK._replace(path=path, subpath=subpath)


_EMPTY_LINK = Link(LinkKind.MARKDOWN, "\0", "", "", 0, 0, 0)


def render_wikilink(token: Token, page: Page) -> str:
    """Render a link whose text is not markdown."""
    return render_link(token.meta["link"], token.content, page)


def render_outside_image(token: Token, page: Page) -> str:
    """Render an external image as a link, so that the page makes no external requests."""
    href = str(token.meta["href"])
    text = escapeHtml(token.content or href or "image")
    if not href:
        return f'<span class="image">{text}</span>'
    return f'<a class="external" href="{escapeHtml(href)}" rel="{REL}">{text}</a>'


def render_opening(token: Token, page: Page) -> str:
    """Render the start of a link, without a destination if it was not resolved."""
    if "class" not in token.attrs:
        return f"<{token.tag}>"
    return f"<{token.tag}{render_attributes(token)}>"


def render_undirected_image(token: Token, page: Page) -> str:
    """Render an image as its text, if its destination was not resolved."""
    return f'<span class="image">{escapeHtml(token.content)}</span>'


def render_attributes(token: Token) -> str:
    """Return the attributes of a token as HTML."""
    return "".join(f' {name}="{escapeHtml(str(each))}"' for name, each in token.attrs.items())
