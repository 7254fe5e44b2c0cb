"""A session as its note tells it; people edit these notes, so all is read leniently."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.lifecycle import State


class Status(StrEnum):
    """How a session stands; all but `open` are ends."""

    OPEN = "open"
    OK = "ok"
    ERROR = "error"
    CANCELED = "canceled"


class Relation(StrEnum):
    """How a session follows another one."""

    CONTINUES = "continues"
    FORKED_FROM = "forked_from"
    RELATED = "related"


class Edge(NamedTuple):
    """A link from a session to the id of another."""

    relation: Relation
    session: str


class Window(NamedTuple):
    """A context window: bounds in the session's tokens and turns; open while `end` is None.

    `digest` is that of the transcript up to its last turn, empty where there was none.
    """

    number: int
    start: int
    end: int | None = None
    turns: tuple[int, int] | None = None
    digest: str = ""


class TouchedFile(NamedTuple):
    """A file that a session touched: relative to its workspace, and what it left there.

    `blob` is the start of git's blob id, "gone" for a file that was removed, "" if not known.
    """

    path: str
    blob: str = ""


class Decision(NamedTuple):
    """A decision of a session: the note that it links ("" if none), and the line's own text."""

    target: str
    text: str


class SessionFacts(NamedTuple):
    """What lists, chains and statistics need of a session; counts are numbers of items.

    `started` and `ended` are ISO 8601 as written, `tokens` and `turns` those of its transcript as
    far as the note tells. `pending` is since when a restore is wanted, "" if none is.
    """

    id: str
    path: str
    blob: str
    title: str
    agent: str
    status: str
    started: str
    ended: str
    goal: str
    workspace: str
    edges: tuple[Edge, ...]
    pending: str
    state: str
    decisions: int
    questions: int
    touched: int
    windows: int
    turns: int
    tokens: int

    @property
    def is_open(self) -> bool:
        """Tell whether it has no end yet."""
        return self.status == Status.OPEN


class Session(NamedTuple):
    """All of a session's note: the facts, and its sections as people read them."""

    facts: SessionFacts
    windows: tuple[Window, ...]
    touched: tuple[TouchedFile, ...]
    decisions: tuple[Decision, ...]
    summary: str
    details: tuple[str, ...]
    questions: tuple[str, ...]
    answered: tuple[str, ...]

    @property
    def is_shown(self) -> bool:
        """Tell whether its text may be shown unasked."""
        return self.facts.state in {State.ACTIVE, State.CANDIDATE, State.STALE}


_WINDOW = re.compile(
    r"(?P<number>\d{1,6}): tokens (?P<start>\d{1,12})-(?P<end>\d{1,12})?"
    r"(?:, turns (?P<first>\d{1,9})-(?P<last>\d{1,9}))?(?:, sha256 (?P<digest>[0-9a-f]{8,64}))?"
)
_TOUCHED = re.compile(r"(?P<path>.+)@(?P<blob>[0-9a-f]{7,40}|gone)", re.DOTALL)


def parse_window(text: str) -> Window | None:
    """Return the window that an item of `windows` describes, None if it is none."""
    match = _WINDOW.fullmatch(" ".join(text.split()))
    if match is None:
        return None
    end = int(match["end"]) if match["end"] else None
    turns = (int(match["first"]), int(match["last"])) if match["first"] else None
    return Window(int(match["number"]), int(match["start"]), end, turns, match["digest"] or "")


def format_window(window: Window) -> str:
    """Return a window as an item of `windows`."""
    end = "" if window.end is None else window.end
    turns = f", turns {window.turns[0]}-{window.turns[1]}" if window.turns else ""
    digest = f", sha256 {window.digest}" if window.digest else ""
    return f"{window.number}: tokens {window.start}-{end}{turns}{digest}"


def parse_touched(text: str) -> TouchedFile:
    """Return the file that an item of `touched` means; a path alone is one too."""
    match = _TOUCHED.fullmatch(text.strip())
    return TouchedFile(match["path"], match["blob"]) if match else TouchedFile(text.strip())


def format_touched(touched: TouchedFile) -> str:
    """Return a file as an item of `touched`."""
    return f"{touched.path}@{touched.blob}" if touched.blob else touched.path
