"""The `vaultmem` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

import vaultmem
from vaultmem.cli import (
    branches,
    changing,
    committing,
    finding,
    health,
    history,
    judging,
    merge_driver,
    notes,
    provenance,
    receipts,
    vaults,
    watching,
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
from vaultmem.cli.start import find_command
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
    *(branches, judging, receipts, health, watching, merge_driver),
)
for _module in _MODULES:
    _module.register(app)
_ALL = list(app.registered_commands)


def build_commands() -> Any:
    """Return all commands as one that can be run many times."""
    app.registered_commands = list(_ALL)
    return typer.main.get_command(app)


def _keep_only(name: str) -> None:
    """Build one command alone: Typer takes two milliseconds for each."""
    named = [command for command in app.registered_commands if command.name == name]
    if named and "_VAULTMEM_COMPLETE" not in os.environ:
        app.registered_commands = named


def main() -> None:
    """Run the command that the process was started with, and end the process."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # Starting threads takes numpy 50 ms.
    _keep_only(find_command(sys.argv[1:]))
    sys.exit(run(app))


def run(command: Callable[[], object]) -> int:
    """Run a command and return its exit code; an expected failure is a line on standard error."""
    try:
        command()
    except VaultError as error:
        warn(f"error: {error}")
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
