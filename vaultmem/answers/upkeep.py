"""What looks after a vault as JSON: curate, dream, compact, dedup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.core.upkeep.proposal import Report
    from vaultmem.services.upkeep.apply import Applied
    from vaultmem.services.upkeep.compact import Compacted
    from vaultmem.services.upkeep.dedup import Merge
    from vaultmem.services.upkeep.dream import Dream
    from vaultmem.services.writing.commit import CommitReport


def curated_json(found: Report, done: Applied | None) -> dict[str, Any]:
    """Return what is proposed, and what was done of it where that was asked for."""
    made = {"made": found.made, "proposals": found.proposals}
    counts = {"applied": len(done.done), "already": len(done.already)} if done else {}
    return {**made, **counts, "commit": (done.report.commit or None) if done else None}


def dream_json(done: Dream) -> dict[str, Any]:
    """Return what was weighed, what was promoted, and what may leave MEMORY.md."""
    return {
        "candidates": done.candidates,
        "promoted": [each.path for each in done.promoted],
        "left": [each.path for each in done.left],
        "moves": done.moves,
        "commit": done.report.commit or None,
    }


def compacted_json(done: Compacted) -> dict[str, Any]:
    """Return the steps that are due or done, what stays and why, and the commits."""
    steps = [
        {
            "path": each.path,
            "step": each.step,
            "from": each.before,
            "idle_days": each.idle_days,
            "tokens": each.tokens,
            "tokens_left": each.tokens_left,
        }
        for each in done.steps
    ]
    commits = [each.commit for each in done.reports if each.commit]
    return {"steps": steps, "exempt": done.exempt, "commits": commits}


def merged_json(merges: Sequence[Merge], report: CommitReport | None) -> dict[str, Any]:
    """Return the notes that were merged into others, or with no report would be."""
    shown = [{"keep": m.keep, "merge": m.drop} for m in merges]
    name = "merged" if report else "would_merge"
    return {name: shown, "commit": (report.commit or None) if report else None}
