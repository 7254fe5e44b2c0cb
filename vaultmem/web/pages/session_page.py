"""Sessions and tasks: who worked when, to what end, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.sessions.session import Session, SessionFacts
from vaultmem.core.sessions.task import Task
from vaultmem.services.sessions.find_session import SessionChain
from vaultmem.storage.git.log import Commit
from vaultmem.vault import Vault
from vaultmem.web.page_requests import answers, read
from vaultmem.web.rendering import render_page

#: Sessions on the timeline, and commits of one.
_MOST, _COMMITS = 200, 50


class Day(NamedTuple):
    """The sessions that began on a day, the last first."""

    day: str
    sessions: list[SessionFacts]


class Timeline(NamedTuple):
    """Sessions by day, open tasks, and how many more sessions there are."""

    days: list[Day]
    tasks: list[Task]
    more: int


class SessionPage(NamedTuple):
    """One session: what its note says, those before and after, and its commits."""

    session: Session
    chain: SessionChain
    commits: tuple[Commit, ...]


def collect_timeline(agent: str, vault: Vault) -> Timeline:
    """Return the last sessions by day, of one agent where one is named, and the tasks."""
    from vaultmem.services.sessions.edit_tasks import list_tasks
    from vaultmem.services.sessions.find_session import list_sessions

    found = list_sessions(vault, agent=agent)
    return Timeline(
        list(_split(found[:_MOST])), list_tasks(vault, over_too=False), len(found[_MOST:])
    )


def _split(sessions: list[SessionFacts]) -> Iterator[Day]:
    for day, group in groupby(sessions, lambda each: each.started[:10]):
        yield Day(day or "Not dated", list(group))


def collect_session(name: str, vault: Vault) -> SessionPage:
    """Return a session by its id."""
    from vaultmem.services.history.commits import CommitFilter, list_commits
    from vaultmem.services.sessions.find_session import add_machine, follow_chain, get_session

    session = add_machine(vault, get_session(vault, name))
    wanted = CommitFilter(sessions=frozenset({session.facts.id}), everything=True)
    has_git = vault.head() is not None
    return SessionPage(
        session,
        follow_chain(vault, session.facts.id),
        list_commits(vault, wanted, _COMMITS).commits if has_git else (),
    )


@answers
async def show_sessions(request: Request) -> Response:
    """Show who worked when."""
    agent = request.query_params.get("agent", "")
    frame, timeline = await read(request, partial(collect_timeline, agent))
    return render_page(request, "sessions.html", vault=frame, timeline=timeline, agent=agent)


@answers
async def show_session(request: Request) -> Response:
    """Show one session."""
    frame, page = await read(request, partial(collect_session, request.path_params["name"]))
    return render_page(request, "session.html", vault=frame, page=page)
