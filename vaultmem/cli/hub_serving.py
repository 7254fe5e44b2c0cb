"""The command that serves a hub: hub serve."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.output import say
from vaultmem.errors import VaultError

if TYPE_CHECKING:
    from vaultmem.services.hub.folder import Hub

#: The vault that is told of where a hub has none yet.
_EXAMPLE = "team"


def serve(
    folder: Annotated[
        str, typer.Argument(metavar="[DIR]", help="The hub's folder; an empty one is made a hub.")
    ] = ".",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="The port; 0 for any that is free.")
    ] = 8378,
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
    owner: Annotated[
        str, typer.Option("--owner", metavar="NAME", help="Of a new hub: its owner's name.")
    ] = "",
    email: Annotated[
        str,
        typer.Option(
            "--email", metavar="ADDRESS", help="Of a new hub: by whom its owner's commits are."
        ),
    ] = "",
) -> None:
    """Serve a team's vaults by tokens: git, pages, API and MCP.

    An empty folder becomes a hub, and you its owner, whose token is printed once. Only this machine
    is served, without --host.

    Examples:
      vaultmem hub serve ~/hub
      vaultmem hub serve ~/hub --name hub.example.org --proxy
    """
    try:
        from vaultmem.hub.server import HubServer, Served
        from vaultmem.serve.http import Place
    except ModuleNotFoundError as error:
        from vaultmem.storage.missing import tell_missing

        raise VaultError(f"hub serve: {tell_missing(error.name, 'web')}") from None
    from vaultmem.environment import current_environment
    from vaultmem.services.hub.folder import CONFIG_NAME, make_hub, open_hub
    from vaultmem.services.hub.grants import read_grants
    from vaultmem.services.hub.repositories import list_repositories

    place = Path(folder).expanduser()
    hub = open_hub(place) if (place / CONFIG_NAME).exists() else make_hub(place)
    names = tuple(each.lower() for each in name)
    served = Served(Place(port, host, names), proxy, current_environment())
    server = HubServer(hub, served)
    server.heed_signals()  # Before it says that it may be ended.
    server.start()
    try:
        if not read_grants(hub):
            token = _make_owner(hub, owner, email)
            say(f"Made a hub in {hub.folder}, and you its owner. Your token, shown only now:")
            say(f"\n  {token}\n")
        _tell_places(hub, server.address)
        _tell_next(hub, server.address, next(iter(list_repositories(hub)), ""))
        sys.stdout.flush()  # It goes on for long; a pipe or a file has it now.
        server.wait()
    finally:
        server.close()


def _tell_places(hub: Hub, address: str) -> None:
    say(f"Serving {hub.folder} as process {os.getpid()}; press Ctrl-C to stop.")
    say(f"page  {address}/")
    say(f"git   {address}/git/NAME.git, with a token as the password")
    say(f"API   {address}/v/NAME/api/v1, and over all vaults /api/v1")
    say(f"MCP   {address}/v/NAME/mcp, and over all vaults /mcp")


def _make_owner(hub: Hub, owner: str, email: str) -> str:
    """Give whoever makes a hub a token for all of it, and return that."""
    import getpass
    import time

    from vaultmem.services.hub.grants import Kind, Scope, make_grant
    from vaultmem.storage.git.runner import GitRunner

    git = GitRunner(hub.folder, hub.folder)
    known = email or git.run("config", "--global", "--get", "user.email", check=False)
    if not known:
        raise VaultError("hub serve: git does not know your address; name it with --email ADDRESS")
    called = owner or getpass.getuser()
    scopes = {Scope.OWN: ["*"]}
    return make_grant(hub, called, Kind.PERSON, scopes, time.time(), [known])[1]


def _tell_next(hub: Hub, address: str, vault: str) -> None:
    """Say what is to be done before somebody else can come."""
    where = f"--hub {hub.folder}"
    if not vault:
        say("\nNo vault is in it yet; in another terminal:")
        say(f"  vaultmem hub add {_EXAMPLE} --from VAULT {where}")
    shown = vault or _EXAMPLE
    scheme, _, place = address.partition("://")
    say("\nA teammate gets a token from you:")
    say(f"  vaultmem hub grant NAME --person --email EMAIL --write {shown} {where}")
    say("and then needs two lines:")
    say(f"  git clone {scheme}://NAME:TOKEN@{place}/git/{shown}.git")
    say(f"  cd {shown} && vaultmem sync")
