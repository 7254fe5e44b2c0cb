"""Anchors: the files, lines and symbols of code that a memory cites, and whether they changed.

An anchor is a text in the property `cites`: `src/limit.py#L10-20@9f2c1ab+3b18e51 (shop)`. Its
parts are a path in a repository, lines or a symbol (`src/limit.py:refund_limit`), the commit and
the blob at that time, and the project, if it is not the note's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.text.display import one_line, pluralize

#: Properties with a memory's sources; notes of older versions have `refs`.
CITES = "cites"
CITE_PROPERTIES = (CITES, "refs")

#: Places where a link is a source of its note; "" is the body. Links in other properties are to
#: similar or replaced notes.
RESTS_ON = frozenset({"", *CITE_PROPERTIES, "parents"})

#: Hexadecimal digits of the ids in an anchor that vaultmem writes.
ID_DIGITS = 10

_ANCHOR = (
    r"(?P<path>[^\x00-\x1f]{1,400}?)"
    r"(?:\#L(?P<first>\d{1,7})(?:-L?(?P<last>\d{1,7}))?"
    r"|:(?P<line>\d{1,7})(?:-(?P<end>\d{1,7}))?"
    r"|:(?P<symbol>[^\W\d][\w.$]{0,199}))?"
    r"(?P<pin>@(?P<commit>[0-9a-f]{7,40})?(?:\+(?P<blob>[0-9a-f]{7,40}))?"
    r"(?: \((?P<project>[^\W_][\w.-]{0,59})\))?)?"
)

#: Text that is not a path: a URL, a wikilink, an absolute path, an option, a commit id.
_NOT_PATH = r"(?i:[a-z][a-z0-9+.-]*://|\[\[|[/\\<-]|[a-z]:[\\/]|[0-9a-f]{7,40}$)"


class Anchor(NamedTuple):
    """A part of a file in a repository; `first` and `last` are lines (1-based), 0 for the whole.

    `path` is relative to the root of the work tree. `commit` and `blob` are id prefixes, "" if
    unknown. `project` is "" for the note's own.
    """

    path: str
    first: int = 0
    last: int = 0
    symbol: str = ""
    commit: str = ""
    blob: str = ""
    project: str = ""

    @property
    def place(self) -> str:
        """The path with the lines or the symbol, as people write them."""
        if self.symbol:
            return f"{self.path}:{self.symbol}"
        if not self.first:
            return self.path
        return f"{self.path}#L{self.first}" + (f"-{self.last}" if self.last > self.first else "")

    @property
    def is_pinned(self) -> bool:
        """Return whether the anchor names a version of the file."""
        return bool(self.commit or self.blob)

    def __str__(self) -> str:
        """Return the anchor as written in a note."""
        pin = f"@{self.commit}" if self.is_pinned else ""
        pin += f"+{self.blob}" if self.blob else ""
        return f"{self.place}{pin}" + (f" ({self.project})" if self.project else "")


def parse_anchor(text: str) -> Anchor | None:
    """Return the anchor in a text; None for a URL, a wikilink or other text."""
    text = text.strip()
    if not text or re.match(_NOT_PATH, text):
        return None
    match = re.fullmatch(_ANCHOR, text)
    if match is None:
        return None
    path = match["path"]
    is_pinned = bool(match["commit"] or match["blob"])
    if not is_pinned and (match["pin"] or (":" in text and not re.search(r"[/.]", path))):
        return None  # `doi:10`, `mailto:name`
    first = int(match["first"] or match["line"] or 0)
    last = int(match["last"] or match["end"] or first)
    return Anchor(
        path,
        min(first, last),
        max(first, last),
        match["symbol"] or "",
        match["commit"] or "",
        match["blob"] or "",
        match["project"] or "",
    )


def parse_change(text: str) -> Anchor | None:
    """Return the anchor whose change ends a note (`until src/limit.py changes`), or None."""
    match = re.fullmatch(r"\s*(?:until )?(.+) changes\s*", text)
    return parse_anchor(match[1]) if match else None


def format_change(anchor: Anchor) -> str:
    """Return the text for a note that is valid until this code changes."""
    return f"until {anchor} changes"


class AnchorStatus(StrEnum):
    """The state of the anchored text compared with its version in the anchor."""

    HOLDS = "holds"
    CHANGED = "changed"
    MOVED = "moved"
    GONE = "gone"
    UNKNOWN = "unknown"


class AnchorCheck(NamedTuple):
    """The current state of an anchor: the number of changed lines, and the new path if moved."""

    anchor: Anchor
    status: AnchorStatus
    lines: int = 0
    moved_to: str = ""

    @property
    def is_same(self) -> bool:
        """Return whether the anchored text is unchanged, also in another file."""
        return self.status is AnchorStatus.HOLDS or (
            self.status is AnchorStatus.MOVED and not self.lines
        )

    @property
    def is_different(self) -> bool:
        """Return whether the anchored text changed or is gone."""
        return self.status is not AnchorStatus.UNKNOWN and not self.is_same

    @property
    def verdict(self) -> str:
        """The state in words: `changed since 9f2c (3 lines)`."""
        count = pluralize(self.lines, "line")
        match self.status:
            case AnchorStatus.CHANGED:
                since = f" since {self.anchor.commit[:4]}" if self.anchor.commit else ""
                return f"changed{since} ({count})"
            case AnchorStatus.MOVED:
                changed = f", changed ({count})" if self.lines else ""
                return f"moved to {one_line(self.moved_to)}{changed}"
            case AnchorStatus.UNKNOWN:
                return "cannot tell here"
            case _:
                return self.status.value

    def __str__(self) -> str:
        """Return the anchor and its state, as in recall and packs."""
        return f"{one_line(self.anchor.place)} {self.verdict}"


def describe_checks(checks: Sequence[AnchorCheck]) -> str:
    """Return the states of anchors in one line, changed ones first; "" without anchors."""
    order = [*AnchorStatus][::-1]
    ranked = sorted(checks, key=lambda each: (not each.is_different, order.index(each.status)))
    texts = [str(each) for each in ranked[:_MAX_LABEL_ANCHORS]]
    more = len(ranked) - len(texts)
    return "; ".join([*texts, *([f"{more} more"] if more else [])])


#: Most anchors in a label.
_MAX_LABEL_ANCHORS = 3
