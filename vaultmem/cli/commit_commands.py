"""Commands that commit: checkpoint, promote."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.cli.branch_commands import end_with_conflicts
from vaultmem.cli.output import emit_json, print_line, print_lines, print_styled
from vaultmem.cli.shared import CommandContext, make_command, takes
from vaultmem.errors import MergeConflictError
from vaultmem.operations.note_changes import CHECKPOINT, outcome_lines
from vaultmem.operations.note_data import promoted_json
from vaultmem.operations.vault_data import untaken_json

checkpoint = make_command(CHECKPOINT, "checkpoint")


@takes("vault", "ref", "agent", "session", "as_json")
def promote(
    here: CommandContext,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="The notes, or folders of candidates.")
    ],
    source: Annotated[
        str,
        typer.Option("--from", metavar="BRANCH", help="Take these notes over from a branch first."),
    ] = "",
) -> None:
    """Make candidate notes active, and commit them.

    Nothing else is committed. A policy or skill that you promote may instruct from then on, and a
    preference goes with the packs that it concerns, until its text changes.

    Examples:
      vaultmem promote half-refunds-round-up
    """
    from vaultmem.services.lifecycle.transition import describe_untrusted, promote_notes
    from vaultmem.services.merging.take import promote_from

    if source:
        try:
            done = promote_from(here.open_synced(), source, paths)
        except MergeConflictError as error:
            end_with_conflicts(error, untaken_json if here.as_json else None)
    else:
        done = promote_notes(here.open_view(), paths)
    if here.as_json:
        emit_json(promoted_json(done))
        return
    for path, before in done.notes:
        told = (
            "" if before == "active" else f"{before} to active",
            source and f"from {source}",
            "trusted" if path in done.trusted else "",
        )
        print_styled("promoted  ", "green", f"{path}  ({', '.join(filter(None, told))})")
    for path in done.active:
        print_line(f"active already  {path}")
    if done.notes:
        print_lines(outcome_lines(done.report, None))
    if unsaid := describe_untrusted(done):
        print_line(unsaid)
