"""Commands about tasks: the group task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.sessions import artifact_json, tasks_json
from vaultmem.cli.options import BudgetOption
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.cli.session_text import SummarizerOption, say_history
from vaultmem.cli.shared import Here, takes
from vaultmem.core.safe_text import one_line

if TYPE_CHECKING:
    from vaultmem.core.tasks.task import Task
    from vaultmem.vault import Vault

NameArgument = Annotated[
    str, typer.Argument(metavar="[TASK]", help="The task's id or its start; else the last open.")
]
NextOption = Annotated[str, typer.Option("--next", metavar="TEXT", help="What is to be done next.")]
_COLOURS = {"done": "green", "doing": "bold", "blocked": "yellow", "dropped": "dim"}


def register(parent: typer.Typer) -> None:
    """Add the commands to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    add_commands(app, add, set_, list_, show, history, handoff, expand)
    parent.add_typer(app, name="task", help="Keep tasks: what is to be done, and what is next.")


@takes("vault", "ref", "agent", "session", "as_json")
def add(
    here: Here,
    title: Annotated[list[str], typer.Argument(metavar="TITLE", help="What is to be done.")],
    next_step: NextOption = "",
    text: Annotated[
        str, typer.Option("--text", metavar="TEXT", help="More about it, in markdown.")
    ] = "",
) -> None:
    """Write a task down as a note in tasks/.

    Examples:
      vaultmem task add "Name each ticket on the slip" --next "Ask Tuuli"
    """
    from vaultmem.services.tasks.edit_tasks import add_task

    opened = _open(here)
    _say_task("added", add_task(opened, " ".join(title), next_step, text), here.as_json)


@takes("vault", "ref", "agent", "session", "as_json")
def set_(
    here: Here,
    name: NameArgument = "",
    status: Annotated[
        str, typer.Option("--status", metavar="S", help="open, doing, blocked, done or dropped.")
    ] = "",
    next_step: NextOption = "",
) -> None:
    """Say how a task stands, or what is next.

    Examples:
      vaultmem task set --status doing --next "Change the template"
    """
    from vaultmem.core.tasks.task import TaskStatus
    from vaultmem.errors import RefusedError
    from vaultmem.services.tasks.edit_tasks import change_task, find_task

    try:
        wanted = TaskStatus(status) if status else None
    except ValueError:
        known = ", ".join(TaskStatus)
        raise RefusedError(f'task: "{status}" is not a status; use one of {known}') from None
    opened = _open(here)
    task = change_task(opened, find_task(opened, name).id, wanted, next_step or None)
    _say_task("set", task, here.as_json)


@takes("vault", "ref", "as_json")
def list_(
    here: Here,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
) -> None:
    """List the tasks, the last changed first.

    Examples:
      vaultmem task list
    """
    from vaultmem.services.tasks.edit_tasks import list_tasks

    tasks = list_tasks(here.open_synced(reads=True), everything)
    if here.as_json:
        emit_json(tasks_json(tasks))
        return
    width = min(max((len(task.id) for task in tasks), default=0), 40)
    for task in tasks:
        told = f"  next: {one_line(task.next_step)}" if task.next_step else ""
        rest = f"  {task.id:<{width}}  {one_line(task.title)}{told}"
        say_painted(f"{task.status:<8}", _COLOURS.get(task.status, "dim"), rest)
    if not tasks:
        say("No task is open.")


@takes("vault", "ref", "as_json")
def show(here: Here, name: NameArgument = "") -> None:
    """Show how a task stands, and what is next.

    Which sessions worked on it is shown too.

    Examples:
      vaultmem task show
    """
    from vaultmem.services.tasks.edit_tasks import find_task

    task = find_task(here.open_synced(reads=True), name)
    if here.as_json:
        emit_json(task)
        return
    say_painted(one_line(task.title), "bold")
    for word, value in (
        ("id", task.id),
        ("status", task.status),
        ("next", task.next_step),
        ("sessions", ", ".join(task.sessions)),
    ):
        if value:
            say(f"{word:<9}  {one_line(value)}")
    if task.text:
        say()
        say(task.text)


@takes("vault", "ref", "as_json")
def history(
    here: Here,
    name: NameArgument = "",
    budget: BudgetOption = 0,
    summarizer: SummarizerOption = "plain",
) -> None:
    """Print all that is known of a task, within a token budget.

    That is its sessions, files and commits.

    Examples:
      vaultmem task history --budget 1000
    """
    from vaultmem.services.tasks.edit_tasks import find_task
    from vaultmem.services.tasks.view import view_task

    opened = here.open_synced(reads=True)
    found = view_task(opened, find_task(opened, name), budget or None)
    say_history(opened, found, summarizer, here.as_json)


@takes("vault", "as_json")
def expand(
    here: Here,
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="The artifact of a view.")],
) -> None:
    """Print the full view that an artifact's digest stands for.

    Examples:
      vaultmem task expand 1f0c2b9a77e4
    """
    from vaultmem.services.tasks.view import expand_artifact

    text = expand_artifact(here.open_synced(reads=True), digest)
    if here.as_json:
        emit_json(artifact_json(digest, text))
    else:
        say(text.rstrip("\n"))


@takes("vault", "ref", "agent", "session", "as_json")
def handoff(
    here: Here,
    name: NameArgument = "",
    note: Annotated[
        str,
        typer.Option("--note", metavar="TEXT", help="Keep a word for whoever goes on."),
    ] = "",
    budget: BudgetOption = 0,
    summarizer: SummarizerOption = "plain",
) -> None:
    """Print all that is known of a task, for whoever goes on.

    With --note, a word is left for them in handoffs/.

    Examples:
      vaultmem task handoff --note "The drawing of the slip is with Tuuli."
    """
    from vaultmem.services.tasks.edit_tasks import find_task
    from vaultmem.services.tasks.view import hand_over, view_task

    opened = _open(here)
    task = find_task(opened, name)
    if note:
        hand_over(opened, task, note)
        task = find_task(opened, task.id)
    say_history(opened, view_task(opened, task, budget or None), summarizer, here.as_json)


def _open(here: Here) -> Vault:
    """Open the vault for writing in the session that is meant here, if any is."""
    from vaultmem.services.sessions.edit_session import act_in
    from vaultmem.services.sessions.identify import identify_session

    opened = here.open_synced()
    name = identify_session(opened, here.session).session
    return act_in(opened, name) if name else opened


def _say_task(word: str, task: Task, as_json: bool) -> None:
    if as_json:
        emit_json(task)
    else:
        say_painted(f"{word:<5}  ", "green", f"{task.id}  ({task.status})")
