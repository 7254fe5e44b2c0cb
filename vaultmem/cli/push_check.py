"""The command that git hosts run as their pre-receive hook: push-check."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vaultmem.cli.quick_typer import PlainCommand


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("push-check", cls=PlainCommand)(push_check)


def push_check(
    access: Annotated[
        str,
        typer.Option(
            "--access", metavar="FILE", help="Who may push what.  [default: access.yaml there]"
        ),
    ] = "",
) -> None:
    """Check a push as git's pre-receive hook, by an access.yaml.

    Run it in the hook `pre-receive` of a bare repository. It reads the updates that git names, and
    rejects the push with reasons and exit code 1. FILE is found from the repository's folder.

    Examples:
      vaultmem push-check --access /srv/git/access.yaml
    """
    from vaultmem.cli.pre_receive import main
    from vaultmem.environment import current_environment

    code = main(current_environment(), sys.stdin.buffer.read(), access)
    if code:
        raise typer.Exit(code)
