"""Commands about links between notes: links, mv."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.cli.options import DryRunOption
from vaultmem.cli.shared import Here, answer, offers, takes
from vaultmem.operations.links import (
    BACKLINKS,
    BROKEN,
    LINKS,
    MV,
    ORPHANS,
    REPAIR,
    LinkedNote,
    RenameRequest,
    RepairRequest,
)
from vaultmem.operations.operation import NoArguments


@takes("vault", "ref", "at", "agent", "as_json")
def links(
    here: Here,
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="The note; else the broken links of all notes.")
    ] = "",
    to: Annotated[bool, typer.Option("--to", help="The links of other notes to it.")] = False,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="The notes that no other note links to.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Change the broken links to files that were moved since."),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """List what a note links to, or what links to it.

    What leads nowhere is marked. Pinned notes and primed reference material are no orphans.
    --repair changes broken links whose file has another path now, in one commit.

    Examples:
      vaultmem links refund-rules
      vaultmem links --to refund-rules
      vaultmem links --orphans
      vaultmem links --repair --dry-run
    """
    if (to and not path) or (orphans and (path or to)):
        raise typer.BadParameter("give PATH, --to PATH, or --orphans")
    if repair and (path or to or orphans or here.at):
        raise typer.BadParameter("--repair is about all notes as they are; give --dry-run at most")
    if repair:
        answer(REPAIR._replace(writes=not dry_run), here, RepairRequest(dry_run))
    elif path:
        answer(BACKLINKS if to else LINKS, here, LinkedNote(path))
    else:
        answer(ORPHANS if orphans else BROKEN, here, NoArguments())


@offers(MV)
@takes("vault", "ref", "agent", "as_json")
def mv(here: Here, asked: RenameRequest) -> None:
    """Print where a note is now."""
    answer(MV, here, asked)
