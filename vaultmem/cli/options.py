"""Options that many commands share, and the vault that they open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.output import ProgressLine

if TYPE_CHECKING:
    from vaultmem.core.query import NoteFilter
    from vaultmem.vault import Vault

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


def remember_globals(vault: str, agent: str, session: str) -> None:
    """Keep what was given before the command's name."""
    _given.update(vault=vault, agent=agent, session=session)


def open_here(vault: str = "", agent: str = "", session: str = "") -> Vault:
    """Open the vault that the options name."""
    from vaultmem.vault import open_vault

    return open_vault(
        vault or _given.get("vault") or None,
        agent=agent or _given.get("agent", ""),
        session=session or _given.get("session", ""),
    )


def open_synced(vault: str = "", agent: str = "", session: str = "") -> Vault:
    """Open the vault and bring its index up to what is on disk, with progress if it takes long."""
    from vaultmem.services.sync import sync_vault

    opened = open_here(vault, agent, session)
    sync_vault(opened, ProgressLine("reading notes"))
    return opened


def make_filter(
    kind: list[str],
    state: list[str],
    tag: list[str],
    context: str,
    pinned: bool | None = None,
    any_state: bool = False,
) -> NoteFilter:
    """Return the filter that the options describe."""
    from vaultmem.core.lifecycle import parse_kind, parse_state
    from vaultmem.core.query import NoteFilter

    return NoteFilter(
        kinds=frozenset(map(parse_kind, kind)),
        states=frozenset(map(parse_state, state)),
        tags=tuple(tag),
        context=context.strip("/"),
        pinned=pinned,
        any_state=any_state,
    )
