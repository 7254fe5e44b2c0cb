"""Operations on sessions and tasks."""

from __future__ import annotations

from functools import partial
from typing import Any

from vaultmem.answers.sessions import (
    chain_json,
    found_json,
    list_json,
    restore_json,
    shown_json,
    tasks_json,
    view_json,
)
from vaultmem.operations.operation import Given, Moment, Operation
from vaultmem.operations.schemas import flag, record, rows, text, whole
from vaultmem.vault import Vault


def _list(vault: Vault, given: Given) -> Any:
    from vaultmem.services.sessions.search import list_sessions

    status, agent = given.get("status", ""), given.get("of", "")
    return list_json(list_sessions(vault, status, agent, given.get("limit", 20)), ())


def _show(vault: Vault, given: Given) -> Any:
    from vaultmem.services.sessions.elsewhere import name_machine
    from vaultmem.services.sessions.read import get_session
    from vaultmem.services.sessions.windows import read_tally

    found = name_machine(vault, get_session(vault, given["session"]))
    return shown_json(found, read_tally(vault, found.facts.id))


def _restore(vault: Vault, given: Given) -> Any:
    from vaultmem.services.sessions.restore import restore_session

    return restore_json(restore_session(vault, given["session"], given.get("budget")))


def _chain(vault: Vault, given: Given) -> Any:
    from vaultmem.services.sessions.search import follow_chain

    return chain_json(follow_chain(vault, given["session"], given.get("depth", 10)))


def _search(vault: Vault, given: Given) -> Any:
    from vaultmem.services.sessions.search import search_sessions

    return found_json(search_sessions(vault, given["query"], given.get("limit", 10)))


def _count(vault: Vault, _: Given) -> Any:
    from vaultmem.services.sessions.search import count_sessions

    return count_sessions(vault)


def _list_tasks(vault: Vault, given: Given) -> Any:
    from vaultmem.services.tasks.edit_tasks import list_tasks

    return tasks_json(list_tasks(vault, given.get("all", False)))


def _show_task(vault: Vault, given: Given) -> Any:
    from vaultmem.services.tasks.edit_tasks import find_task

    return find_task(vault, given["task"])


def _view_task(vault: Vault, given: Given) -> Any:
    from vaultmem.services.tasks.edit_tasks import find_task
    from vaultmem.services.tasks.view import polish_summary, view_task

    found = view_task(vault, find_task(vault, given["task"]), given.get("budget"))
    return view_json(found, polish_summary(found, "plain", vault.environment))


_FACTS = {
    "session": "string",
    "path": "string",
    "title": "string",
    "status": "string",
    "started": "string?",
    "ended": "string?",
}
_TASK = {"id": "string", "path": "string", "title": "string", "status": "string"}
_COST = record(sent="integer", budget="integer")
_BUDGET = whole("Tokens at most; what vaultmem.yaml says if not given.", 200, 1_000_000)

_view = partial(Operation, moment=Moment.BRANCH)

SESSIONS = (
    _view(
        "list_sessions",
        "GET /sessions",
        "List sessions, the last started first.",
        _list,
        {
            "status": text("Only open, ok, error or canceled ones.", 20),
            "of": text("Only sessions of this agent.", 200),
            "limit": whole("Sessions at most; else 20.", 1, 10_000),
        },
        gives=record(sessions=rows(**_FACTS)),
    ),
    _view(
        "get_session",
        "GET /sessions/{session}",
        "Read a session: how it stands, what it decided, asked and touched.",
        _show,
        gives=record(**_FACTS),
    ),
    _view(
        "restore_session",
        "GET /sessions/{session}/restore",
        "Tell what the next context window needs of a session, within a token budget.",
        _restore,
        {"budget": _BUDGET},
        gives=record(session="string", text="string", tokens=_COST),
    ),
    _view(
        "follow_session",
        "GET /sessions/{session}/chain",
        "List the sessions before a session, and those that follow it.",
        _chain,
        {"depth": whole("How far back; else 10.", 1, 100)},
        gives=record(session=record(**_FACTS), earlier=rows(), followers=rows()),
    ),
    _view(
        "search_sessions",
        "GET /session-search",
        "Find the sessions that answer a question, best first.",
        _search,
        {
            "query": text("What to look for, in plain words.", 1_000_000, 1),
            "limit": whole("Sessions at most; else 10.", 1, 100),
        },
        required=("query",),
        gives=record(sessions=rows(**_FACTS)),
    ),
    _view(
        "count_sessions",
        "GET /session-stats",
        "Count the sessions, and what they hold.",
        _count,
        gives=record(sessions="integer", statuses="object", agents="object"),
    ),
    Operation(
        "list_tasks",
        "GET /tasks",
        "List the tasks that are not over, the last changed first.",
        _list_tasks,
        {"all": flag("Also those that are over.")},
        gives=record(tasks=rows(**_TASK)),
        moment=Moment.SEEN,
    ),
    Operation(
        "get_task",
        "GET /tasks/{task}",
        "Read a task: how it stands, what is next, and which sessions worked on it.",
        _show_task,
        gives=record(**_TASK),
        moment=Moment.SEEN,
    ),
    Operation(
        "view_task",
        "GET /tasks/{task}/history",
        "Render all that is known of a task within a token budget: sessions, files, commits.",
        _view_task,
        {"budget": _BUDGET},
        gives=record(rendered="string", summary="string", artifact="string", tokens=_COST),
    ),
)
