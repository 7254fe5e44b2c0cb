"""The options by which a command is told which notes are meant, and the filter that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from vaultmem.cli.shared import give_options

if TYPE_CHECKING:
    from vaultmem.core.finding.query import NoteFilter

_OPTIONS: dict[str, Any] = {
    "kind": Annotated[
        list[str],
        typer.Option("--kind", metavar="KIND", help="Only notes of this kind (repeatable)."),
    ],
    "state": Annotated[
        list[str],
        typer.Option("--state", metavar="STATE", help="Only notes in this state (repeatable)."),
    ],
    "tag": Annotated[
        list[str],
        typer.Option("--tag", metavar="TAG", help="Only notes with this tag or one inside it."),
    ],
    "context": Annotated[
        str, typer.Option("--context", metavar="NAME", help="Only notes of this context (folder).")
    ],
    "from_agent": Annotated[
        str, typer.Option("--from-agent", metavar="ID", help="Only notes that this agent wrote.")
    ],
    "from_session": Annotated[
        str, typer.Option("--from-session", metavar="ID", help="Only notes of this session.")
    ],
    "since": Annotated[
        str,
        typer.Option(
            "--since", metavar="WHEN", help="Only notes written then or later (2026-10-01)."
        ),
    ],
    "until": Annotated[
        str, typer.Option("--until", metavar="WHEN", help="Only notes written then or earlier.")
    ],
    "path": Annotated[
        list[str],
        typer.Option(
            "--path",
            metavar="PATTERN",
            help="Only notes in this folder, or of such paths: notes/*auth*.",
        ),
    ],
}


class Only(NamedTuple):
    """Which notes are meant; what is empty lets all through."""

    kind: list[str] = []  # noqa: RUF012
    state: list[str] = []  # noqa: RUF012
    tag: list[str] = []  # noqa: RUF012
    context: str = ""
    from_agent: str = ""
    from_session: str = ""
    since: str = ""
    until: str = ""
    path: list[str] = []  # noqa: RUF012

    def make_filter(self, pinned: bool | None = None, any_state: bool = False) -> NoteFilter:
        """Return the filter that the options describe.

        Raises:
            RefusedError: a kind, a state or a date is none.
        """
        from vaultmem.core.finding.query import NoteFilter
        from vaultmem.core.lifecycle import parse_kind, parse_state
        from vaultmem.core.notes.record import CONFLICTED
        from vaultmem.core.timestamps import parse_timestamp

        wanted = [each for each in self.state if each != CONFLICTED]
        return NoteFilter(
            kinds=frozenset(map(parse_kind, self.kind)),
            states=frozenset(parse_state(each, to_find=True) for each in wanted),
            tags=tuple(self.tag),
            context=self.context.strip("/"),
            pinned=pinned,
            any_state=any_state,
            conflicted=CONFLICTED in self.state,
            agent=self.from_agent,
            session=self.from_session,
            since=parse_timestamp(self.since) if self.since else None,
            until=parse_timestamp(self.until, end_of_day=True) if self.until else None,
            paths=tuple(self.path),
        )


#: Gives a command these options; what they say is its argument behind `here`.
takes_only = give_options(Only, _OPTIONS)
