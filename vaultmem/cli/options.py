"""Options that many commands share, the filter that some of them make, and a text that is given."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vaultmem.core.finding.query import NoteFilter


PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="The note: its path, or its name if that is enough.")
]
VaultOption = Annotated[
    str,
    typer.Option(
        "--vault",
        metavar="DIR",
        help="The vault's folder or name; else the one around this folder.",
        show_default=False,
    ),
]
VaultsOption = Annotated[
    list[str],
    typer.Option(
        "--vault",
        metavar="DIR",
        help="A vault's folder or name (repeatable); else the one here.",
        show_default=False,
    ),
]
AllVaultsOption = Annotated[
    bool, typer.Option("--all-vaults", help="All vaults of the list (`vaultmem vaults`).")
]
AgentOption = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="ID",
        help="Who is writing; else the agent that runs this, or you.",
        show_default=False,
    ),
]
SessionOption = Annotated[
    str,
    typer.Option(
        "--session",
        metavar="ID",
        help="The session of that agent; else its own.",
        show_default=False,
    ),
]
RefOption = Annotated[
    str,
    typer.Option(
        "--ref",
        metavar="REF",
        help="The branch to work on; else what is checked out.",
        show_default=False,
    ),
]
AtOption = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="WHEN",
        help="As it was at a commit, branch, tag or date (2026-10-01).",
        show_default=False,
    ),
]
IncludeRefsOption = Annotated[
    str,
    typer.Option(
        "--include-refs",
        metavar="A,B",
        help="Look at these refs too; each hit names the refs that hold it.",
        show_default=False,
    ),
]


def split_names(names: str) -> tuple[str, ...]:
    """Return the names that an option lists between commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
PortOption = Annotated[
    int, typer.Option("--port", metavar="N", help="The port; 0 for any that is free.")
]
HostOption = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="The address to listen at; where other machines reach it, --name is needed.",
    ),
]

#: The address of this machine that no other reaches.
ONLY_HERE = "127.0.0.1"

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

#: What is said of the options that nearly every command has; `vaultmem help environment` has more.
_SHARED: tuple[Any, ...] = (
    VaultOption,
    VaultsOption,
    AgentOption,
    SessionOption,
    RefOption,
    JsonOption,
)
SHARED_HELP = {each.__metadata__[0].help for each in _SHARED} | {"Show this message and exit."}

KindOption = Annotated[
    list[str], typer.Option("--kind", metavar="KIND", help="Only notes of this kind (repeatable).")
]
StateOption = Annotated[
    list[str],
    typer.Option("--state", metavar="STATE", help="Only notes in this state (repeatable)."),
]
TagOption = Annotated[
    list[str],
    typer.Option("--tag", metavar="TAG", help="Only notes with this tag or one inside it."),
]
ContextOption = Annotated[
    str, typer.Option("--context", metavar="NAME", help="Only notes of this context (folder).")
]

TitleOption = Annotated[
    str, typer.Option("--title", metavar="TEXT", help="Its title; else its first line.")
]
TopicOption = Annotated[
    str, typer.Option("--context", metavar="NAME", help="What it is about: its folder.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
BudgetOption = Annotated[
    int,
    typer.Option(
        "--budget", metavar="TOKENS", help="Tokens at most; else 2000.", show_default=False
    ),
]


def make_filter(
    kind: list[str],
    state: list[str],
    tag: list[str],
    context: str,
    pinned: bool | None = None,
    any_state: bool = False,
) -> NoteFilter:
    """Return the filter that the options describe."""
    from vaultmem.core.finding.query import NoteFilter
    from vaultmem.core.lifecycle import parse_kind, parse_state
    from vaultmem.core.notes.record import CONFLICTED

    wanted = [each for each in state if each != CONFLICTED]
    return NoteFilter(
        kinds=frozenset(map(parse_kind, kind)),
        states=frozenset(parse_state(each, to_find=True) for each in wanted),
        tags=tuple(tag),
        context=context.strip("/"),
        pinned=pinned,
        any_state=any_state,
        conflicted=CONFLICTED in state,
    )


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
    from vaultmem.core.timestamps import parse_timestamp

    return wanted._replace(
        agent=agent,
        session=session,
        since=parse_timestamp(since) if since else None,
        until=parse_timestamp(until, end_of_day=True) if until else None,
        paths=tuple(paths),
    )


def read_text(words: Sequence[str]) -> str:
    """Return the text that a command was given; `-` is standard input.

    Raises:
        RefusedError: standard input is not UTF-8.
    """
    if [*words] != ["-"]:
        return " ".join(words)
    from vaultmem.errors import RefusedError

    data = sys.stdin.buffer.read(2 * 1024 * 1024)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RefusedError(f"standard input is not UTF-8 (byte {error.start})") from None
