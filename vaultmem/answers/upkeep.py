"""What looks after a vault as JSON: curate, dream, compact, dedup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.core.upkeep.proposal import Report
    from vaultmem.services.upkeep.apply import Applied
    from vaultmem.services.upkeep.compact import Compacted
    from vaultmem.services.upkeep.decide import Decided
    from vaultmem.services.upkeep.dedup import Merge
    from vaultmem.services.upkeep.dream import Dream
    from vaultmem.services.upkeep.review import Item
    from vaultmem.services.writing.commit import CommitReport


def curated_json(found: Report, done: Applied | None) -> dict[str, Any]:
    """Return what is proposed, and what was done of it where that was asked for."""
    made = {"made": found.made, "proposals": found.proposals}
    counts = {"applied": len(done.done), "already": len(done.already)} if done else {}
    return {**made, **counts, "commit": (done.report.commit or None) if done else None}


def queue_json(items: Iterable[Item], count: int) -> dict[str, Any]:
    """Return what waits for a decision, with the notes of each; `count` is of all that wait."""
    return {"waiting": count, "items": [_item_json(each) for each in items]}


def _item_json(item: Item) -> dict[str, Any]:
    from vaultmem.core.upkeep.choices import CHOICES

    proposal = item.proposal
    choices = CHOICES[proposal.action]
    return {
        "id": item.id,
        "action": proposal.action,
        "question": choices.question,
        "choices": {
            name: told for name in ("accept", "other", "reject") if (told := getattr(choices, name))
        },
        "reason": proposal.reason,
        "evidence": proposal.evidence,
        "notes": [
            {
                "path": side.path,
                "title": side.title,
                "state": side.state,
                "agent": side.agent or None,
                "session": side.session or None,
                "written": side.written or None,
                "commit": side.commit or None,
                "text": side.text,
            }
            for side in item.sides
        ],
    }


def decided_json(decided: Iterable[Decided]) -> dict[str, Any]:
    """Return what was decided, and the commit of each decision."""
    return {
        "decided": [
            {
                "id": each.proposal.id,
                "action": each.proposal.action,
                "path": each.proposal.path,
                "choice": each.choice,
                "told": each.told,
                "commit": each.report.commit or None,
            }
            for each in decided
        ]
    }


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
