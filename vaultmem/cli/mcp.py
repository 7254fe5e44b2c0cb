"""The command that agents start: mcp."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vaultmem.cli.opening import open_here
from vaultmem.cli.options import AgentOption, RefOption, VaultOption
from vaultmem.cli.output import warn
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
    from vaultmem.errors import VaultError

    opened = open_here(vault, agent, ref=ref)
    served = None
    if http:
        from vaultmem.mcp_server.token import read_token

        file = Path(token_file).expanduser() if token_file else opened.state_folder / "mcp.token"
        served = (port, read_token(file))
        warn(f"serving {opened.root} at http://127.0.0.1:{port}/mcp; the token is in {file}")
    from vaultmem.mcp_server.run import serve

    try:
        serve(opened.root, opened.author.agent or "mcp", opened.ref, read_only, served)
    except ModuleNotFoundError as error:
        raise VaultError(
            f"mcp: {error.name} is not installed; run `pip install 'vaultmem[mcp]'`"
        ) from None
