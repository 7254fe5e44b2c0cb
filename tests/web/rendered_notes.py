"""A small vault in memory around the notes that are rendered, and what HTML may hold."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from vaultmem.core.notes.link_syntax import LinkNames
from vaultmem.web.markdown.html import RenderedNote, render_note
from vaultmem.web.markdown.html_links import LinkContext

GOLDEN = Path(__file__).parents[1] / "golden"
PATH = "Note features.md"
OTHER = """---
x: 1
---
# Other

Intro of it.

## Part two

Text of part two. [[Note features]][^n]

### Sub

Sub *text*. ^block-1

## Three

![[Note features]]

[^n]: Its footnote.
"""

_TAGS = frozenset(
    re.findall(
        r"\w+",
        "a p h1 h2 h3 h4 h5 h6 ul ol li blockquote div span section details summary pre code em "
        "strong s mark table thead tbody tr th td hr br img sup sub u b i kbd small",
    )
)
_NAMES = {
    "class": re.compile(r"[a-z][\w+#. -]*"),
    "id": re.compile(r"(note|block|footnote)-[^\s\"'<>]*"),
    "href": re.compile(r"(https?://|mailto:|/note/|/tag/|/file/|#).*", re.DOTALL | re.I),
    "src": re.compile(r"/file/[\w%./-]+"),
    "rel": re.compile("noopener noreferrer nofollow"),
    "loading": re.compile("lazy"),
    "tabindex": re.compile("0"),
    "role": re.compile("img"),
    "open": re.compile(""),
    **dict.fromkeys(["title", "alt", "aria-label"], re.compile(".*", re.DOTALL)),
    "data-task": re.compile("(?s)."),
    **dict.fromkeys(["data-line", "data-end", "width", "height", "start"], re.compile(r"\d{1,9}")),
}


def render(text: str, path: str = PATH, notes: dict[str, str] | None = None) -> RenderedNote:
    """Render a note of a vault with another note, a picture and a report."""
    texts = {"sub/Other note.md": OTHER, path: text, **(notes or {})}
    names = LinkNames([*texts, "img/image.png", "report.pdf"])
    return render_note(text, path, LinkContext(names.find, texts.get))


class _Inspector(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            self.faults.append(f"<{tag}>")
        names = [name for name, _ in attrs]
        if len(set(names)) < len(names):
            self.faults.append(f"<{tag}> has an attribute twice")
        for name, value in attrs:
            pattern = _NAMES.get(name)
            if pattern is None or not pattern.fullmatch(value or ""):
                self.faults.append(f'<{tag} {name}="{value}">')
        given = dict(attrs)
        if re.match("https?:|mailto:", given.get("href") or "", re.I) and "rel" not in given:
            self.faults.append(f"<{tag}> leads outside without rel")

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.faults.append(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self.faults.append(f"<?{data}>")


def find_faults(html: str) -> list[str]:
    """Return what of a note's HTML could run, load from elsewhere or pass for the page."""
    inspector = _Inspector()
    inspector.feed(html)
    inspector.close()
    return inspector.faults


def find_note_faults(rendered: RenderedNote) -> list[str]:
    """Return the same for a note and its properties."""
    return find_faults(rendered.properties + rendered.html)
