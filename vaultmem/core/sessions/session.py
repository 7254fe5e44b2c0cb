"""A session as its note records it, its id, and its chain; invalid values are ignored."""

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

#: The folder of session notes.
FOLDER = "sessions"

_SAFE_ID = compile_later(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
_LINK = compile_later(r"\[\[([^\[\]|]+)(?:\|[^\[\]]*)?\]\]")
_UNSAFE = compile_later(r"[^A-Za-z0-9._-]+")


def session_path(session: str) -> PurePosixPath:
    """Return the path of a session's note."""
    return PurePosixPath(FOLDER, f"{session}.md")


def plain_id(text: str) -> str:
    """Return the session id in a text: an id, `[[id]]`, or the note's path."""
    link = _LINK.fullmatch(text.strip())
    bare = link[1].strip() if link else text.strip()
    return bare.removeprefix(f"{FOLDER}/").removesuffix(".md")


def check_session_id(text: str) -> str:
    """Return a valid id for a new session.

    Raises:
        RefusedError: the id cannot be a file name on every system; the error suggests another.
    """
    session = plain_id(text)
    if not is_safe_id(session):
        raise RefusedError(
            f'"{text}" cannot be a session\'s id; use letters, digits, ".", "_" and "-", '
            f"100 at most, such as {map_session_id(text)}"
        )
    return session


def is_safe_id(text: str) -> bool:
    """Return whether an id is valid as a note's name on every system and in a git trailer."""
    if not _SAFE_ID.fullmatch(text) or text.lower().endswith(".md"):
        return False
    try:
        check_new_name(session_path(text))
    except RefusedError:
        return False
    return True


def map_session_id(text: str) -> str:
    """Return the session id for another program's id; the result is always the same.

    A safe id is kept. In others, unsafe characters are replaced, and a digest makes them unique.
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
    """The status of a session; all but `open` are final. `interrupted`: its process died."""

    OPEN = "open"
    OK = "ok"
    ERROR = "error"
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"


class SessionRelation(StrEnum):
    """The relation of a session to another one."""

    CONTINUES = "continues"
    FORKED_FROM = "forked_from"
    RELATED = "related"


class SessionLink(NamedTuple):
    """A link from a session to the id of another."""

    relation: SessionRelation
    session: str


class ContextWindow(NamedTuple):
    """A context window: bounds in the session's tokens and turns; an open one has no `end`.

    `digest` is the transcript's digest at its last turn, "" without turns.
    """

    number: int
    start: int
    end: int | None = None
    turns: tuple[int, int] | None = None
    digest: str = ""


class TouchedFile(NamedTuple):
    """A file that a session touched: its path in the workspace, and its content after that.

    `blob` is the start of the git blob id, "gone" for a removed file, "" if unknown.
    """

    path: str
    blob: str = ""


class FileFate(NamedTuple):
    """The later changes of a file, as a short and a long text."""

    short: str
    full: str


class Decision(NamedTuple):
    """A decision of a session: the note that it links ("" without a link), and the line's text."""

    target: str
    text: str


class SessionFacts(NamedTuple):
    """A session's facts for lists, chains and statistics; counts are numbers of items.

    `started` and `ended` are ISO 8601 as written; `tokens` and `turns` are the transcript's, from
    the note. `pending` is the time since which a restore is wanted, or "". `machine` is the other
    machine of an open session, `seen` its last heartbeat there. `project` is the project's name;
    if it is "", as in old sessions, the folder's name `workspace` identifies it.
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
        """The status for display; for an open session elsewhere, the machine and heartbeat."""
        if self.is_open and self.machine:
            return f"on {self.machine}, last seen {self.seen[:16].replace('T', ' ')}"
        return self.status

    @property
    def has_work(self) -> bool:
        """Return whether the session touched files or has decisions or open questions."""
        return bool(self.touched or self.decisions or self.questions)

    @property
    def is_open(self) -> bool:
        """Return whether the session has not ended."""
        return self.status == SessionStatus.OPEN


class Workspace(NamedTuple):
    """The place of sessions: the folder's name, and the project's name ("" without a project)."""

    name: str
    project: str = ""

    def has(self, facts: SessionFacts) -> bool:
        """Return whether a session worked in this project, or in a folder of this name."""
        return facts.project == self.project if facts.project else facts.workspace == self.name


class TranscriptSummary(NamedTuple):
    """The items that a session's note contains from its transcript, as display text."""

    asked: tuple[str, ...] = ()
    answer: str = ""
    steps: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()


EMPTY_TRANSCRIPT_SUMMARY = TranscriptSummary()


class Session(NamedTuple):
    """A session's note: the facts, and its sections as people read them."""

    facts: SessionFacts
    windows: tuple[ContextWindow, ...]
    touched: tuple[TouchedFile, ...]
    decisions: tuple[Decision, ...]
    summary: str
    details: tuple[str, ...]
    questions: tuple[str, ...]
    answered: tuple[str, ...]
    told: TranscriptSummary = EMPTY_TRANSCRIPT_SUMMARY

    @property
    def is_shown(self) -> bool:
        """Return whether the text can be shown without a request for this session."""
        return self.facts.state in {NoteState.ACTIVE, NoteState.CANDIDATE, NoteState.STALE}


_WINDOW = compile_later(
    r"(?P<number>\d{1,6}): tokens (?P<start>\d{1,12})-(?P<end>\d{1,12})?"
    r"(?:, turns (?P<first>\d{1,9})-(?P<last>\d{1,9}))?(?:, sha256 (?P<digest>[0-9a-f]{8,64}))?"
)
_TOUCHED_FILE = compile_later(r"(?P<path>.+)@(?P<blob>[0-9a-f]{7,40}|gone)", re.DOTALL)


def parse_window(text: str) -> ContextWindow | None:
    """Return the window that an item of `windows` describes, or None if it is invalid."""
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
    """Return the file of an item of `touched`, which can be only a path."""
    match = _TOUCHED_FILE.fullmatch(text.strip())
    return TouchedFile(match["path"], match["blob"]) if match else TouchedFile(text.strip())


def format_touched(touched: TouchedFile) -> str:
    """Return a file as an item of `touched`."""
    return f"{touched.path}@{touched.blob}" if touched.blob else touched.path


#: Most sessions in a chain.
MAX_CHAIN = 200


class ChainLink(NamedTuple):
    """A session in a chain: its distance (1 is next), the relation, and the session that links it.

    `facts` are missing (None) if the note is.
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

    `find` returns a session's facts by its id. Related sessions are listed but not followed.
    """
    links: list[ChainLink] = []
    seen = {start.id}
    level = [start]
    for distance in range(1, depth + 1):
        following: list[SessionFacts] = []
        for facts in level:
            for edge in facts.edges:
                if edge.session in seen or len(links) >= MAX_CHAIN:
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
                links.append(link)
                if earlier is not None and edge.relation is not SessionRelation.RELATED:
                    following.append(earlier)
        level = following
        if not level:
            break
    return links


def find_followers(
    session: str, sessions: Iterable[SessionFacts]
) -> list[tuple[SessionRelation, SessionFacts]]:
    """Return the sessions that continue, were forked from, or are related to a session."""
    followers = [
        (edge.relation, facts)
        for facts in sessions
        for edge in facts.edges
        if edge.session == session
    ]
    return sorted(followers, key=lambda each: (each[1].started, each[1].id))
