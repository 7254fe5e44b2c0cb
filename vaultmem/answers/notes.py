"""Notes, what was done to them, their states among it, and commits of that, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.core.priming import PrimePlan
    from vaultmem.services.history.restore import Restored
    from vaultmem.services.history.undo import Undone
    from vaultmem.services.lifecycle.promote import Promotion
    from vaultmem.services.lifecycle.supersede import Supersession
    from vaultmem.services.lifecycle.transition import Transition
    from vaultmem.services.notes.unconfirm import Unconfirmed
    from vaultmem.services.priming.sources import Unpriming
    from vaultmem.services.writing.commit import CommitReport


def counts_json(what: str, counts: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Return by how many notes each name is borne."""
    return {what: [{"name": name, "notes": notes} for name, notes in counts]}


def edited_json(path: PurePosixPath, blob: str, **properties: Any) -> dict[str, Any]:
    """Return a note whose properties were set: its new blob id, and what they are now."""
    return {"path": str(path), "blob": blob, **properties}


def forgotten_json(
    paths: Sequence[str],
    kept: Sequence[str],
    commits: Iterable[tuple[str, str]] | None,
    *,
    is_dry: bool,
) -> dict[str, Any]:
    """Return the notes that went or would go; `commits` is None where no reason was given."""
    return {
        "would_forget" if is_dry else "forgotten": paths,
        "kept_pinned": kept,
        **({} if commits is None else {"commits": commits_json(commits)}),
    }


def unconfirmed_json(done: Unconfirmed) -> dict[str, Any]:
    """Return who no longer counts as having said a note again, and in which words they did."""
    return {
        "path": done.path,
        "who": done.confirmation.who,
        "wording": done.confirmation.wording,
        "commits": commits_json(done.report.commits),
    }


def restored_json(done: Restored) -> dict[str, Any]:
    """Return a note that is again as it was in a commit."""
    return {
        "path": done.path,
        "path_then": done.path_then or None,
        "blob": done.blob,
        "old_blob": done.old_blob or None,
        "commit": done.commit,
        "changed": done.is_changed,
        "commits": commits_json(done.commits),
        "candidates": done.candidates,
    }


def undone_json(done: Undone) -> dict[str, Any]:
    """Return a commit that was taken back, its notes, and the commit of that."""
    return {
        "undone": done.commit.commit,
        "paths": done.paths,
        "commit": done.report.commit or None,
        "candidates": done.report.candidates,
    }


def primed_json(source: str, plan: PrimePlan, *, is_dry: bool) -> dict[str, Any]:
    """Return what taking in reference material did or would do."""
    return {
        "source": source,
        "dry_run": is_dry,
        "added": plan.added,
        "changed": plan.changed,
        "removed": plan.removed,
        "unchanged": len(plan.unchanged),
        "kept": plan.kept,
    }


def unprimed_json(plan: Unpriming, *, is_dry: bool) -> dict[str, Any]:
    """Return which notes of a source went or would go, and which stay."""
    return {"would_remove" if is_dry else "removed": plan.removed, "kept": plan.kept}


def report_json(report: CommitReport) -> dict[str, Any]:
    """Return the commits that an event made."""
    return {
        "commit": report.commit or None,
        "commits": commits_json(report.commits),
        "paths": report.paths,
        "skipped": report.skipped,
    }


def commits_json(commits: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return commits that are given as id and subject."""
    return [{"commit": commit, "subject": subject} for commit, subject in commits]


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
