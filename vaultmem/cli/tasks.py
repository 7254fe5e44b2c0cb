"""Commands about tasks: the group task."""

from __future__ import annotations

import typer

from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.cli.shared import make_command
from vaultmem.operations.tasks import ADD, EXPAND, HAND_OFF, HISTORY, LIST, SET, SHOW


def register(parent: typer.Typer) -> None:
    """Add the commands to the application."""
    app = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
    add_commands(
        app,
        make_command(ADD, "add"),
        make_command(SET, "set_"),
        make_command(LIST, "list_"),
        make_command(SHOW, "show"),
        make_command(HISTORY, "history"),
        make_command(HAND_OFF, "handoff"),
        make_command(EXPAND, "expand"),
    )
    parent.add_typer(app, name="task", help="Keep tasks: what is to be done, and what is next.")
