"""Pages of sessions, tasks and agents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.sessions.session import Session, SessionFacts
from vaultmem.core.sessions.task import Task
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.packs.receipts import ShownSections
from vaultmem.services.sessions.find_session import SessionChain
from vaultmem.storage.git.log import Commit
from vaultmem.vault import Vault
from vaultmem.web.page_requests import answers, read, read_count, read_path
from vaultmem.web.rendering import FILES, read_time, render_page

#: The most sessions on the timeline, and commits and packs of one.
_MAX_SESSIONS, _MAX_COMMITS = 200, 50

#: Turns on a page of a session.
_TURNS = 60

#: The limit for turn numbers.
_MANY_TURNS = 10_000_000


class Day(NamedTuple):
    """The sessions that began on a day, newest first."""

    day: str
    sessions: list[SessionFacts]


class Timeline(NamedTuple):
    """Sessions by day, open tasks, the number of older sessions, and the agents' note counts."""

    days: list[Day]
    tasks: list[Task]
    more: int
    agents: list[tuple[str, int]]


class StoryEvent(NamedTuple):
    """One event of a session: a "turn", a "commit", or a "pack" (or recall), with its time.

    `at` is in seconds since the epoch.
    """

    at: float
    kind: str
    item: Any


class SessionPage(NamedTuple):
    """One session: its note, linked sessions, commits, and events by time.

    `undone` has the commits that undid others, by the undone id. `first` and `last` are the numbers
    of the shown turns, of `turns` on this machine; 0 without turns.
    """

    session: Session
    chain: SessionChain
    commits: tuple[Commit, ...]
    undone: dict[str, Commit]
    story: list[StoryEvent]
    first: int = 0
    last: int = 0
    turns: int = 0


class AgentPage(NamedTuple):
    """An agent's notes and commits, the undone ones, its packs and its failed queries.

    `states` counts its notes by state, `notes` are those written last. Of `sessions`, `commits` and
    `shown_sections` packs and recalls, only the newest are listed.
    """

    name: str
    states: dict[str, int]
    notes: list[NoteRecord]
    commits: list[Commit]
    undone: dict[str, Commit]
    sessions: list[SessionFacts]
    shown_sections: list[ShownSections]
    failed: tuple[tuple[str, int], ...]


def collect_timeline(agent: str, vault: Vault) -> Timeline:
    """Return the last sessions by day, of one agent if given, and the open tasks."""
    from vaultmem.services.sessions.edit_tasks import list_tasks
    from vaultmem.services.sessions.find_session import list_sessions

    sessions = list_sessions(vault, agent=agent)
    agents = vault.view.keep("agents", partial(vault.view.count_notes, "agent"))
    return Timeline(
        list(_split(sessions[:_MAX_SESSIONS])),
        list_tasks(vault, over_too=False),
        len(sessions[_MAX_SESSIONS:]),
        [each for each in agents.items() if each[0]],
    )


def _split(sessions: list[SessionFacts]) -> Iterator[Day]:
    for day, group in groupby(sessions, lambda each: each.started[:10]):
        yield Day(day or "No date", list(group))


def collect_session(name: str, first: int, has_story: bool, vault: Vault) -> SessionPage:
    """Return a session by its id, with its turns from number `first` on if it `has_story`."""
    from vaultmem.services.history.commits import CommitFilter, list_commits
    from vaultmem.services.packs.receipts import list_recent
    from vaultmem.services.sessions.find_session import add_machine, follow_chain, get_session
    from vaultmem.services.sessions.search_turns import read_turns
    from vaultmem.services.sessions.windows import read_tally

    session = add_machine(vault, get_session(vault, name))
    session_id = session.facts.id
    commit_filter = CommitFilter(sessions=frozenset({session_id}), everything=True)
    has_git = vault.head() is not None
    commits = list_commits(vault, commit_filter, _MAX_COMMITS).commits if has_git else ()
    page = SessionPage(
        session, follow_chain(vault, session_id), commits, _find_undone(vault, commits), []
    )
    if not has_story:
        return page
    turns = read_turns(vault, session_id, max(first, 1), _TURNS)
    events = list(_date_turns([(each.number, each.turn) for each in turns], session.facts.started))
    count = read_tally(vault, session_id).turns if turns else 0
    page = page._replace(turns=count)
    if turns:
        page = page._replace(first=turns[0].number, last=turns[-1].number)
    begin = events[0].at if page.first > 1 else float("-inf")
    end = events[-1].at if page.last < count else float("inf")
    others = [StoryEvent(each.at, "commit", each) for each in commits]
    for pack in list_recent(vault, _MAX_COMMITS, session=session_id):
        others.append(StoryEvent(pack.showing.call.at, "pack", pack))
    events += [each for each in others if begin <= each.at <= end]
    return page._replace(story=sorted(events, key=lambda each: each.at))


def _date_turns(turns: Iterable[tuple[int, Any]], started: str) -> Iterator[StoryEvent]:
    """Yield turns with their times; a turn without a time gets that of the turn before."""
    timestamp = _read_or(started, 0.0)
    for number, turn in turns:
        timestamp = max(_read_or(turn.at, timestamp), timestamp)
        yield StoryEvent(timestamp, "turn", (number, turn))


def _read_or(text: str, otherwise: float) -> float:
    with suppress(ValueError, OverflowError):
        return read_time(text)
    return otherwise


#: The sentence that `undo` writes into its commit.
_UNDO_SENTENCE = re.compile(r"Takes back ([0-9a-f]{40,64})\.")

#: The most undo commits that are searched.
_UNDOING = 500


def _find_undone(vault: Vault, commits: Iterable[Commit]) -> dict[str, Commit]:
    """Return the commits that undid one of these, by the undone id."""
    commit_ids = {each.commit for each in commits}
    if not commit_ids:
        return {}
    undone = vault.view.keep("undone", partial(_list_undone, vault), vault.head())
    return {commit: undone[commit] for commit in commit_ids & undone.keys()}


def _list_undone(vault: Vault) -> dict[str, Commit]:
    """Return the commits that undid others, by the undone id."""
    from vaultmem.services.history.commits import CommitFilter, list_commits

    commit_filter = CommitFilter(events=frozenset({"undo"}))
    log = list_commits(vault, commit_filter, _UNDOING).commits
    return {match[1]: each for each in log if (match := _UNDO_SENTENCE.search(each.body))}


def collect_agent(name: str, vault: Vault) -> AgentPage:
    """Return the page of an agent.

    Raises:
        NoteNotFoundError: there is no agent of this name.
    """
    from vaultmem.services.health.economics import list_failed
    from vaultmem.services.history.commits import CommitFilter, list_commits
    from vaultmem.services.packs.receipts import list_recent
    from vaultmem.services.sessions.find_session import list_sessions

    notes = vault.view.records("d.agent = ?", [name])
    notes.sort(key=lambda each: (-each.written, each.path))
    commit_filter = CommitFilter(agents=frozenset({name}), everything=True)
    commits = (
        list_commits(vault, commit_filter, _MAX_COMMITS).commits if vault.head() is not None else ()
    )
    sessions = list_sessions(vault, agent=name, limit=_MAX_COMMITS)
    showings = list_recent(vault, _MAX_COMMITS, agent=name)
    if not name or not (notes or commits or sessions or showings):
        raise NoteNotFoundError(f"{name}: agent not found")
    states = dict(Counter(each.state for each in notes).most_common())
    undone, failed = _find_undone(vault, commits), list_failed(vault, name)
    newest_notes = notes[:_MAX_COMMITS]
    return AgentPage(name, states, newest_notes, list(commits), undone, sessions, showings, failed)


@answers
async def show_sessions(request: Request) -> Response:
    """Show the sessions by day."""
    agent = request.query_params.get("agent", "")
    frame, timeline = await read(request, partial(collect_timeline, agent))
    return render_page(request, "sessions.html", vault=frame, timeline=timeline, agent=agent)


@answers
async def show_session(request: Request) -> Response:
    """Show one session."""
    params = request.query_params
    first = read_count(params.get("from", ""), _MANY_TURNS) or 1
    # Turns are not part of the vault, so exports omit them.
    has_story = not (FILES.get() or params.get("at") or params.get("vault"))
    name = request.path_params["name"]
    frame, page = await read(request, partial(collect_session, name, first, has_story))
    return render_page(request, "session.html", vault=frame, page=page, step=_TURNS)


@answers
async def show_agent(request: Request) -> Response:
    """Show the page of an agent."""
    frame, page = await read(request, partial(collect_agent, read_path(request, "/agent/")))
    return render_page(request, "agent.html", vault=frame, page=page)
