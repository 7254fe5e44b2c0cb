"""The `vaultmem` command: which module each command lives in, and how one of them is run."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

import vaultmem
from vaultmem.cli.arguments import find_command
from vaultmem.cli.opening import end_process, remember_globals, run
from vaultmem.cli.options import AgentOption, RefOption, SessionOption, VaultsOption
from vaultmem.cli.quick_typer import PlainGroup

#: Module of this package: its commands, or its group of commands.
HOMES: dict[str, tuple[str, ...]] = {
    "vaults": ("init", "index", "trust"),
    "notes": ("remember", "get", "list", "edit"),
    "changing": ("forget", "pin", "unpin", "tag"),
    "finding": ("recall", "pack"),
    "evaluating": ("eval",),
    "committing": ("checkpoint", "promote"),
    "history": ("log", "show", "diff", "history"),
    "provenance": ("blame", "why", "restore", "undo"),
    "similarity": ("similar", "dedup"),
    "lifecycle": ("state", "quarantine", "supersede"),
    "upkeep": ("curate", "dream", "compact"),
    "review": ("review",),
    "links": ("links", "backlinks", "orphans", "mv"),
    "priming": ("prime", "primed", "unprime"),
    "economics": ("pinned", "recent", "stats"),
    "embedding": ("embed",),
    "sessions": ("session",),
    "tasks": ("task", "handoff", "family"),
    "syncing": ("sync",),
    "branches": ("branch", "branches", "switch", "merge"),
    "conflicts": ("conflicts", "resolve"),
    "judging": ("assert", "bisect", "receipts", "replay"),
    "health": ("context", "status", "doctor"),
    "watching": ("watch",),
    "serving": ("serve",),
    "vault_list": ("vaults",),
    "exporting": ("export",),
    "agents": ("connect", "skill", "hook", "mcp"),
    "importing": ("import",),
    "merge_driver": ("merge-driver",),
}


def find_homes(name: str) -> tuple[str, ...]:
    """Return the module of a command; of a name that is none, all of them."""
    return tuple(home for home, commands in HOMES.items() if name in commands) or tuple(HOMES)


app = typer.Typer(
    name="vaultmem",
    cls=PlainGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vaultmem {vaultmem.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    vault: VaultsOption = [],  # noqa: B006
    agent: AgentOption = "",
    session: SessionOption = "",
    ref: RefOption = "",
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Keep an agent's long-term memory as a folder of markdown in git.

    Files are the truth, git is the audit log, everything else is a cache.
    """
    remember_globals(vault, agent, session, ref)


def build_commands() -> Any:
    """Return all commands as one that can be run many times."""
    return typer.main.get_command(_register(tuple(HOMES)))


def _register(homes: tuple[str, ...]) -> typer.Typer:
    """Give the application the commands of these modules, and no others."""
    app.registered_commands, app.registered_groups = [], []
    for home in homes:
        import_module(f"vaultmem.cli.{home}").register(app)
    return app


def _keep_only(name: str) -> None:
    """Build one command alone: importing and building all of them takes longer than most run."""
    if "_VAULTMEM_COMPLETE" in os.environ:
        name = ""
    _register(find_homes(name))
    named = [command for command in app.registered_commands if command.name == name]
    groups = [group for group in app.registered_groups if group.name == name]
    if not (named or groups):
        return
    app.registered_commands, app.registered_groups = named, groups
    for group in filter(None, (each.typer_instance for each in groups)):
        inside = sys.argv[sys.argv.index(name) + 1 :][:1]
        chosen = [each for each in group.registered_commands if each.name in inside]
        group.registered_commands = chosen or group.registered_commands


def main() -> NoReturn:
    """Run the command that the process was started with, and end the process."""
    _keep_only(find_command(sys.argv[1:]))
    end_process(run(app))
