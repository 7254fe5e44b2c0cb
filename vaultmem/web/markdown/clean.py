"""Sanitizer: the second check, which allows only the HTML of a rendered note."""

from __future__ import annotations

import functools
import re

import nh3

#: The kinds of callouts with a style of their own; Obsidian shows others as notes.
CALLOUTS = frozenset(
    {
        *("note", "abstract", "info", "todo", "tip", "success", "question"),
        *("warning", "failure", "danger", "bug", "example", "quote"),
    }
)
REL = "noopener noreferrer nofollow"

_LINE_NUMBER_TAGS = ["p", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "tr", "pre", "blockquote", "li"]
_PLAIN_TAGS = ["ul", "br", "em", "strong", "b", "i", "u", "s", "mark", "sub", "sup", "kbd", "small"]
_PARTS = ["section", "summary", "table", "thead", "tbody", "th", "td"]
_PLACES = {"data-line", "data-end", "id"}
_TAGS: dict[str, set[str]] = {
    **dict.fromkeys([*_LINE_NUMBER_TAGS, "div", "details"], _PLACES),
    **{tag: set() for tag in [*_PLAIN_TAGS, *_PARTS]},
    "li": {*_PLACES, "data-task"},
    "a": {"href", "title", "id"},
    "img": {"src", "alt", "title", "width", "height"},
    "ol": {"start"},
    "span": {"title", "aria-label"},
    "code": {"class"},
}
_VALUES = {
    "a": {"rel": {REL}},
    "img": {"loading": {"lazy"}},
    "span": {"role": {"img"}},
    "details": {"open": {""}},
}
_CLASSES: dict[str, set[str]] = {
    "a": {"internal", "external", "tag", "file", "embed-link", "footnote-back"},
    "span": {"unresolved", "file", "math", "task-box", "image"},
    "div": {"callout", "callout-title", "callout-body", "embed", "embed-title", "math"},
    "pre": {"plain", "properties"},
    "li": {"task"},
    "sup": {"footnote"},
    "section": {"footnotes"},
    "summary": {"callout-title"},
    "table": {"properties"},
    **{cell: {"left", "center", "right"} for cell in ("th", "td")},
}
_CLASSES["details"] = {"callout", *(f"callout-{kind}" for kind in CALLOUTS)}
_CLASSES["div"] |= _CLASSES["details"]

_ID = re.compile(r"(?:note|block|footnote)-[^\s\"'<>]*")
_LANGUAGE = re.compile(r"language-[\w+#.-]{1,40}")
_EXTERNAL_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[/\\]{2}")
_NUMBER = re.compile(r"[0-9]{1,9}")


def clean_html(html: str) -> str:
    """Return HTML without anything that could run, load from elsewhere or imitate the page."""
    return _make_cleaner().clean(html)


@functools.cache
def _make_cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=set(_TAGS),
        attributes=_TAGS,
        attribute_filter=_filter_attribute,
        allowed_classes=_CLASSES,
        tag_attribute_values=_VALUES,
        # Wide blocks can be scrolled with keys.
        set_tag_attribute_values={name: {"tabindex": "0"} for name in ("pre", "table")},
        url_schemes={"http", "https", "mailto"},
        link_rel=None,
        strip_comments=True,
    )


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    """Return an attribute's value, None if it is not allowed."""
    if name in _PATTERNS:
        return value if _PATTERNS[name].fullmatch(value) else None
    if name == "src":
        return None if _EXTERNAL_URL.match(value) else value
    if name == "class" and tag == "code":
        return value if _LANGUAGE.fullmatch(value) else None
    return value


_PATTERNS = {
    "id": _ID,
    "data-line": _NUMBER,
    "data-end": _NUMBER,
    "width": _NUMBER,
    "height": _NUMBER,
    "start": _NUMBER,
}
