"""Syncs with a remote, done or planned, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vaultmem.answers.branches import merge_json, planned_json

if TYPE_CHECKING:
    from vaultmem.services.syncing.sync import SyncPlan, SyncReport


def sync_json(report: SyncReport, review: int, proposals: int) -> dict[str, Any]:
    """Return what a sync did, or why it did not all of it.

    `review` counts what came and is to be decided, `proposals` the proposed branches that wait.
    """
    merged = report.merged
    return {
        "outcome": report.outcome.value,
        "remote": report.remote,
        "branch": report.branch,
        "checkpoint": report.checkpoint or None,
        "fetched": report.fetched,
        "merged": None if merged is None else merge_json(merged),
        "followed": report.followed,
        "pushed": report.pushed,
        "waiting": report.waiting,
        "rescued": report.rescued or None,
        "told": report.told or None,
        "evidence": report.evidence or None,
        "conflicts": report.conflicts,
        "token_ends": report.token_ends or None,
        "review": review,
        "proposals": proposals,
        "removed": report.removed,
        "kept": report.kept,
        "left_out": dict(report.left_out),
    }


def sync_plan_json(plan: SyncPlan) -> dict[str, Any]:
    """Return what a sync would do."""
    return {
        "remote": plan.remote,
        "branch": plan.branch,
        "uncommitted": plan.uncommitted,
        "fetched": plan.fetched,
        "waiting": plan.waiting,
        "merge": None if plan.merge is None else planned_json(plan.merge),
        "told": plan.told or None,
    }
