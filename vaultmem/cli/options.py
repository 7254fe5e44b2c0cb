"""Options that many commands share, and the vault that they open."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.output import ProgressLine

if TYPE_CHECKING:
    from vaultmem.core.finding.query import NoteFilter
    from vaultmem.vault import Vault

PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="The note: its path, or its name if that is enough.")
]
VaultOption = Annotated[
    str,
    typer.Option(
        "--vault",
        metavar="DIR",
        help="The vault; else $VAULTMEM_VAULT, else the one around the current folder.",
        show_default=False,
    ),
]
AgentOption = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="ID",
        help="Who is writing; else $VAULTMEM_AGENT, else a person.",
        show_default=False,
    ),
]
SessionOption = Annotated[
    str,
    typer.Option(
        "--session",
        metavar="ID",
        help="The session of the agent that is writing; else $VAULTMEM_SESSION_ID.",
        show_default=False,
    ),
]
RefOption = Annotated[
    str,
    typer.Option(
        "--ref",
        metavar="REF",
        help="The branch to work on; else $VAULTMEM_REF, else what is checked out.",
        show_default=False,
    ),
]
AtOption = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="WHEN",
        help="As it was at a commit, branch, tag or date such as 2026-10-01.",
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
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
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

_given: dict[str, str] = {}

#: In the watcher's process: the vault that is open there, and what tells that it is in sync.
_warm: tuple[Vault, Callable[[], bool]] | None = None


def keep_warm(vault: Vault, is_in_sync: Callable[[], bool]) -> None:
    """Use what this vault has open already for each command that this process runs."""
    global _warm
    _warm = (vault, is_in_sync)


def remember_globals(vault: str, agent: str, session: str, ref: str) -> None:
    """Keep what was given before the command's name."""
    _given.update(vault=vault, agent=agent, session=session, ref=ref)


def open_here(vault: str = "", agent: str = "", session: str = "", ref: str = "") -> Vault:
    """Open the vault that the options name."""
    from vaultmem.vault import open_vault

    opened = open_vault(
        vault or _given.get("vault") or None,
        agent=agent or _given.get("agent", ""),
        session=session or _given.get("session", ""),
        ref=ref or _given.get("ref", ""),
    )
    if _warm is not None and _warm[0].root == opened.root:
        opened.share_storage(_warm[0])
    return opened


def open_synced(vault: str = "", agent: str = "", session: str = "", ref: str = "") -> Vault:
    """Open the vault and bring its index up to what is on disk, with progress if it takes long."""
    opened = open_here(vault, agent, session, ref)
    progress = ProgressLine("reading notes")
    if _warm is None:
        from vaultmem.services.watching.watching import catch_up

        catch_up(opened, progress)
    elif not _warm[1]():
        from vaultmem.services.sync import sync_vault

        sync_vault(opened, progress)
    return opened


def open_view(
    vault: str = "",
    ref: str = "",
    at: str = "",
    include: str = "",
    agent: str = "",
    session: str = "",
) -> Vault:
    """Open the vault in sync, and look at what the options name: by default, the folder."""
    opened = open_synced(vault, agent, session, ref)
    if not (at or include or opened.ref):
        return opened
    from vaultmem.services.finding.look import look_at

    names = [name.strip() for name in include.split(",") if name.strip()]
    return look_at(opened, at, names, ProgressLine("reading notes of git"))


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

    return NoteFilter(
        kinds=frozenset(map(parse_kind, kind)),
        states=frozenset(map(parse_state, state)),
        tags=tuple(tag),
        context=context.strip("/"),
        pinned=pinned,
        any_state=any_state,
    )
