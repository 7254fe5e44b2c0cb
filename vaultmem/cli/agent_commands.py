"""Commands that agents start, or that set them up: connect, skill, hook, mcp."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.options import JsonOption
from vaultmem.cli.output import emit_json, print_line, print_styled, warn
from vaultmem.cli.shared import needing, takes
from vaultmem.cli.vault_list import register_here
from vaultmem.core.clients.agents import UNNAMED
from vaultmem.operations.vault_data import connected_json, connections_json, skill_json

if TYPE_CHECKING:
    from vaultmem.services.clients.connect import ShownConnection

ProjectOption = Annotated[
    bool, typer.Option("--project", help="In the settings of the project in this folder.")
]
UserOption = Annotated[
    bool, typer.Option("--user", help="In the user's own settings; this is the default.")
]

_COLOURS = {"added": "green", "changed": "green", "removed": "yellow"}


@takes("vault", "as_json")
def connect(
    context: CommandContext,
    client: Annotated[
        str,
        typer.Argument(
            metavar="[CLIENT]",
            help="claude-code, codex, cursor and others; --status names them.",
        ),
    ] = "",
    project: ProjectOption = False,
    user: UserOption = False,
    hooks: Annotated[
        bool, typer.Option("--hooks", help="Also add vaultmem to the client's hooks.")
    ] = False,
    auto_memory: Annotated[
        bool,
        typer.Option("--auto-memory", help="Make a folder of the vault the client's own memory."),
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the vault from the settings.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="List the clients, and which use a vault.")
    ] = False,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the entry, to add it by hand.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
) -> None:
    """Let a client such as Claude Code use the vault.

    The vault is written into the client's own settings; everything else in them stays as it is.

    Examples:
      vaultmem connect claude-code --hooks
      vaultmem connect --status
    """
    from vaultmem.core.clients.agent_client import find_client
    from vaultmem.environment import current_environment
    from vaultmem.errors import RefusedError
    from vaultmem.services.clients.connect import (
        SettingsScope,
        choose_memory_place,
        connect_client,
        describe_memory,
        disconnect_client,
        find_top,
        show_entry,
    )

    if status:
        _print_connections(context.as_json)
        return
    if project and user:
        raise RefusedError("connect: --project and --user are two places; name one")
    place = SettingsScope(Path.cwd() if project else Path.home(), project, current_environment())
    if print_:
        find_client(client)
        _print_entry(show_entry(client, context.open().root, place, hooks), context.as_json)
        return
    memory = None
    if remove:
        top = None if project else find_top(Path.cwd())
        changes = disconnect_client(
            client, place, dry_run, SettingsScope(top, True) if top else None
        )
    else:
        agent_client = find_client(client)  # Reports a wrong name before a missing vault.
        vault = context.open()
        if auto_memory:
            memory = choose_memory_place(vault, place, is_user=user)
        changes = connect_client(client, vault.root, place, hooks, dry_run, memory)
        if not dry_run:
            register_here(vault)
    if context.as_json:
        emit_json(connected_json(client, changes, is_dry=dry_run))
        return
    for change in changes:
        word = f"would be {change.action}" if dry_run else change.action
        print_styled(f"{word:<9}", _COLOURS.get(change.action, "dim"), f"  {change.path}")
        for copy in change.dropped:
            print_line(f"           {'would be ' if dry_run else ''}removed, an old copy: {copy}")
    if not (remove or dry_run):
        print_line(f"Start {client} again; it then has the vault's tools.")
        if hooks and agent_client.hooks and agent_client.hooks.note:
            print_line(agent_client.hooks.note)
        for line in describe_memory(agent_client, vault.root, memory):
            print_line(line)


def skill(
    action: Annotated[
        str, typer.Argument(metavar="ACTION", help="install, remove, or show its text.")
    ],
    project: ProjectOption = False,
    user: UserOption = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a skill with the same name.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Install a skill: when to recall, remember and promote.

    The skill is a file in the agent's own folder.

    Examples:
      vaultmem skill install
      vaultmem skill show
    """
    from vaultmem.environment import current_environment
    from vaultmem.errors import RefusedError
    from vaultmem.services.clients.connect import (
        SKILL_PATH,
        install_skill,
        read_skill,
        remove_skill,
    )

    if project and user:
        raise RefusedError("skill: --project and --user are two places; name one")
    folder = (Path.cwd() if project else Path.home()) / ".claude"
    if not project and (config_folder := current_environment().get("CLAUDE_CONFIG_DIR")):
        folder = Path(config_folder)
    if action == "show":
        print_line(read_skill().rstrip("\n"))
        return
    if action not in {"install", "remove"}:
        raise RefusedError(f'skill: "{action}" is not one of install, remove, show')
    result = install_skill(folder, replace) if action == "install" else remove_skill(folder)
    if as_json:
        emit_json(skill_json(folder / SKILL_PATH, result))
    else:
        print_styled(f"{result:<9}", _COLOURS.get(result, "dim"), f"  {folder / SKILL_PATH}")


def _print_entry(entries: list[ShownConnection], as_json: bool) -> None:
    """Print a settings entry to standard output, and its file to standard error."""
    if as_json:
        emit_json({"shown": entries})
        return
    for each in entries:
        warn(f"this goes into {each.place}")
        print_line(each.text.rstrip("\n"))


def _print_connections(as_json: bool) -> None:
    from vaultmem.core.clients.agent_client import CLIENTS
    from vaultmem.environment import current_environment
    from vaultmem.services.clients.connect import SettingsScope, list_connections, list_installed

    user = SettingsScope(Path.home(), environment=current_environment())
    connections = list_connections(user, SettingsScope(Path.cwd(), is_project=True))
    clients = {each.client for each in connections}
    installed = [name for name in list_installed(user) if name not in clients]
    if as_json:
        emit_json(connections_json(connections, installed))
        return
    for each in connections:
        colour = "yellow" if each.problem else "green"
        print_styled(f"{each.client:<14}", colour, f"  {each.root or '?'}  {each.path}")
        if each.problem:
            print_line(f"                {each.problem}")
    for name in installed:
        print_styled(f"{name:<14}", "dim", f"  not connected; `vaultmem connect {name}` does that")
    rest = ", ".join(name for name in CLIENTS if name not in {*clients, *installed})
    print_line(f"Not found here: {rest}.")


@takes("vault", "agent")
def hook(
    context: CommandContext,
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT",
            help="session-start, prompt, stop, pre-compact, session-end, before-tool, "
            "tool-failure, subagent-start or post-compact.",
        ),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORM",
            help="claude, copilot, cursor, text or json.  [default: the client's]",
        ),
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Run in this process, not in the background.")
    ] = False,
) -> None:
    """Answer an agent's event; agents run this themselves.

    The event is read as JSON from standard input. If anything fails, nothing is printed;
    `vaultmem doctor` has the reason.

    Examples:
      vaultmem hook session-start --format text
    """
    from vaultmem.cli.hook_command import answer_hook

    answer_hook(event, form, wait, context.vault, context.agent)


@takes("vault", "ref", "agent")
def mcp(
    context: CommandContext,
    alone: Annotated[
        bool, typer.Option("--in-process", help="Serve in this process; use no resident process.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no tool that writes.")
    ] = False,
) -> None:
    """Serve the vault to an agent over MCP.

    It needs the extra `mcp`. The vault's resident process answers for all agents; it is started if
    none runs.

    Examples:
      vaultmem mcp --agent claude-code
    """
    vault = context.open()
    name = vault.author.agent
    if name in {"", UNNAMED}:
        name = vault.config.agent or "mcp"
    if (
        not alone and not vault.store.state_place.lack
    ):  # Other processes would not find the fallback folder.
        from vaultmem.serve.relay import relay

        code = relay(str(vault.root), name, vault.author.session, vault.ref, read_only)
        if code is not None:
            raise typer.Exit(code)
    from vaultmem.workers import Caller

    caller = Caller(
        name,
        ref=vault.ref,
        environment=vault.environment,
        folder=vault.here,
        may_write=not read_only,
        asks_others=True,
    )
    with needing("mcp", "mcp"):
        from vaultmem.mcp_server.run import serve_alone

        serve_alone(vault.root, caller)
