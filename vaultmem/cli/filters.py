"""Options that narrow down which notes are looked at, beyond kind, state, tag and context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vaultmem.core.finding.query import NoteFilter

FromAgentOption = Annotated[
    str, typer.Option("--from-agent", metavar="ID", help="Only notes that this agent wrote.")
]
FromSessionOption = Annotated[
    str, typer.Option("--from-session", metavar="ID", help="Only notes of this session.")
]
SinceOption = Annotated[
    str,
    typer.Option("--since", metavar="WHEN", help="Only notes written then or later (2026-10-01)."),
]
UntilOption = Annotated[
    str, typer.Option("--until", metavar="WHEN", help="Only notes written then or earlier.")
]
PathOption = Annotated[
    list[str],
    typer.Option(
        "--path",
        metavar="PATTERN",
        help="Only notes in this folder, or of such paths: notes/*auth*.",
    ),
]


def narrow_filter(
    wanted: NoteFilter, agent: str, session: str, since: str, until: str, paths: list[str]
) -> NoteFilter:
    """Return a filter that the options narrow down further.

    Raises:
        RefusedError: a date is none.
    """
    from vaultmem.core.moments import parse_day_or_moment

    return wanted._replace(
        agent=agent,
        session=session,
        since=parse_day_or_moment(since) if since else None,
        until=parse_day_or_moment(until, end_of_day=True) if until else None,
        paths=tuple(paths),
    )
