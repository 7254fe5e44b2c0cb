"""The command that is a fleet's front door: fleet serve."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from vaultmem.cli.fleet_options import STARTING_OPTIONS, Fleet
from vaultmem.cli.output import say
from vaultmem.cli.shared import give_options
from vaultmem.core.counting import count_things
from vaultmem.errors import VaultError


@give_options(Fleet, {k: each for k, each in STARTING_OPTIONS.items() if k != "as_json"})
def serve(
    fleet: Fleet,
    hub: Annotated[
        str,
        typer.Option(
            "--hub",
            metavar="DIR",
            help="The folder of a hub (`vaultmem hub init`): who may come, and the record of that.",
            show_default=False,
        ),
    ],
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="The port; 0 for any that is free.")
    ] = 8379,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="The address to listen at; where other machines reach it, --name is needed.",
        ),
    ] = "127.0.0.1",
    name: Annotated[
        list[str],
        typer.Option(
            "--name",
            metavar="HOST",
            help="A name (HOST or HOST:PORT) by which people and agents ask (repeatable).",
        ),
    ] = [],  # noqa: B006
    proxy: Annotated[
        bool,
        typer.Option(
            "--proxy", help="A proxy in front has HTTPS, and says from where requests come."
        ),
    ] = False,
) -> None:
    """Serve many vaults, each to who has a token for it.

    They get pages, API and MCP. Tokens are a hub's (`vaultmem hub grant`), over the names of these
    vaults. What is written is in its remote before anybody is told so. /metrics is for Prometheus,
    with a token for all.

    Examples:
      vaultmem fleet serve --remotes fleet.txt --hub ~/door
      vaultmem fleet serve --address auto --hub /srv/door --name example.org --proxy
    """
    try:
        from vaultmem.hub.server import HubServer, Served
        from vaultmem.serve.http import Place
    except ModuleNotFoundError as error:
        from vaultmem.storage.missing import tell_missing

        raise VaultError(f"fleet serve: {tell_missing(error.name, 'web')}") from None
    from vaultmem.environment import current_environment
    from vaultmem.services.hub.folder import open_hub
    from vaultmem.services.pools.metrics import write_metrics
    from vaultmem.services.pools.status import find_status

    place = Place(port, host, tuple(each.lower() for each in name))
    opened = open_hub(Path(hub).expanduser())
    with fleet.open() as pool:
        server = HubServer(opened, Served(place, proxy, current_environment()))
        server.heed_signals()  # Before it says that it may be ended.
        server.start(lambda: pool, lambda: write_metrics(find_status(pool)))
        vaults = count_things(len(pool.names), "vault")
        say(f"Serving {vaults} as process {os.getpid()}; press Ctrl-C to stop.")
        say(f"page  {server.address}/")
        say(f"API   {server.address}/v/NAME/api/v1, and over all vaults /api/v1")
        say(f"MCP   {server.address}/v/NAME/mcp, and over all vaults /mcp")
        sys.stdout.flush()  # It goes on for long; a pipe or a file has it now.
        server.wait()
