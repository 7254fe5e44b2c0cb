"""Commands that tell agents of the vault: connect, skill."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.opening import open_here
from vaultmem.cli.options import JsonOption, VaultOption
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.plain import PlainCommand

if TYPE_CHECKING:
    from vaultmem.core.clients.client import ClientName

ProjectOption = Annotated[
    bool, typer.Option("--project", help="In the settings of the project in this folder.")
]
UserOption = Annotated[
    bool, typer.Option("--user", help="In the user's own settings; this is the default.")
]

_COLOURS = {"added": "green", "changed": "green", "removed": "yellow"}


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("connect", cls=PlainCommand)(connect)
    app.command("skill", cls=PlainCommand)(skill)


def connect(
    client: Annotated[
        str,
        typer.Argument(
            metavar="[CLIENT]",
            help="claude-code, codex, cursor, vscode, gemini or claude-desktop.",
        ),
    ] = "",
    project: ProjectOption = False,
    user: UserOption = False,
    hooks: Annotated[
        bool, typer.Option("--hooks", help="Also run at its events (Claude Code).")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the vault out again.")] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Say which clients know a vault, and change nothing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    vault: VaultOption = "",
    as_json: JsonOption = False,
) -> None:
    """Write the vault into a client's own settings; everything else in them stays as it is."""
    from vaultmem.errors import RefusedError
    from vaultmem.services.connecting.connect import connect_client, disconnect_client

    if status:
        _say_connections(as_json)
        return
    if project and user:
        raise RefusedError("connect: --project and --user are two places; name one")
    name = _read_name(client)
    folder = Path.cwd() if project else Path.home()
    if remove:
        changes = disconnect_client(name, folder, project, dry_run)
    else:
        root = open_here(vault).root
        changes = connect_client(name, root, folder, project, hooks, dry_run)
    if as_json:
        emit_json({"client": name, "dry_run": dry_run, "changes": changes})
        return
    for change in changes:
        word = f"would be {change.action}" if dry_run else change.action
        say_painted(f"{word:<9}", _COLOURS.get(change.action, "dim"), f"  {change.path}")
        if change.backup:
            say(f"           as it was: {change.backup}")
    if not (remove or dry_run):
        say(f"Start {name} again; it then has the vault's tools.")


def skill(
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help="install, remove, or show its text.")
    ],
    project: ProjectOption = False,
    user: UserOption = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Write over a skill of that name.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Teach an agent when to recall, remember, promote and close, by a skill in its own folder."""
    from vaultmem.errors import RefusedError
    from vaultmem.services.connecting.skill import (
        SKILL_PATH,
        install_skill,
        read_skill,
        remove_skill,
    )

    if project and user:
        raise RefusedError("skill: --project and --user are two places; name one")
    folder = Path.cwd() if project else Path.home()
    if action == "show":
        say(read_skill().rstrip("\n"))
        return
    if action not in {"install", "remove"}:
        raise RefusedError(f'skill: "{action}" is none of install, remove, show')
    done = install_skill(folder, replace) if action == "install" else remove_skill(folder)
    if as_json:
        emit_json({"path": str(folder / SKILL_PATH), "action": done})
    else:
        say_painted(f"{done:<9}", _COLOURS.get(done, "dim"), f"  {folder / SKILL_PATH}")


def _read_name(client: str) -> ClientName:
    from vaultmem.core.clients.client import ClientName
    from vaultmem.errors import RefusedError

    try:
        return ClientName(client)
    except ValueError:
        known = ", ".join(ClientName)
        raise RefusedError(f'connect: "{client}" is no client; known are {known}') from None


def _say_connections(as_json: bool) -> None:
    from vaultmem.services.connecting.connect import list_connections

    found = list_connections(Path.home(), Path.cwd())
    if as_json:
        emit_json({"connections": found})
        return
    if not found:
        say("No client knows of a vault; `vaultmem connect CLIENT` tells one.")
    for each in found:
        colour = "yellow" if each.problem else "green"
        say_painted(f"{each.client:<14}", colour, f"  {each.root or '?'}  {each.path}")
        if each.problem:
            say(f"                {each.problem}")
