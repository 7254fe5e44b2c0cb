"""The command group `projects`."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.quick_typer import PlainGroup, add_commands
from vaultmem.cli.shared import answer, make_command, takes
from vaultmem.operations.declaration import NoArguments
from vaultmem.operations.projects import INFER, LIST, MOVE, RENAME


def register(parent: typer.Typer) -> None:
    """Add the group to the application."""
    app = typer.Typer(cls=PlainGroup, invoke_without_command=True, rich_markup_mode=None)
    app.callback()(list_all)
    add_commands(app, make_command(RENAME, "rename"), make_command(MOVE, "move"))
    parent.add_typer(app, name="projects")


@takes("vault", "ref", "agent", "as_json")
def list_all(
    command_context: CommandContext,
    context: typer.Context,
    infer: Annotated[
        bool, typer.Option("--infer", help="Propose projects for notes without one.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="With --infer: write the proposals.")
    ] = False,
) -> None:
    """List the projects, each with its notes and sessions.

    --infer proposes a project for each note whose session knows it; --apply writes these in one
    commit.

    Examples:
      vaultmem projects
      vaultmem projects --infer --apply
    """
    if context.invoked_subcommand:
        return
    if apply and not infer:
        raise typer.BadParameter("--apply writes what --infer proposes; give both")
    if infer:
        answer(INFER._replace(writes=apply), command_context, INFER.request(apply))
    else:
        answer(LIST, command_context, NoArguments())
