"""Commands that make and look after a team's hub: init, add, remove, check."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from vaultmem.answers.hub import hub_json, removed_json, repository_json
from vaultmem.cli.health import show_checks
from vaultmem.cli.hub_options import HubOption, find_hub, record_here
from vaultmem.cli.hub_people import grant, grants, log, revoke
from vaultmem.cli.hub_serving import serve
from vaultmem.cli.options import JsonOption
from vaultmem.cli.output import emit_json, say_painted
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.core.counting import count_things

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The vault's name in the hub.")]


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    app.callback()(_hub)
    add_commands(app, serve, init, add, remove, grant, grants, revoke, log, check)
    parent.add_typer(app, name="hub")


def _hub() -> None:
    """Share vaults in a team: a place to push to, and who may.

    A hub is one folder of bare git repositories. Each push is checked at its door: whose commits it
    brings, which folders they change, credentials, names, sizes; nothing is ever forced.

    Examples:
      vaultmem hub serve ~/hub
    """


def init(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The hub's folder; it is made.")],
    as_json: JsonOption = False,
) -> None:
    """Make a hub of an empty folder.

    Examples:
      vaultmem hub init /srv/hub
    """
    from vaultmem.services.hub.folder import make_hub

    hub = make_hub(Path(folder).expanduser())
    if as_json:
        emit_json(hub_json(hub))
        return
    say_painted("made    ", "green", f"{hub.folder}; its hub.yaml says what it takes")
    say_painted("next    ", "dim", "vaultmem hub add NAME --from VAULT")


def add(
    name: _Name,
    source: Annotated[
        str,
        typer.Option("--from", metavar="VAULT", help="A vault's folder, or an address."),
    ] = "",
    branch: Annotated[
        str, typer.Option("--branch", metavar="BRANCH", help="Its own branch; else that it is on.")
    ] = "",
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Give the hub a vault, with all of its history; or a new one.

    It is a copy: the vault itself is not changed. What is not committed there is not copied. A new
    one has what `vaultmem init` lays down, so people and agents can write at once.

    Examples:
      vaultmem hub add payments --from ~/vaults/payments
    """
    from vaultmem.environment import current_environment
    from vaultmem.services.hub.repositories import describe_repository, make_repository

    environment = dict(current_environment())
    near = Path(source).expanduser()
    given = str(near.absolute()) if source and near.exists() else source
    opened = find_hub(hub)
    folder = make_repository(opened, name, environment, given, branch)
    record_here(opened, "add", [name], {"from": given})
    on, commits = describe_repository(folder, environment)
    if as_json:
        emit_json(repository_json(name, folder, on, commits))
        return
    say_painted("added   ", "green", f"{name}, {count_things(commits, 'commit')} on {on}")
    say_painted("at      ", "dim", str(folder))
    say_painted("next    ", "dim", f"vaultmem hub grant WHO --person --email EMAIL --own {name}")


def remove(name: _Name, hub: HubOption = "", as_json: JsonOption = False) -> None:
    """Take a vault out of the hub; its repository is kept aside.

    Examples:
      vaultmem hub remove payments
    """
    from vaultmem.services.hub.repositories import remove_repository

    opened = find_hub(hub)
    kept = remove_repository(opened, name, time.time())
    record_here(opened, "remove", [name], {"kept": kept.name})
    if as_json:
        emit_json(removed_json(name, kept))
        return
    say_painted("removed ", "green", f"{name}; nobody can push to it or read it here")
    say_painted("kept    ", "dim", str(kept))


def check(
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what can be mended without losing anything.")
    ] = False,
    hub: HubOption = "",
    as_json: JsonOption = False,
) -> None:
    """Check the hub's folder, its door, its grants, and each repository.

    The exit code is 1 if there is a problem.

    Examples:
      vaultmem hub check
    """
    from vaultmem.environment import current_environment
    from vaultmem.services.hub.checking import examine_hub

    opened = find_hub(hub, changes=False)
    checks = examine_hub(opened, dict(current_environment()), time.time(), fix)
    show_checks(checks, as_json)
