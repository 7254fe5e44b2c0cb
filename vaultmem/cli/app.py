"""The `vaultmem` command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import vaultmem
from vaultmem.cli import (
    branches,
    changing,
    committing,
    finding,
    history,
    judging,
    merge_driver,
    notes,
    provenance,
    receipts,
    vaults,
)
from vaultmem.cli.options import (
    AgentOption,
    RefOption,
    SessionOption,
    VaultOption,
    remember_globals,
)
from vaultmem.cli.output import warn
from vaultmem.cli.plain import PlainGroup
from vaultmem.errors import VaultError

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
    vault: VaultOption = "",
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


_MODULES = (
    *(vaults, notes, changing, finding, committing, history, provenance),
    *(branches, judging, receipts, merge_driver),
)
for _module in _MODULES:
    _module.register(app)


_GLOBAL_OPTIONS = {"--vault", "--agent", "--session", "--ref"}


def _find_command(arguments: list[str]) -> str:
    """Return the command that the arguments name, empty if that is not plain to see."""
    rest = iter(arguments)
    for argument in rest:
        if argument in _GLOBAL_OPTIONS:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
        elif argument.partition("=")[0] not in _GLOBAL_OPTIONS:
            return ""
    return ""


def _keep_only(name: str) -> None:
    """Build one command alone: Typer takes two milliseconds for each."""
    named = [command for command in app.registered_commands if command.name == name]
    if named and "_VAULTMEM_COMPLETE" not in os.environ:
        app.registered_commands = named


def main() -> None:
    """Run a command; an expected failure is one line on standard error and an exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # Starting threads takes numpy 50 ms.
    _keep_only(_find_command(sys.argv[1:]))
    try:
        app()
    except VaultError as error:
        warn(f"error: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
