"""How conflicts of a merge are shown: each place, both sides, and who wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from vaultmem.cli.output import emit_json, say, say_painted, warn
from vaultmem.core.plain_text import one_line

if TYPE_CHECKING:
    from vaultmem.errors import MergeConflictError
    from vaultmem.services.branching.clash import Conflict


def end_with_conflicts(error: MergeConflictError, content: dict[str, Any] | None) -> NoReturn:
    """Show what is in conflict and end with its exit code; as JSON with `content` if that is given.

    Raises:
        typer.Exit: always.
    """
    if content is None:
        _say_conflicts(error.conflicts)
    else:
        emit_json({**content, "conflicts": error.conflicts})
    warn(f"error: {error}")
    raise typer.Exit(error.exit_code) from None


def _say_conflicts(conflicts: Sequence[Conflict]) -> None:
    path = ""
    for each in conflicts:
        if each.path != path:
            say_painted(each.path, "yellow")
            path = each.path
        say(f"  {one_line(each.what)}")
        for side, author, text in (
            ("ours", each.our_author, each.ours),
            ("theirs", each.their_author, each.theirs),
        ):
            who = f" ({one_line(author)})" if author else ""
            shown = one_line(text)[:200] if text else "(nothing)"
            say(f"    {side}{who}: {shown}")
