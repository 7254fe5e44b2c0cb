"""Operations on tasks, and reports about a task or about sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.sessions.task import TaskStatus
from vaultmem.core.text.display import one_line
from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import (
    MAX_RESULT_TOKENS,
    MIN_RESULT_TOKENS,
    Agent,
    Arg,
    ArgumentForm,
    FrontEnd,
    Line,
    VersionScope,
    declare,
)
from vaultmem.operations.filters import ListScope
from vaultmem.operations.schemas import record, rows

if TYPE_CHECKING:
    from vaultmem.core.sessions.task import Task
    from vaultmem.services.sessions.edit_tasks import TaskHistory
    from vaultmem.vault import Vault

_COLOURS = {"done": "green", "doing": "bold", "blocked": "yellow", "dropped": "dim"}

#: Maximum characters of an id for which titles are aligned.
_MAX_COLUMN_CHARS = 40

Named = Annotated[
    str,
    Arg(
        "Task id or its beginning.  [default: the last open task]",
        "Else the last open.",
        most=200,
        takes=ArgumentForm.WORD,
        metavar="[TASK]",
    ),
]
Next = Annotated[str, Arg("What is to be done next.", most=1_000, metavar="TEXT")]
Budget = Annotated[
    int,
    Arg(
        "Tokens at most.  [default: 2000]",
        Agent("", MIN_RESULT_TOKENS, MAX_RESULT_TOKENS),
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
            FrontEnd.HTTP: "it would wait for a service of the server's user",
            FrontEnd.MCP: "the agent is a model itself",
        },
    ),
]


Status = Annotated[
    str, Arg("open, doing, blocked, done or dropped.", words=list(TaskStatus), metavar="S")
]


class ReportView(NamedTuple):
    """A report, and its summary."""

    history: TaskHistory
    summary: str


class ArtifactReport(NamedTuple):
    """The full report with an artifact's digest."""

    artifact: str
    text: str


def add(
    vault: Vault,
    title: Annotated[
        str, Arg("What is to be done.", "", 1, 300, takes=ArgumentForm.WORDS, metavar="TITLE")
    ],
    next: Next = "",
    text: Annotated[
        str, Arg("More about it, in markdown.", Agent(most=50_000), most=200_000, metavar="TEXT")
    ] = "",
) -> Task:
    """Write a task down as a note in tasks/.

    Examples:
      vaultmem task add "Name each ticket on the slip" --next "Ask Tuuli"
    """
    from vaultmem.services.sessions.edit_tasks import add_task

    return add_task(_act(vault), title, next, text)


def set_(
    vault: Vault,
    task: Named = "",
    status: Status = "",
    next: Next = "",
) -> Task:
    """Set the status of a task, or its next step.

    Examples:
      vaultmem task update --status doing --next "Change the template"
    """
    from vaultmem.services.sessions.edit_tasks import change_task, find_task

    new_status = _read_status(status)
    found_task = find_task(vault, task)
    return change_task(_act(vault), found_task.id, new_status, next or None)


def _read_status(name: str) -> TaskStatus | None:
    from vaultmem.errors import RefusedError

    try:
        return TaskStatus(name) if name else None
    except ValueError:
        names = ", ".join(TaskStatus)
        raise RefusedError(f'task: "{name}" is not a status; use one of {names}') from None


def _act(vault: Vault) -> Vault:
    """Return the vault for writing in the current session, if there is one."""
    from vaultmem.services.sessions.edit_session import act_in
    from vaultmem.services.sessions.identify import identify_session

    name = identify_session(vault).session
    return act_in(vault, name) if name else vault


def list_(
    vault: Vault,
    all_: Annotated[
        bool,
        Arg("Also finished tasks.", excused={FrontEnd.MCP: "recall finds what is over"}),
    ] = False,
    status: Status = "",
    project: ListScope = "",
    workspace: Annotated[
        str,
        Arg(
            "Only tasks of this folder's project, and those that its sessions worked on.",
            most=1_000,
            metavar="DIR",
            excused={
                FrontEnd.HTTP: "project names it; a folder is on the caller's machine",
                FrontEnd.MCP: "an agent works in one project",
            },
        ),
    ] = "",
) -> list[Task]:
    """List the tasks, the last changed first.

    Examples:
      vaultmem task list
      vaultmem task list --status blocked
      vaultmem task list --workspace ~/code/payments
    """
    from pathlib import Path

    from vaultmem.errors import ArgumentError
    from vaultmem.services.projects.scope import view_project
    from vaultmem.services.sessions.edit_tasks import list_tasks

    folder = None
    if workspace:
        folder = (vault.here or Path.cwd()) / Path(workspace).expanduser()
        if not folder.is_dir():
            raise ArgumentError(f"--workspace {workspace}: not a folder; name one")
    scope, wanted = project or ("all" if folder else ""), _read_status(status)
    found_tasks = list_tasks(view_project(vault, scope), all_ or bool(wanted), folder)
    return [each for each in found_tasks if wanted in {None, each.status}]


def show(vault: Vault, task: Named = "") -> Task:
    """Show the status of a task, and its next step.

    Which sessions worked on it is shown too.

    Examples:
      vaultmem task show
    """
    from vaultmem.services.sessions.edit_tasks import find_task

    return find_task(vault, task)


def history(
    vault: Vault, task: Named = "", budget: Budget = 0, summarizer: Summarizer = "plain"
) -> ReportView:
    """Print all that is known of a task, within a token budget.

    That is its sessions, files and commits.

    Examples:
      vaultmem task history --budget 1000
    """
    from vaultmem.services.sessions.edit_tasks import find_task

    return _view(vault, find_task(vault, task), budget, summarizer)


def hand_off(
    vault: Vault,
    task: Named = "",
    text: Annotated[
        str,
        Arg(
            "A message for the next agent or person.",
            Agent(most=50_000),
            most=200_000,
            flags=("--note",),
            metavar="TEXT",
        ),
    ] = "",
    budget: Budget = 0,
    summarizer: Summarizer = "plain",
) -> ReportView:
    """Print all that is known of a task, for the next agent.

    With --note, a word is left for them in handoffs/.

    Examples:
      vaultmem task handoff --note "The drawing of the slip is with Tuuli."
    """
    from vaultmem.services.sessions.edit_tasks import find_task, hand_over

    acting = _act(vault)
    found_task = find_task(acting, task)
    if text:
        hand_over(acting, found_task, text)
        found_task = find_task(acting, found_task.id)
    return _view(acting, found_task, budget, summarizer)


def _view(vault: Vault, task: Task, budget: int, summarizer: str) -> ReportView:
    from vaultmem.services.sessions.edit_tasks import view_task

    return _word(vault, view_task(vault, task, budget or None), summarizer)


def family(
    vault: Vault,
    session: Annotated[
        str,
        Arg(
            "A session; only those before and after it.  [default: all sessions]",
            most=200,
            takes=ArgumentForm.WORD,
            metavar="[SESSION]",
        ),
    ] = "",
    query: Annotated[str, Arg("What it is about.", most=1_000_000, metavar="TEXT")] = "",
    from_: Annotated[
        str,
        Arg("Only sessions begun from then on.", most=40, flags=("--from",), metavar="DATE"),
    ] = "",
    to: Annotated[str, Arg("Only sessions begun up to then.", most=40, metavar="DATE")] = "",
    budget: Budget = 0,
    summarizer: Summarizer = "plain",
) -> ReportView:
    """Print sessions that follow one another as one report.

    The report names its sources.

    Examples:
      vaultmem session report s-0431
      vaultmem session report --query "refund slip"
    """
    from vaultmem.services.projects.scope import view_project
    from vaultmem.services.sessions.edit_tasks import view_family

    scope = vault if session else view_project(vault)
    task_history = view_family(scope, session, query, from_, to, budget or None)
    return _word(scope, task_history, summarizer)


def _word(vault: Vault, task_history: TaskHistory, summarizer: str) -> ReportView:
    from vaultmem.services.sessions.edit_tasks import polish_summary

    return ReportView(task_history, polish_summary(task_history, summarizer, vault.environment))


def expand(
    vault: Vault,
    artifact: Annotated[
        str, Arg("The artifact of a view.", "", 1, 64, takes=ArgumentForm.WORD, metavar="DIGEST")
    ],
) -> ArtifactReport:
    """Print the full view of an artifact's digest.

    Examples:
      vaultmem task expand 1f0c2b9a77e4
    """
    from vaultmem.services.sessions.edit_tasks import expand_artifact

    return ArtifactReport(artifact, expand_artifact(vault, artifact))


def _tasks_data(tasks: list[Task]) -> dict[str, Any]:
    return {"tasks": tasks}


def _viewed_data(result: ReportView) -> dict[str, Any]:
    return {
        **pick(result.history, "rendered"),
        "summary": result.summary,
        **pick(result.history, "artifact task_id? task_title?"),
        "tokens": {"sent": result.history.tokens, "budget": result.history.budget},
        **pick(result.history, "support"),
    }


def _done_lines(word: str) -> Callable[[Task, Any], Iterator[Line]]:
    """Return a function that yields an action and its task."""

    def make(task: Task, _: Any) -> Iterator[Line]:
        yield Line(f"{word:<5}  ", "green", f"{task.id}  ({task.status})")

    return make


def describe_no_task(request: Any) -> str:
    """Return the sentence for an empty list of tasks."""
    return f"No task is {request.status or 'open'}."


def _tasks_lines(tasks: list[Task], request: Any) -> Iterator[Line]:
    width = min(max((len(task.id) for task in tasks), default=0), _MAX_COLUMN_CHARS)
    for task in tasks:
        next_step = f"  next: {one_line(task.next_step)}" if task.next_step else ""
        rest = f"  {task.id:<{width}}  {one_line(task.title)}{next_step}"
        yield Line(f"{task.status:<8}", _COLOURS.get(task.status, "dim"), rest)
    if not tasks:
        yield Line(describe_no_task(request))


def _task_lines(task: Task, _: Any) -> Iterator[Line]:
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


def _viewed_lines(result: ReportView, _: Any) -> Iterator[Line]:
    yield Line(one_line(result.summary))
    yield Line("")
    yield Line(result.history.rendered.rstrip("\n"))
    yield Line("")
    yield Line("all of it", "dim", f"  vaultmem task expand {result.history.artifact[:12]}")


def _expanded_lines(result: ArtifactReport, _: Any) -> Iterator[Line]:
    yield Line(result.text.rstrip("\n"))


_TASK = record(id="string", path="string", title="string", status="string")

_write = partial(declare, versions=VersionScope.BRANCH, writes=True, output_schema=_TASK)
_render = partial(
    declare,
    versions=VersionScope.BRANCH,
    data=_viewed_data,
    lines=_viewed_lines,
    output_schema=record(
        rendered="string",
        summary="string",
        artifact="string",
        tokens=record(sent="integer", budget="integer"),
    ),
)

ADD = _write(add, "add_task", "POST /tasks", lines=_done_lines("added"))

SET = _write(set_, "set_task", "PATCH /tasks/{task}", lines=_done_lines("set"))

LIST = declare(
    list_,
    "list_tasks",
    "GET /tasks",
    _tasks_data,
    lines=_tasks_lines,
    output_schema=record(tasks=rows(id="string", path="string", title="string", status="string")),
    versions=VersionScope.SEEN,
)

SHOW = declare(
    show,
    "get_task",
    "GET /tasks/{task}",
    lines=_task_lines,
    output_schema=_TASK,
    versions=VersionScope.SEEN,
    excused={FrontEnd.MCP: "the tool shows all that is known of it"},
)

HISTORY = _render(history, "view_task", "GET /tasks/{task}/history")

HAND_OFF = _render(hand_off, "hand_off_task", "POST /tasks/{task}/handoff", writes=True)

EXPAND = declare(
    expand,
    "expand_artifact",
    "GET /artifacts/{artifact}",
    lines=_expanded_lines,
    output_schema=record(artifact="string", text="string"),
    excused={FrontEnd.MCP: "a larger budget shows more"},
)

FAMILY = _render(
    family,
    "view_sessions",
    "GET /session-family",
    excused={FrontEnd.MCP: "an agent restores a session, and what came before it"},
)

TASKS = (ADD, SET, LIST, SHOW, HISTORY, HAND_OFF, EXPAND)
