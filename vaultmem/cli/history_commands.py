"""Commands on git's history: log, diff, history, blame, trace, restore, undo."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

import typer

from vaultmem.cli.opening import CommandContext, open_other
from vaultmem.cli.output import print_lines
from vaultmem.cli.shared import answer, make_command, offers, print_answer, takes
from vaultmem.operations.declaration import read_request
from vaultmem.operations.history_views import (
    BLAME,
    DIFF,
    HISTORY,
    LOG,
    WHY,
)
from vaultmem.operations.lines import commit_lines
from vaultmem.operations.note_changes import RESTORE, UNDO
from vaultmem.operations.traces import SPREAD, TRACE

log = make_command(LOG, "log")
diff = make_command(DIFF, "diff")
history = make_command(HISTORY, "history")
blame = make_command(BLAME, "blame")
undo = make_command(UNDO, "undo")


def print_commits(commits: Iterable[tuple[str, str]]) -> None:
    """Print a line for each new commit, given as id and subject."""
    print_lines(commit_lines(commits))


@takes("vault", "ref", "at", "as_json")
def trace(
    context: CommandContext,
    query: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE[:LINE]|TEXT",
            help="File of this repository, with a line or symbol if you want, or a text.",
        ),
    ],
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", help="Sections at most, for a text.")
    ] = 5,
    spread: Annotated[
        bool,
        typer.Option("--spread", help="List who was shown this note, session or commit."),
    ] = False,
) -> None:
    """Trace a line of code or a text to memories and who wrote them.

    For code, these are the notes that cite it, and the decisions of the sessions that made its
    commits. For a text, these are the facts and decisions that mention it, and who wrote their
    lines when. With --at or --ref it is always a text. With --spread, it is a note, session or
    commit: the sessions that were shown it, and which of their later notes repeat or cite it.

    Examples:
      vaultmem trace src/limit.py:12
      vaultmem trace src/limit.py:refund_limit
      vaultmem trace opaque tokens
      vaultmem trace --spread s-0412
    """
    from vaultmem.services.sessions.trace_code import names_code

    vault = replace(context.open_view(reads=True), opener=open_other)
    if spread:
        spread_request = SPREAD.request(" ".join(query))
        print_answer(SPREAD, context, spread_request, SPREAD.run(vault, spread_request))
        return
    why_request = read_request(WHY.request, {"query": " ".join(query), "limit": limit})
    if not (context.at or context.ref) and names_code(vault, why_request.query):
        trace_request = TRACE.request(why_request.query)
        print_answer(TRACE, context, trace_request, TRACE.run(vault, trace_request))
    else:
        print_answer(WHY, context, why_request, WHY.run(vault, why_request))


@offers(RESTORE)
@takes("vault", "ref", "agent", "session", "as_json")
def restore(context: CommandContext, request: Any) -> None:
    """Restore a version, or list the versions, which waits for no writer."""
    answer(RESTORE._replace(writes=bool(request.at)), context, request)
