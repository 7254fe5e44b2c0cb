"""A session as its note tells it, its id, and the sessions before it; all is read leniently."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.text.paths import check_new_name
from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import RefusedError

#: The folder of the sessions' notes.
FOLDER = "sessions"

_SAFE = compile_later(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
_LINK = compile_later(r"\[\[([^\[\]|]+)(?:\|[^\[\]]*)?\]\]")
_UNSAFE = compile_later(r"[^A-Za-z0-9._-]+")


def session_path(session: str) -> PurePosixPath:
    """Return where the note of a session is written."""
    return PurePosixPath(FOLDER, f"{session}.md")


def plain_id(text: str) -> str:
    """Return the id that a text means: an id, `[[id]]`, or the note's path."""
    link = _LINK.fullmatch(text.strip())
    bare = link[1].strip() if link else text.strip()
    return bare.removeprefix(f"{FOLDER}/").removesuffix(".md")


def check_session_id(text: str) -> str:
    """Return an id that a new session can have.

    Raises:
        RefusedError: it cannot be a file's name on every system; says one that can.
    """
    session = plain_id(text)
    if not is_safe_id(session):
        raise RefusedError(
            f'"{text}" cannot be a session\'s id; use letters, digits, ".", "_" and "-", '
            f"100 at most, such as {map_session_id(text)}"
        )
    return session


def is_safe_id(text: str) -> bool:
    """Return whether every system can hold a note of this name, and git a trailer of it."""
    if not _SAFE.fullmatch(text) or text.lower().endswith(".md"):
        return False
    try:
        check_new_name(session_path(text))
    except RefusedError:
        return False
    return True


def map_session_id(text: str) -> str:
    """Return the id for what another program calls its session: the same each time.

    A safe one is kept; of others what is safe, and a digest that tells them apart.
    """
    if is_safe_id(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    bare = _UNSAFE.sub("-", text).strip("-._")[:60].rstrip("-._")
    return f"s-{bare}-{digest}" if bare else f"s-{digest}"


def make_session_id(now: datetime, chance: str) -> str:
    """Return a new id that sorts by time; `chance` is a few random hexadecimal digits."""
    return f"{now:%Y-%m-%d-%H%M%S}-{chance}"


class SessionStatus(StrEnum):
    """How a session is; all but `open` are ends. `interrupted` is one whose process was gone."""

    OPEN = "open"
    OK = "ok"
    ERROR = "error"
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"


class SessionRelation(StrEnum):
    """How a session follows another one."""

    CONTINUES = "continues"
    FORKED_FROM = "forked_from"
    RELATED = "related"


class SessionLink(NamedTuple):
    """A link from a session to the id of another."""

    relation: SessionRelation
    session: str


class ContextWindow(NamedTuple):
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


class FileFate(NamedTuple):
    """What became of a file, in few words and in more."""

    short: str
    full: str


class Decision(NamedTuple):
    """A decision of a session: the note that it links ("" if none), and the line's own text."""

    target: str
    text: str


class SessionFacts(NamedTuple):
    """What lists, chains and statistics need of a session; counts are numbers of items.

    `started` and `ended` are ISO 8601 as written, `tokens` and `turns` those of its transcript as
    far as the note tells. `pending` is since when a restore is wanted, "" if none is. `machine` is
    the name of the other machine that an open session is on, and `seen` its last sign there.
    `project` is the name of its project; where that is "", as in sessions from before there were
    projects, the name of its folder counts, `workspace`.
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
    edges: tuple[SessionLink, ...]
    pending: str
    state: str
    decisions: int
    questions: int
    touched: int
    windows: int
    turns: int
    tokens: int
    machine: str = ""
    seen: str = ""
    project: str = ""

    @property
    def standing(self) -> str:
        """How it stands, as people are told it: of one elsewhere, where, and the last sign."""
        if self.is_open and self.machine:
            return f"on {self.machine}, last seen {self.seen[:16].replace('T', ' ')}"
        return self.status

    @property
    def has_work(self) -> bool:
        """Return whether something was done, decided or left open in it."""
        return bool(self.touched or self.decisions or self.questions)

    @property
    def is_open(self) -> bool:
        """Return whether it has no end yet."""
        return self.status == SessionStatus.OPEN


class Workspace(NamedTuple):
    """Where sessions work: the folder's name, and the name of its project ("" if it has none)."""

    name: str
    project: str = ""

    def has(self, facts: SessionFacts) -> bool:
        """Return whether a session worked here: in this project, or in a folder of this name."""
        return facts.project == self.project if facts.project else facts.workspace == self.name


class TranscriptSummary(NamedTuple):
    """What a session's note tells from its transcript, item by item as people read it."""

    asked: tuple[str, ...] = ()
    answer: str = ""
    steps: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()


NO_TOLD = TranscriptSummary()


class Session(NamedTuple):
    """All of a session's note: the facts, and its sections as people read them."""

    facts: SessionFacts
    windows: tuple[ContextWindow, ...]
    touched: tuple[TouchedFile, ...]
    decisions: tuple[Decision, ...]
    summary: str
    details: tuple[str, ...]
    questions: tuple[str, ...]
    answered: tuple[str, ...]
    told: TranscriptSummary = NO_TOLD

    @property
    def is_shown(self) -> bool:
        """Return whether its text may be shown unasked."""
        return self.facts.state in {NoteState.ACTIVE, NoteState.CANDIDATE, NoteState.STALE}


_WINDOW = compile_later(
    r"(?P<number>\d{1,6}): tokens (?P<start>\d{1,12})-(?P<end>\d{1,12})?"
    r"(?:, turns (?P<first>\d{1,9})-(?P<last>\d{1,9}))?(?:, sha256 (?P<digest>[0-9a-f]{8,64}))?"
)
_TOUCHED = compile_later(r"(?P<path>.+)@(?P<blob>[0-9a-f]{7,40}|gone)", re.DOTALL)


def parse_window(text: str) -> ContextWindow | None:
    """Return the window that an item of `windows` describes, None if it is none."""
    match = _WINDOW.fullmatch(" ".join(text.split()))
    if match is None:
        return None
    end = int(match["end"]) if match["end"] else None
    turns = (int(match["first"]), int(match["last"])) if match["first"] else None
    return ContextWindow(
        number=int(match["number"]),
        start=int(match["start"]),
        end=end,
        turns=turns,
        digest=match["digest"] or "",
    )


def format_window(window: ContextWindow) -> str:
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


#: A chain is not followed beyond so many sessions.
MAX_CHAIN = 200


class ChainLink(NamedTuple):
    """A session in a chain: how far away (1 is next), and which session leads to it, and how.

    `facts` is None where there is no such note.
    """

    depth: int
    session: str
    relation: SessionRelation
    by: str
    facts: SessionFacts | None


def walk_chain(
    start: SessionFacts, find: Callable[[str], SessionFacts | None], depth: int
) -> list[ChainLink]:
    """Return the sessions before `start`, nearest first, each once.

    `find` gives a session's facts by its id. A related session is listed, and not followed: it
    came before nothing.
    """
    found: list[ChainLink] = []
    seen = {start.id}
    level = [start]
    for distance in range(1, depth + 1):
        following: list[SessionFacts] = []
        for facts in level:
            for edge in facts.edges:
                if edge.session in seen or len(found) >= MAX_CHAIN:
                    continue
                seen.add(edge.session)
                earlier = find(edge.session)
                link = ChainLink(
                    depth=distance,
                    session=edge.session,
                    relation=edge.relation,
                    by=facts.id,
                    facts=earlier,
                )
                found.append(link)
                if earlier is not None and edge.relation is not SessionRelation.RELATED:
                    following.append(earlier)
        level = following
        if not level:
            break
    return found


def find_followers(
    session: str, everything: Iterable[SessionFacts]
) -> list[tuple[SessionRelation, SessionFacts]]:
    """Return the sessions that continue, were forked from, or are related to a session."""
    found = [
        (edge.relation, facts)
        for facts in everything
        for edge in facts.edges
        if edge.session == session
    ]
    return sorted(found, key=lambda each: (each[1].started, each[1].id))
