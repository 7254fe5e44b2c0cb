"""Notes that went from state to state, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vaultmem.answers.notes import report_json

if TYPE_CHECKING:
    from vaultmem.services.lifecycle.promote import Promotion
    from vaultmem.services.lifecycle.supersede import Supersession
    from vaultmem.services.lifecycle.transition import Transition


def promoted_json(done: Promotion) -> dict[str, Any]:
    """Return which notes are active now, which of them are on record, and the commits."""
    promoted = [{"path": path, "from": before, "to": "active"} for path, before in done.notes]
    return {"promoted": promoted, "trusted": done.trusted, **report_json(done.report)}


def moved_json(done: Transition) -> dict[str, Any]:
    """Return which notes went to another state, and the commit."""
    moves = [{"path": m.path, "from": m.before, "to": m.after} for m in done.moves]
    return {"moved": moves, "commit": done.report.commit or None}


def superseded_json(done: Supersession) -> dict[str, Any]:
    """Return which note no longer holds, which holds instead, and the commit."""
    return {
        "old": done.old,
        "new": done.new,
        "from": done.before,
        "unsaid": done.unsaid,
        "commit": done.report.commit or None,
    }
