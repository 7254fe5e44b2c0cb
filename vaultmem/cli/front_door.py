"""What `hub serve` and `fleet serve` share: how they are reached, and what they say of it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.output import say
from vaultmem.cli.shared import needing

if TYPE_CHECKING:
    from vaultmem.hub.server import Served
    from vaultmem.services.hub.folder import Hub
    from vaultmem.services.pools.pool import Pool

NamesOption = Annotated[
    list[str],
    typer.Option(
        "--name",
        metavar="HOST",
        help="A name (HOST or HOST:PORT) by which people and agents ask (repeatable).",
    ),
]
ProxyOption = Annotated[
    bool,
    typer.Option("--proxy", help="A proxy in front has HTTPS, and says from where requests come."),
]


def find_served(command: str, port: int, host: str, names: list[str], proxy: bool) -> Served:
    """Return what the options of a command say of how it serves.

    Raises:
        VaultError: the extra `web` is not installed.
    """
    with needing("web", command):
        from vaultmem.hub.server import Served
        from vaultmem.serve.http import Place
    from vaultmem.environment import current_environment

    place = Place(port, host, tuple(each.lower() for each in names))
    return Served(place, proxy, current_environment())


@contextlib.contextmanager
def serving(
    hub: Hub,
    served: Served,
    find_pool: Callable[[], Pool] | None = None,
) -> Iterator[str]:
    """Begin to serve, give the address to what is said of it, and go on until a signal.

    Raises:
        RefusedError: as `HubServer` and its `start` do.
    """
    from vaultmem.hub.server import HubServer

    server = HubServer(hub, served)
    try:
        server.heed_signals()  # Before it says that it may be ended.
        server.start(find_pool)
        yield server.address
        sys.stdout.flush()  # It goes on for long; a pipe or a file has it now.
        server.wait()
    finally:
        server.close()


def say_places(what: object, address: str, with_git: bool = False) -> None:
    """Say what is served in this process, and where."""
    say(f"Serving {what} as process {os.getpid()}; press Ctrl-C to stop.")
    say(f"page  {address}/")
    if with_git:
        say(f"git   {address}/git/NAME.git, with a token as the password")
    say(f"API   {address}/v/NAME/api/v1, and over all vaults /api/v1")
    say(f"MCP   {address}/v/NAME/mcp, and over all vaults /mcp")
