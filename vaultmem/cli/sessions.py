"""The group `session`: begin one, write it down, end it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.sessions import begun_json, closed_json
from vaultmem.cli import session_notes, session_views
from vaultmem.cli.history_text import say_report
from vaultmem.cli.output import emit_json, say, say_lines, say_painted
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.cli.session_text import find_named, say_done, say_recovered, say_restore
from vaultmem.cli.shared import Here, takes

if TYPE_CHECKING:
    from vaultmem.services.sessions.begin import Begun
    from vaultmem.vault import Vault

NAME = "session"

GoalOption = Annotated[str, typer.Option("--goal", metavar="TEXT", help="What it is to reach.")]
PidOption = Annotated[
    int,
    typer.Option(
        "--pid",
        metavar="N",
        help="The process whose session it is; else the one that runs this command.",
        show_default=False,
    ),
]
BudgetOption = Annotated[
    int,
    typer.Option(
        "--budget", metavar="TOKENS", help="Tokens of a restore; else 2000.", show_default=False
    ),
]
RelatedOption = Annotated[
    list[str],
    typer.Option("--related", metavar="ID", help="A session that it has to do with (repeatable)."),
]


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    add_commands(app, start, resume, fork, mark_restore, close)
    session_notes.register(app)
    session_views.register(app)
    parent.add_typer(app, name=NAME, help="Keep sessions: what an agent did, and where it stands.")


@takes("vault", "ref", "agent", "session", "as_json")
def start(
    here: Here,
    name: Annotated[
        str, typer.Option("--id", metavar="ID", help="Its id; else the agent's own, or a new one.")
    ] = "",
    goal: GoalOption = "",
    continues: Annotated[
        list[str],
        typer.Option("--continues", metavar="ID", help="A session that it goes on from."),
    ] = [],  # noqa: B006
    related: RelatedOption = [],  # noqa: B006
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do not pick up a session whose restore is pending.")
    ] = False,
    pid: PidOption = 0,
    budget: BudgetOption = 0,
) -> None:
    """Begin a session.

    One whose restore is pending is continued, and its restore printed.

    Examples:
      vaultmem --agent claude session start --goal "Refund single tickets"
    """
    from vaultmem.services.sessions.begin import NewSession, start_session

    opened = here.open_synced()
    new = NewSession(name, goal, tuple(continues), related=tuple(related), pid=pid or None)
    _tell_begun(opened, start_session(opened, new, not fresh), budget, here.as_json)


@takes("vault", "ref", "agent", "session", "as_json")
def resume(
    here: Here,
    name: Annotated[str, typer.Argument(metavar="[ID]", help="The session; else the last.")] = "",
    pid: PidOption = 0,
    budget: BudgetOption = 0,
) -> None:
    """Go on with a session in a new context window.

    Its restore is printed.

    Examples:
      vaultmem session resume s-0431
    """
    from vaultmem.services.sessions.begin import resume_session

    opened = here.open_synced()
    _tell_begun(opened, resume_session(opened, name, pid=pid or None), budget, here.as_json)


@takes("vault", "ref", "agent", "as_json")
def fork(
    here: Here,
    name: Annotated[str, typer.Argument(metavar="ID", help="The session to go from.")],
    own: Annotated[
        str, typer.Option("--id", metavar="ID", help="The new session's id; else a new one.")
    ] = "",
    goal: GoalOption = "",
    related: RelatedOption = [],  # noqa: B006
    pid: PidOption = 0,
    budget: BudgetOption = 0,
) -> None:
    """Begin a session that goes its own way from another one.

    That one's restore is printed.

    Examples:
      vaultmem session fork s-0431 --goal "Try it without a job"
    """
    from vaultmem.services.sessions.begin import NewSession, fork_session

    opened = here.open_synced()
    new = NewSession(own, goal, related=tuple(related), pid=pid or None)
    _tell_begun(opened, fork_session(opened, name, new), budget, here.as_json)


@takes("vault", "ref", "agent", "session", "as_json")
def mark_restore(
    here: Here,
    name: Annotated[str, typer.Argument(metavar="[ID]", help="The session; else this one.")] = "",
) -> None:
    """Ask for a restore at the next start.

    It is for a session whose context is about to be lost.

    Examples:
      vaultmem session mark-restore s-0431
    """
    from vaultmem.services.sessions.windows import mark_restore as mark

    opened = here.open()
    say_done(mark(opened, find_named(opened, name or here.session)), "pending", here.as_json)


@takes("vault", "ref", "agent", "session", "as_json")
def close(
    here: Here,
    name: Annotated[str, typer.Argument(metavar="[ID]", help="The session; else this one.")] = "",
    status: Annotated[
        str, typer.Option("--status", metavar="STATUS", help="How it ended: ok, error, canceled.")
    ] = "ok",
    summary: Annotated[
        str, typer.Option("--summary", metavar="TEXT", help="Where things stand at its end.")
    ] = "",
    learn: Annotated[
        list[str],
        typer.Option("--learn", metavar="TEXT", help="What MEMORY.md should know (repeatable)."),
    ] = [],  # noqa: B006
) -> None:
    """End a session, and commit what it wrote.

    Examples:
      vaultmem session close s-0431 --summary "The slip names each ticket."
    """
    from vaultmem.services.sessions.close import close_session, parse_end

    opened = here.open()
    named = find_named(opened, name or here.session)
    done = close_session(opened, named, parse_end(status), summary, learn)
    if here.as_json:
        emit_json(closed_json(done))
        return
    say_painted("closed   ", "green", f"{done.session.facts.id}  ({done.session.facts.status})")
    for each in done.learned:
        say(f"learned  {each.path}{'' if each.in_memory else '  (MEMORY.md is full)'}")
    if done.proposed:
        from vaultmem.operations.notes import proposed_lines

        say_lines(proposed_lines(done.proposed))
    say_report(done.report)


def _tell_begun(vault: Vault, begun: Begun, budget: int, as_json: bool) -> None:
    """Print the session that is open now, what was recovered, and the restore that was wanted."""
    from vaultmem.services.sessions.restore import restore_session

    restored = None
    if begun.restore:
        restored = restore_session(vault, begun.restore, budget or None)
    if as_json:
        emit_json(begun_json(begun, restored))
        return
    say_recovered(begun.recovered)
    facts = begun.session.facts
    word = "started" if begun.is_new else "open"
    say_painted(f"{word:<9}", "green", f"{facts.id}  ({facts.path})")
    if restored:
        say()
        say_restore(restored)
