"""Conflicts that stand in notes, and what was decided about them, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vaultmem.answers.notes import report_json

if TYPE_CHECKING:
    from vaultmem.services.branching.conflicts import Resolved, Unsettled


def conflicts_json(found: Sequence[Unsettled], unmerged: Sequence[str]) -> dict[str, Any]:
    """Return the conflicts of notes, and the files at which git has stopped."""
    return {"conflicts": found, "unmerged": unmerged}


def resolved_json(done: Resolved) -> dict[str, Any]:
    """Return the note that was decided about, and the commit."""
    report = report_json(done.report)
    return {"resolved": done.path, "decided": done.decided, "removed": done.is_gone, **report}
