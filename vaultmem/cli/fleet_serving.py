"""The command that is a fleet's front door: fleet serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vaultmem.cli.fleet_options import STARTING_OPTIONS, Fleet
from vaultmem.cli.front_door import NamesOption, ProxyOption, find_served, say_places, serving
from vaultmem.cli.options import ONLY_HERE, HostOption, PortOption
from vaultmem.cli.shared import give_options
from vaultmem.core.counting import count_things


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
    port: PortOption = 8379,
    host: HostOption = ONLY_HERE,
    name: NamesOption = [],  # noqa: B006
    proxy: ProxyOption = False,
) -> None:
    """Serve many vaults, each to who has a token for it.

    They get pages, API and MCP. Tokens are a hub's (`vaultmem hub grant`), over the names of these
    vaults. What is written is in its remote before anybody is told so. /metrics is for Prometheus,
    with a token for all.

    Examples:
      vaultmem fleet serve --remotes fleet.txt --hub ~/door
      vaultmem fleet serve --address auto --hub /srv/door --name example.org --proxy
    """
    from vaultmem.services.hub.folder import open_hub
    from vaultmem.services.pools.metrics import write_metrics
    from vaultmem.services.pools.status import find_status

    served = find_served("fleet serve", port, host, name, proxy)
    opened = open_hub(Path(hub).expanduser())
    with fleet.open() as pool:
        serves = serving(opened, served, lambda: pool, lambda: write_metrics(find_status(pool)))
        with serves as address:
            say_places(count_things(len(pool.names), "vault"), address)
