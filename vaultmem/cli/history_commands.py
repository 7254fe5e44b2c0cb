"""Commands on git's history: log, diff, history, blame, trace, restore, undo."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.opening import open_other
from vaultmem.cli.output import emit_json, print_line, print_lines, print_styled
from vaultmem.cli.shared import CommandContext, make_command, print_answer, takes
from vaultmem.core.text.display import one_line
from vaultmem.operations.declaration import read_request
from vaultmem.operations.history_views import (
    BLAME,
    DIFF,
    HISTORY,
    LOG,
    WHY,
    version_lines,
)
from vaultmem.operations.lines import candidate_lines, commit_lines, report_lines
from vaultmem.operations.note_changes import UNDO
from vaultmem.operations.note_data import restored_json, trace_json
from vaultmem.operations.traces import SPREAD, TRACE, SpreadRequest, TraceRequest

if TYPE_CHECKING:
    from vaultmem.services.changes.commit import CommitReport

log = make_command(LOG, "log")
diff = make_command(DIFF, "diff")
history = make_command(HISTORY, "history")
blame = make_command(BLAME, "blame")
undo = make_command(UNDO, "undo")


def print_commits(commits: Iterable[tuple[str, str]]) -> None:
    """Print a line for each commit that was made, given as id and subject."""
    print_lines(commit_lines(commits))


def print_report(report: CommitReport) -> None:
    """Print the commits that were made, and what was left out."""
    print_lines(report_lines(report))


def print_candidates(paths: Iterable[str]) -> None:
    """Print the notes that an agent's change would have made active."""
    print_lines(candidate_lines(paths))


@takes("vault", "ref", "at", "as_json")
def trace(
    here: CommandContext,
    query: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE[:LINE]|TEXT",
            help="A file of this repository, perhaps with a line or a symbol; else a text.",
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

    opened = replace(here.open_view(reads=True), opener=open_other)
    if spread:
        followed = SpreadRequest(" ".join(query))
        print_answer(SPREAD, here, followed, SPREAD.run(opened, followed))
        return
    asked = read_request(WHY.request, {"query": " ".join(query), "limit": limit})
    if not (here.at or here.ref) and names_code(opened, asked.query):
        code = TraceRequest(asked.query)
        print_answer(TRACE, here, code, TRACE.run(opened, code))
    else:
        print_answer(WHY, here, asked, WHY.run(opened, asked))


@takes("vault", "ref", "agent", "session", "as_json")
def restore(
    here: CommandContext,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The note, as it is called now or was then.")
    ],
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="WHEN",
            help="A commit, branch, tag or date; else the versions are listed.",
        ),
    ] = "",
) -> None:
    """Restore an older version of a note, as a new change.

    What it is now is committed first. A note that was renamed or moved since keeps its new path.

    Examples:
      vaultmem restore refund-rules --at HEAD~1
    """
    from vaultmem.services.history.restore_note import restore_note

    if not at:
        _list_versions(here, path)
        return
    done = restore_note(here.open_synced(), path, at)
    if here.as_json:
        emit_json(restored_json(done))
        return
    if not done.is_changed:
        print_line(
            f"{one_line(done.path)}: already as it was in {done.commit[:7]}; nothing changed."
        )
        return
    print_commits(done.commits)
    then = f", there {one_line(done.path_then)}" if done.path_then else ""
    print_styled("restored  ", "green", f"{done.path}  (as in {done.commit[:7]}{then})")
    print_candidates(done.candidates)


def _list_versions(here: CommandContext, path: str) -> None:
    """Print the versions of a note, and the command that restores one."""
    from vaultmem.services.history.blame import trace_note

    found = trace_note(here.open_synced(reads=True), path)
    if here.as_json:
        emit_json(trace_json(found))
        return
    print_lines(version_lines(found))
    kept = [e.commit.commit for e in found.versions if e.commit and e.operation.file.blob]
    if kept:
        at = kept[1:2] or kept
        print_line(
            f"hint: `vaultmem restore {shlex.quote(path)} --at {at[0][:7]}` restores that version"
        )
