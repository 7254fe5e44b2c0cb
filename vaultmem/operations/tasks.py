"""Operations on tasks, and the views of all that is known of one, or of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.sessions.task import TaskStatus
from vaultmem.core.text.display import one_line
from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import (
    LEAST,
    MOST,
    Agent,
    Arg,
    Front,
    Line,
    Moment,
    Operation,
    Takes,
)
from vaultmem.operations.filters import ListScope
from vaultmem.operations.schemas import record, rows

if TYPE_CHECKING:
    from vaultmem.core.sessions.task import Task
    from vaultmem.services.sessions.edit_tasks import TaskHistory
    from vaultmem.vault import Vault

_COLOURS = {"done": "green", "doing": "bold", "blocked": "yellow", "dropped": "dim"}

#: Characters of an id up to which the titles stand below each other.
_LONGEST = 40

Named = Annotated[
    str,
    Arg(
        "Task id or its beginning.  [default: the last open task]",
        "Else the last open.",
        most=200,
        takes=Takes.WORD,
        metavar="[TASK]",
    ),
]
Next = Annotated[str, Arg("What is to be done next.", most=1_000, metavar="TEXT")]
Budget = Annotated[
    int,
    Arg(
        "Tokens at most.  [default: 2000]",
        Agent("", LEAST, MOST),
        200,
        1_000_000,
        metavar="TOKENS",
    ),
]
Summarizer = Annotated[
    str,
    Arg(
        "plain, or llm: a model at $VAULTMEM_LLM_BASE_URL words the summary.",
        metavar="NAME",
        excused={
            Front.HTTP: "it would wait for a service of the server's user",
            Front.MCP: "the agent is a model itself",
        },
    ),
]


class Add(NamedTuple):
    """Which task is written down."""

    title: Annotated[
        str, Arg("What is to be done.", "", 1, 300, takes=Takes.WORDS, metavar="TITLE")
    ]
    next: Next = ""
    text: Annotated[
        str, Arg("More about it, in markdown.", Agent(most=50_000), most=200_000, metavar="TEXT")
    ] = ""


class Set(NamedTuple):
    """Which task is changed, and to what."""

    task: Named = ""
    status: Annotated[
        str,
        Arg("open, doing, blocked, done or dropped.", words=list(TaskStatus), metavar="S"),
    ] = ""
    next: Next = ""


class ListTasks(NamedTuple):
    """Which tasks are listed."""

    all: Annotated[
        bool,
        Arg("Also finished tasks.", excused={Front.MCP: "recall finds what is over"}),
    ] = False
    project: ListScope = ""
    workspace: Annotated[
        str,
        Arg(
            "Only tasks of this folder's project, and those that its sessions worked on.",
            most=1_000,
            metavar="DIR",
            excused={
                Front.HTTP: "project names it; a folder is on the caller's machine",
                Front.MCP: "an agent works in one project",
            },
        ),
    ] = ""


class ShowTask(NamedTuple):
    """Which task is shown."""

    task: Named = ""


class TaskHistoryRequest(NamedTuple):
    """Whose history is rendered."""

    task: Named = ""
    budget: Budget = 0
    summarizer: Summarizer = "plain"


class HandOff(NamedTuple):
    """Which task is handed over, and with which word."""

    task: Named = ""
    text: Annotated[
        str,
        Arg(
            "A message for the next agent or person.",
            Agent(most=50_000),
            most=200_000,
            flags=("--note",),
            metavar="TEXT",
        ),
    ] = ""
    budget: Budget = 0
    summarizer: Summarizer = "plain"


class Expand(NamedTuple):
    """Which artifact is printed."""

    artifact: Annotated[
        str, Arg("The artifact of a view.", "", 1, 64, takes=Takes.WORD, metavar="DIGEST")
    ]


class Family(NamedTuple):
    """Which sessions are rendered as one account."""

    session: Annotated[
        str,
        Arg(
            "A session; only those before and after it.  [default: all sessions]",
            most=200,
            takes=Takes.WORD,
            metavar="[SESSION]",
        ),
    ] = ""
    query: Annotated[str, Arg("What it is about.", most=1_000_000, metavar="TEXT")] = ""
    from_: Annotated[
        str,
        Arg("Only sessions begun from then on.", most=40, flags=("--from",), metavar="DATE"),
    ] = ""
    to: Annotated[str, Arg("Only sessions begun up to then.", most=40, metavar="DATE")] = ""
    budget: Budget = 0
    summarizer: Summarizer = "plain"


class Viewed(NamedTuple):
    """A view, and the summary that was worded for it."""

    found: TaskHistory
    summary: str


class Expanded(NamedTuple):
    """The full view that an artifact's digest names."""

    artifact: str
    text: str


def add(vault: Vault, asked: Add) -> Task:
    """Write a task down as a note in tasks/.

    Examples:
      vaultmem task add "Name each ticket on the slip" --next "Ask Tuuli"
    """
    from vaultmem.services.sessions.edit_tasks import add_task

    return add_task(_act(vault), asked.title, asked.next, asked.text)


def set_(vault: Vault, asked: Set) -> Task:
    """Set the status of a task, or its next step.

    Examples:
      vaultmem task update --status doing --next "Change the template"
    """
    from vaultmem.services.sessions.edit_tasks import change_task, find_task

    status = _read_status(asked.status)
    task = find_task(vault, asked.task)
    return change_task(_act(vault), task.id, status, asked.next or None)


def _read_status(name: str) -> TaskStatus | None:
    from vaultmem.errors import RefusedError

    try:
        return TaskStatus(name) if name else None
    except ValueError:
        known = ", ".join(TaskStatus)
        raise RefusedError(f'task: "{name}" is not a status; use one of {known}') from None


def _act(vault: Vault) -> Vault:
    """Return the vault for writing in the session that is meant here, if any is."""
    from vaultmem.services.sessions.edit_session import act_in
    from vaultmem.services.sessions.identify import identify_session

    name = identify_session(vault).session
    return act_in(vault, name) if name else vault


def list_(vault: Vault, asked: ListTasks) -> list[Task]:
    """List the tasks, the last changed first.

    Examples:
      vaultmem task list
      vaultmem task list --workspace ~/code/payments
    """
    from pathlib import Path

    from vaultmem.errors import ArgumentError
    from vaultmem.services.projects.scope import view_project
    from vaultmem.services.sessions.edit_tasks import list_tasks

    workspace = None
    if asked.workspace:
        workspace = (vault.here or Path.cwd()) / Path(asked.workspace).expanduser()
        if not workspace.is_dir():
            raise ArgumentError(f"--workspace {asked.workspace}: not a folder; name one")
    scope = asked.project or ("all" if workspace else "")
    return list_tasks(view_project(vault, scope), asked.all, workspace)


def show(vault: Vault, asked: ShowTask) -> Task:
    """Show the status of a task, and its next step.

    Which sessions worked on it is shown too.

    Examples:
      vaultmem task show
    """
    from vaultmem.services.sessions.edit_tasks import find_task

    return find_task(vault, asked.task)


def history(vault: Vault, asked: TaskHistoryRequest) -> Viewed:
    """Print all that is known of a task, within a token budget.

    That is its sessions, files and commits.

    Examples:
      vaultmem task history --budget 1000
    """
    from vaultmem.services.sessions.edit_tasks import find_task

    return _view(vault, find_task(vault, asked.task), asked)


def hand_off(vault: Vault, asked: HandOff) -> Viewed:
    """Print all that is known of a task, for the next agent.

    With --note, a word is left for them in handoffs/.

    Examples:
      vaultmem task handoff --note "The drawing of the slip is with Tuuli."
    """
    from vaultmem.services.sessions.edit_tasks import find_task, hand_over

    acting = _act(vault)
    task = find_task(acting, asked.task)
    if asked.text:
        hand_over(acting, task, asked.text)
        task = find_task(acting, task.id)
    return _view(acting, task, asked)


def _view(vault: Vault, task: Task, asked: TaskHistoryRequest | HandOff) -> Viewed:
    from vaultmem.services.sessions.edit_tasks import view_task

    return _word(vault, view_task(vault, task, asked.budget or None), asked.summarizer)


def family(vault: Vault, asked: Family) -> Viewed:
    """Print sessions that follow one another as one report.

    The report names its sources.

    Examples:
      vaultmem session report s-0431
      vaultmem session report --query "refund slip"
    """
    from vaultmem.services.projects.scope import view_project
    from vaultmem.services.sessions.edit_tasks import view_family

    if not asked.session:
        vault = view_project(vault)
    budget = asked.budget or None
    found = view_family(vault, asked.session, asked.query, asked.from_, asked.to, budget)
    return _word(vault, found, asked.summarizer)


def _word(vault: Vault, found: TaskHistory, summarizer: str) -> Viewed:
    from vaultmem.services.sessions.edit_tasks import polish_summary

    return Viewed(found, polish_summary(found, summarizer, vault.environment))


def expand(vault: Vault, asked: Expand) -> Expanded:
    """Print the full view of an artifact's digest.

    Examples:
      vaultmem task expand 1f0c2b9a77e4
    """
    from vaultmem.services.sessions.edit_tasks import expand_artifact

    return Expanded(asked.artifact, expand_artifact(vault, asked.artifact))


def tasks_data(tasks: list[Task]) -> dict[str, Any]:
    """Return a list of tasks."""
    return {"tasks": tasks}


def viewed_data(done: Viewed) -> dict[str, Any]:
    """Return a view, the summary that was worded for it, and what it rests on."""
    return {
        **pick(done.found, "rendered"),
        "summary": done.summary,
        **pick(done.found, "artifact task_id? task_title?"),
        "tokens": {"sent": done.found.tokens, "budget": done.found.budget},
        **pick(done.found, "support"),
    }


def _done_lines(word: str) -> Callable[[Task, Any], Iterator[Line]]:
    """Return what yields what was done to a task."""

    def make(task: Task, _: Any) -> Iterator[Line]:
        yield Line(f"{word:<5}  ", "green", f"{task.id}  ({task.status})")

    return make


def tasks_lines(tasks: list[Task], _: Any) -> Iterator[Line]:
    """Yield a line for each task."""
    width = min(max((len(task.id) for task in tasks), default=0), _LONGEST)
    for task in tasks:
        told = f"  next: {one_line(task.next_step)}" if task.next_step else ""
        rest = f"  {task.id:<{width}}  {one_line(task.title)}{told}"
        yield Line(f"{task.status:<8}", _COLOURS.get(task.status, "dim"), rest)
    if not tasks:
        yield Line("No task is open.")


def task_lines(task: Task, _: Any) -> Iterator[Line]:
    """Yield how a task stands, and its text."""
    yield Line(one_line(task.title), "bold")
    for word, value in (
        ("id", task.id),
        ("status", task.status),
        ("next", task.next_step),
        ("sessions", ", ".join(task.sessions)),
    ):
        if value:
            yield Line(f"{word:<9}  {one_line(value)}")
    if task.text:
        yield Line("")
        yield Line(task.text)


def viewed_lines(done: Viewed, _: Any) -> Iterator[Line]:
    """Yield a view of tasks or sessions, and how to print all of it."""
    yield Line(one_line(done.summary))
    yield Line("")
    yield Line(done.found.rendered.rstrip("\n"))
    yield Line("")
    yield Line("all of it", "dim", f"  vaultmem task expand {done.found.artifact[:12]}")


def expanded_lines(done: Expanded, _: Any) -> Iterator[Line]:
    """Yield a full view."""
    yield Line(done.text.rstrip("\n"))


_TASK = record(id="string", path="string", title="string", status="string")

_write = partial(Operation, moment=Moment.BRANCH, writes=True)
_render = partial(
    Operation,
    moment=Moment.BRANCH,
    data=viewed_data,
    lines=viewed_lines,
    gives=record(
        rendered="string",
        summary="string",
        artifact="string",
        tokens=record(sent="integer", budget="integer"),
    ),
)

ADD = _write(
    "add_task", "POST /tasks", run=add, request=Add, lines=_done_lines("added"), gives=_TASK
)

SET = _write(
    "set_task", "PATCH /tasks/{task}", run=set_, request=Set, lines=_done_lines("set"), gives=_TASK
)

LIST = Operation(
    "list_tasks",
    "GET /tasks",
    run=list_,
    request=ListTasks,
    data=tasks_data,
    lines=tasks_lines,
    gives=record(tasks=rows(id="string", path="string", title="string", status="string")),
    moment=Moment.SEEN,
)

SHOW = Operation(
    "get_task",
    "GET /tasks/{task}",
    run=show,
    request=ShowTask,
    lines=task_lines,
    gives=_TASK,
    moment=Moment.SEEN,
    excused={Front.MCP: "the tool shows all that is known of it"},
)

HISTORY = _render("view_task", "GET /tasks/{task}/history", run=history, request=TaskHistoryRequest)

HAND_OFF = _render(
    "hand_off_task",
    "POST /tasks/{task}/handoff",
    run=hand_off,
    request=HandOff,
    writes=True,
)

EXPAND = Operation(
    "expand_artifact",
    "GET /artifacts/{artifact}",
    run=expand,
    request=Expand,
    lines=expanded_lines,
    gives=record(artifact="string", text="string"),
    excused={Front.MCP: "a larger budget shows more"},
)

FAMILY = _render(
    "view_sessions",
    "GET /session-family",
    run=family,
    request=Family,
    excused={Front.MCP: "an agent restores a session, and what came before it"},
)

TASKS = (ADD, SET, LIST, SHOW, HISTORY, HAND_OFF, EXPAND)
