"""Commands about tasks: the group task."""

from __future__ import annotations

import typer

from vaultmem.cli.quick_typer import new_group
from vaultmem.cli.shared import list_operation_commands


def register(parent: typer.Typer) -> None:
    """Add the commands to the application."""
    app = new_group(
        list_operation_commands(
            add="tasks.ADD",
            update="tasks.SET",
            list="tasks.LIST",
            show="tasks.SHOW",
            history="tasks.HISTORY",
            handoff="tasks.HAND_OFF",
            expand="tasks.EXPAND",
        )
    )
    parent.add_typer(app, name="task", help="Keep tasks: what is to be done, and what is next.")
