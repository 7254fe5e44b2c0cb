"""The command that serves a hub: hub serve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.front_door import NamesOption, ProxyOption, find_served, say_places, serving
from vaultmem.cli.options import ONLY_HERE, HostOption, PortOption
from vaultmem.cli.output import say
from vaultmem.errors import VaultError

if TYPE_CHECKING:
    from vaultmem.services.hub.folder import Hub

#: The vault that is told of where a hub has none yet.
_EXAMPLE = "team"

_FolderArgument = Annotated[
    str, typer.Argument(metavar="[DIR]", help="The hub's folder; an empty one is made a hub.")
]
_OwnerOption = Annotated[
    str, typer.Option("--owner", metavar="NAME", help="Of a new hub: its owner's name.")
]
_EmailOption = Annotated[
    str,
    typer.Option(
        "--email", metavar="ADDRESS", help="Of a new hub: by whom its owner's commits are."
    ),
]


def serve(
    folder: _FolderArgument = ".",
    port: PortOption = 8378,
    host: HostOption = ONLY_HERE,
    name: NamesOption = [],  # noqa: B006
    proxy: ProxyOption = False,
    owner: _OwnerOption = "",
    email: _EmailOption = "",
) -> None:
    """Serve a team's vaults by tokens: git, pages, API and MCP.

    An empty folder becomes a hub, and you its owner, whose token is printed once. Only this machine
    is served, without --host.

    Examples:
      vaultmem hub serve ~/hub
      vaultmem hub serve ~/hub --name hub.example.org --proxy
    """
    from vaultmem.services.hub.folder import CONFIG_NAME, make_hub, open_hub
    from vaultmem.services.hub.grants import read_grants
    from vaultmem.services.hub.repositories import list_repositories

    served = find_served("hub serve", port, host, name, proxy)
    place = Path(folder).expanduser()
    hub = open_hub(place) if (place / CONFIG_NAME).exists() else make_hub(place)
    with serving(hub, served) as address:
        if not read_grants(hub):
            token = _make_owner(hub, owner, email)
            say(f"Made a hub in {hub.folder}, and you its owner. Your token, shown only now:")
            say(f"\n  {token}\n")
        say_places(hub.folder, address, with_git=True)
        _tell_next(hub, address, next(iter(list_repositories(hub)), ""))


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
    say("and then needs two lines; git asks for the token as the password:")
    say(f"  git clone {scheme}://NAME@{place}/git/{shown}.git")
    say(f"  cd {shown} && vaultmem sync")
