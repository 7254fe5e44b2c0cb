"""Branches, merges of them, and conflicts that these left in notes, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vaultmem.answers.notes import report_json
from vaultmem.core.json_values import as_named

if TYPE_CHECKING:
    from vaultmem.core.merging.text import Conflict
    from vaultmem.services.branching.branches import ListedBranch, ResetReport
    from vaultmem.services.branching.conflicts import Resolved, Unsettled
    from vaultmem.services.branching.settle import MergeReport


def branches_json(found: Iterable[ListedBranch]) -> dict[str, Any]:
    """Return the branches, each compared with what is checked out."""
    rows = [{**as_named(b.branch), **as_named(b), "folder": b.branch.folder or None} for b in found]
    for row in rows:
        del row["branch"]
    return {"branches": rows}


def branch_json(name: str, commit: str, *, is_removed: bool) -> dict[str, Any]:
    """Return a branch that was made or removed, and the commit that it was at."""
    return {"branch": name, "commit": commit, "removed": is_removed}


def reset_json(done: ResetReport) -> dict[str, Any]:
    """Return a branch that was moved, and the ref that keeps what it was at."""
    return {**done._asdict(), "backup": done.backup or None}


def switched_json(name: str, commit: str, files: int) -> dict[str, Any]:
    """Return the branch that is checked out now, and how many files changed."""
    return {"branch": name, "commit": commit, "files": files}


def merge_json(done: MergeReport) -> dict[str, Any]:
    """Return what was merged into what, and what both sides had changed or made."""
    return {
        "merged": bool(done.commit),
        "commit": done.commit or None,
        **_told_json(done),
    }


def planned_json(plan: MergeReport) -> dict[str, Any]:
    """Return what a merge would do."""
    return {
        "would_merge": plan.needed and not plan.refused,
        **_told_json(plan),
        "refused": plan.refused or None,
    }


def _told_json(told: MergeReport) -> dict[str, Any]:
    return {
        "source": told.source,
        "into": told.into,
        "paths": told.paths,
        "losses": told.losses,
        "conflicts": told.conflicts,
        "twins": told.twins,
    }


def unmerged_json(conflicts: Sequence[Conflict]) -> dict[str, Any]:
    """Return why nothing was merged."""
    return {"merged": False, "conflicts": conflicts}


def untaken_json(conflicts: Sequence[Conflict]) -> dict[str, Any]:
    """Return why no note was taken over from a branch, and so none promoted."""
    return {"promoted": [], "commit": None, "conflicts": conflicts}


def conflicts_json(found: Sequence[Unsettled], unmerged: Sequence[str]) -> dict[str, Any]:
    """Return the conflicts of notes, and the files at which git has stopped."""
    return {"conflicts": found, "unmerged": unmerged}


def resolved_json(done: Resolved) -> dict[str, Any]:
    """Return the note that was decided about, and the commit."""
    report = report_json(done.report)
    return {"resolved": done.path, "decided": done.decided, "removed": done.is_gone, **report}
