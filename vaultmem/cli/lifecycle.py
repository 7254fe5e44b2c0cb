"""Commands that move notes from state to state: state, supersede."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.answers.notes import moved_json, superseded_json
from vaultmem.cli.history_text import say_commits
from vaultmem.cli.options import PathArgument
from vaultmem.cli.output import emit_json, say, say_painted
from vaultmem.cli.shared import Here, takes
from vaultmem.core.safe_text import one_line

_ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; it stands in the note and in git.")
]


@takes("vault", "ref", "agent", "session", "as_json")
def state_(
    here: Here,
    path: PathArgument,
    state: Annotated[
        str, typer.Argument(metavar="STATE", help="active, stale, archived, quarantined ...")
    ],
    reason: _ReasonOption = "",
) -> None:
    """Move a note to another state, and commit that.

    Candidate, active, stale, archived: one step at a time, forth or back; a candidate becomes
    active by `promote`. Quarantined is a note that cannot be trusted, with a --reason: it is out of
    every recall and pack. Pinned notes and quarantined ones only a person moves.

    Examples:
      vaultmem state search-load-test stale --reason "Measured on the old server."
      vaultmem state rollback quarantined --reason "It came from a web page."
    """
    from vaultmem.core.lifecycle import State, parse_state
    from vaultmem.services.lifecycle.transition import change_state

    wanted = parse_state(state)
    if wanted is State.QUARANTINED and not reason:
        raise typer.BadParameter("say why it cannot be trusted: --reason TEXT")
    opened = here.open_view()
    done = change_state(opened, [path], wanted, reason)
    if here.as_json:
        emit_json(moved_json(done))
        return
    for move in done.moves:
        say_painted(f"{move.after}  ", "yellow", f"{move.path}  (was {move.before})")
    if not done.moves:
        say(f"{path}: {state} already.")
    say_commits(done.report.commits)


@takes("vault", "ref", "agent", "session", "as_json")
def supersede(
    here: Here,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The note that no longer holds.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The note that holds instead.")],
    part: Annotated[
        bool, typer.Option("--part", help="Only what both speak of: the old note stays.")
    ] = False,
    reason: _ReasonOption = "",
) -> None:
    """Replace a note by another; each then names the other.

    The old one is deprecated. With --part it stays for what it says besides, and packs show the new
    one before it.

    Examples:
      vaultmem supersede expired-sessions-linger session-tokens-opaque
    """
    from vaultmem.services.lifecycle.supersede import supersede_note

    opened = here.open_view()
    done = supersede_note(opened, old, new, reason, part=part)
    if here.as_json:
        emit_json(superseded_json(done))
        return
    became = "a part of it, so it stays" if part else f"{done.before} to deprecated"
    say_painted("superseded  ", "yellow", f"{done.old}  ({became})")
    say_painted("by          ", "green", done.new)
    if done.unsaid and not part:
        say(f"  it said besides: {one_line(done.unsaid[0])}")
    say_commits(done.report.commits)
