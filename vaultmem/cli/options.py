"""Options that many commands share; reading a text argument."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence


VaultOption = Annotated[
    str,
    typer.Option(
        "--vault",
        metavar="DIR",
        help="Vault folder or name.  [default: the vault around this folder]",
        show_default=False,
    ),
]
VaultsOption = Annotated[
    list[str],
    typer.Option(
        "--vault",
        metavar="DIR",
        help="Vault folder or name (repeatable).  [default: the vault here]",
        show_default=False,
    ),
]
AllVaultsOption = Annotated[
    bool, typer.Option("--all-vaults", help="All vaults of the list (`vaultmem vault list`).")
]
FleetOption = Annotated[
    str,
    typer.Option(
        "--fleet",
        metavar="FILE",
        help="File that lists a fleet's remotes, or ray:ADDRESS; --vault selects.",
        show_default=False,
    ),
]
AgentOption = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="ID",
        help="Agent that writes.  [default: the calling agent, or you]",
        show_default=False,
    ),
]
SessionOption = Annotated[
    str,
    typer.Option(
        "--session",
        metavar="ID",
        help="Session of that agent.  [default: its current session]",
        show_default=False,
    ),
]
RefOption = Annotated[
    str,
    typer.Option(
        "--ref",
        metavar="REF",
        help="Branch to read or write.  [default: checked-out branch]",
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


def split_names(names: str) -> tuple[str, ...]:
    """Return the comma-separated names of an option."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
PortOption = Annotated[int, typer.Option("--port", metavar="N", help="Port; 0 for any free one.")]
HostOption = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Address to listen on; other machines also need --allowed-host.",
    ),
]

#: The loopback address, which other machines cannot reach.
ONLY_HERE = "127.0.0.1"

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

#: The help of options that nearly every command has; `vaultmem help environment` has more.
_SHARED_OPTIONS: tuple[Any, ...] = (
    VaultOption,
    VaultsOption,
    AgentOption,
    SessionOption,
    RefOption,
    JsonOption,
)
SHARED_HELP = {each.__metadata__[0].help for each in _SHARED_OPTIONS} | {
    "Show this message and exit."
}

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]


def read_text(words: Sequence[str]) -> str:
    """Return the text that a command received; `-` reads standard input.

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
