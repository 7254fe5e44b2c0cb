"""Commands that read git's history: log, show, diff, history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.history import diff_json, log_json, shown_json, trace_json
from vaultmem.cli.history_text import (
    say_brief,
    say_operation,
    say_versions,
    tell_commit,
)
from vaultmem.cli.output import emit_json, say, say_behind, say_painted, warn
from vaultmem.cli.shared import Here, takes
from vaultmem.core.safe_text import one_line

if TYPE_CHECKING:
    from vaultmem.services.history.diff import ShownCommit

_CUT = "The history of this clone ends here: it is shallow. `git fetch --unshallow` gets the rest."

SinceOption = Annotated[
    str, typer.Option("--since", metavar="DATE", help="Only from this day or moment on.")
]
UntilOption = Annotated[
    str, typer.Option("--until", metavar="DATE", help="Only up to this day or moment.")
]
BelowOption = Annotated[
    str, typer.Option("--path", metavar="PATH", help="Only what changed this note or folder.")
]


@takes("vault", "ref", "as_json")
def log(
    here: Here,
    span: Annotated[
        str, typer.Argument(metavar="[A..B]", help="Only what B has, and A has not.")
    ] = "",
    limit: Annotated[int, typer.Option("-n", "--limit", metavar="N", help="Commits at most.")] = 20,
    event: Annotated[
        list[str], typer.Option("--event", metavar="EVENT", help="Only this event (repeatable).")
    ] = [],  # noqa: B006
    agent: Annotated[
        list[str], typer.Option("--agent", metavar="ID", help="Only by this agent (repeatable).")
    ] = [],  # noqa: B006
    session: Annotated[
        list[str],
        typer.Option("--session", metavar="ID", help="Only of this session (repeatable)."),
    ] = [],  # noqa: B006
    path: BelowOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Also commits that vaultmem did not make.")
    ] = False,
) -> None:
    """Show what happened in the vault, newest first.

    Examples:
      vaultmem log -n 5
      vaultmem log --path notes/payments
    """
    from vaultmem.core.timestamps import parse_timestamp
    from vaultmem.services.history.commits import CommitFilter, list_commits

    wanted = CommitFilter(
        frozenset(event),
        frozenset(agent),
        frozenset(session),
        parse_timestamp(since) if since else None,
        parse_timestamp(until, end_of_day=True) if until else None,
        everything,
    )
    if span and ".." not in span:
        raise typer.BadParameter(f'"{span}" is not A..B; --ref shows one branch, --path one note')
    found = list_commits(here.open(reads=True), wanted, limit, path, span)
    if here.as_json:
        emit_json(log_json(found))
        return
    for commit in found.commits:
        say_painted(commit.commit[:7], "yellow", f"  {tell_commit(commit)}")
    if found.is_cut:
        say(_CUT)
    elif not (found.commits or path or span) and wanted == CommitFilter(everything=everything):
        say("No events yet; `vaultmem checkpoint NOTE` makes the first.")
    elif not found.commits:
        say("No event matches.")


@takes("vault", "ref", "as_json")
def show(
    here: Here,
    commit: Annotated[
        str, typer.Argument(metavar="COMMIT", help="A commit, branch, tag or date; else HEAD.")
    ] = "",
) -> None:
    """Show who made a commit, why, and what it changed.

    Examples:
      vaultmem show
      vaultmem show HEAD~1
    """
    from vaultmem.services.history.diff import show_commit

    shown = show_commit(here.open(reads=True), commit)
    if here.as_json:
        emit_json(shown_json(shown))
        return
    _say_commit(shown)
    for operation in shown.operations:
        say()
        say_operation(operation)
    if shown.is_end:
        say()
        say(f"What it changed is not known. {_CUT}")
    elif not shown.operations:
        say()
        say("It changed nothing in the vault.")


@takes("vault", "ref", "as_json")
def diff(
    here: Here,
    old: Annotated[
        str,
        typer.Argument(
            metavar="[A]", help="A commit, branch, tag or date, A..B or A...B; else HEAD."
        ),
    ] = "",
    new: Annotated[
        str, typer.Argument(metavar="[B]", help="What to compare with; else the folder as it is.")
    ] = "",
    path: BelowOption = "",
    brief: Annotated[bool, typer.Option("--brief", help="One line for each note.")] = False,
) -> None:
    """Show what changed in the notes between two commits.

    Name them as A B or A..B; A...B is what B has since the two parted. Changed properties are shown
    as such.

    Examples:
      vaultmem diff HEAD~1 HEAD
      vaultmem diff
    """
    from vaultmem.services.history.diff import diff_vault

    opened = here.open(reads=True)
    found = diff_vault(opened, old, new, path)
    say_behind(opened.notices.stale)
    for name, reason in found.skipped.items():
        warn(f"left out {name}: {reason}")
    if here.as_json:
        emit_json(diff_json(found))
        return
    if not found.operations:
        say("Nothing differs.")
    if brief:
        say_brief(found.operations)
        return
    for number, operation in enumerate(found.operations):
        if number:
            say()
        say_operation(operation)


@takes("vault", "ref", "at", "as_json")
def history(
    here: Here,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The note, as it is called now or was once.")
    ],
    limit: Annotated[
        int,
        typer.Option("-n", "--limit", metavar="N", help="Changes at most.", show_default=False),
    ] = 0,
) -> None:
    """Show what each commit did to a note, newest first.

    The note is followed through renames and removals.

    Examples:
      vaultmem history refund-rules
    """
    from vaultmem.services.history.commits import resolve_commit
    from vaultmem.services.history.trace import trace_note

    opened = here.open_synced(reads=True)
    found = trace_note(opened, path, limit, resolve_commit(opened, here.at) if here.at else "")
    if here.as_json:
        emit_json(trace_json(found))
        return
    say_versions(found)
    if any(each.is_end for each in found.versions):
        say(_CUT)


def _say_commit(shown: ShownCommit) -> None:
    commit = shown.commit
    say_painted(f"commit {commit.commit}", "yellow")
    parents = [parent[:7] for parent in commit.parents]
    merged = f"of {' and '.join(parents)}; compared with {parents[0]}" if parents[1:] else ""
    facts = {
        "who": f"{commit.author} <{commit.email}>",
        "agent": commit.who if commit.wrote else commit.agent,
        "claimed by": commit.claimed_by,
        "when": commit.time,
        "event": commit.event,
        "session": commit.session,
        "intent": commit.intent,
        "confidence": commit.confidence,
        "tool call": commit.tool_call,
        "merge": merged,
    }
    for name, value in facts.items():
        if value:
            say(f"{name:<10}  {one_line(value)}")
    say()
    say(commit.subject)
    if commit.prose:
        say()
        say(commit.prose)
