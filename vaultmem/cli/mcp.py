"""The command that agents start: mcp."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.cli.options import AgentOption, RefOption, VaultOption
from vaultmem.cli.plain import PlainCommand


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("mcp", cls=PlainCommand)(mcp)


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve on 127.0.0.1 instead of standard input.")
    ] = False,
    port: Annotated[int, typer.Option("--port", metavar="N", help="The port for --http.")] = 8377,
    token_file: Annotated[
        str,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="The file with the token for --http; else one in the state folder, made if new.",
        ),
    ] = "",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no tool that writes.")
    ] = False,
    vault: VaultOption = "",
    agent: AgentOption = "",
    ref: RefOption = "",
) -> None:
    """Serve the vault to agents by the Model Context Protocol (needs vaultmem[mcp])."""
    from vaultmem.cli.serving import serve_mcp

    serve_mcp(vault, agent, ref, read_only, port if http else 0, token_file)
