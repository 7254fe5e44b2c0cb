"""JSON data of commands that are not operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.core.text.json_values import pick
from vaultmem.operations.checks import problems_data
from vaultmem.operations.note_data import commits_json

if TYPE_CHECKING:
    from vaultmem.core.merging.text import Conflict
    from vaultmem.core.reference import PrimePlan
    from vaultmem.core.search.evaluation import Figure
    from vaultmem.services.clients.connect import Connection, SettingsChange
    from vaultmem.services.exchange.import_reference import RemovalPlan
    from vaultmem.services.exchange.run_import import ImportReport
    from vaultmem.services.fleet.clone import VaultStats
    from vaultmem.services.fleet.jobs import (
        DifferingStatements,
        FleetComparison,
        JobResults,
        Mentions,
    )
    from vaultmem.services.hub.grants import Grant
    from vaultmem.services.memory.create_vault import CreateResult, InitPlan
    from vaultmem.services.memory.new_note import UnconfirmResult
    from vaultmem.services.packs.evaluate import Evaluation
    from vaultmem.services.packs.question_file import AddedQuestion
    from vaultmem.services.views.update_index import IndexReport
    from vaultmem.services.watching.lease import WatcherInfo
    from vaultmem.services.watching.watch import WatchEvent
    from vaultmem.vault import Vault


def init_json(
    plan: InitPlan, created: CreateResult | None = None, name: str = ""
) -> dict[str, Any]:
    """Return the plan of an `init` or, with `created`, the resulting vault."""
    report = created and created.report
    return {
        "vault": plan.root,
        "is_vault": plan.is_vault or created is not None,
        "repository": plan.repository,
        "new_repository": created.new_repository if created else plan.repository is None,
        "added": created.added if created else plan.added,
        "files": len(plan.files),
        "bytes": plan.size,
        "private": plan.private,
        "credentials": plan.credentials,
        "kept_out": created.kept_out if created else plan.kept_out,
        "released": created.released if created else (),
        "listed_as": name or None,
        "omitted": plan.omitted_counts,
        "excluded": created.excluded if created else (),
        "configured": created.configured if created else (),
        "commit": (report and report.commit) or None,
        "person_problem": (created and created.person_problem) or None,
        "notes": created.vault.view.totals()[0] if created else None,
        "problems": problems_data(created.vault.manifest.problems() if created else ()),
    }


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the figures of an evaluation, and the result of each question."""
    return {
        **pick(evaluation.options, "depth budgets"),
        "omitted": evaluation.omitted_note or None,
        "runs": [
            {
                **pick(run, "at? commit? settings lacks?=problem_summary"),
                **_name_figures(run.figures),
            }
            for run in evaluation.runs
        ],
        "difference": _name_figures(evaluation.difference) if evaluation.difference else None,
        "questions": [
            {
                **pick(question, "line question=text at? notes"),
                "says": question.texts,
                "answers": [run.judged[number] for run in evaluation.runs],
            }
            for number, question in enumerate(evaluation.questions)
        ],
    }


def _name_figures(figures: Sequence[Figure]) -> dict[str, Any]:
    recall, ndcg, *packs = figures
    return {"recall": recall, "ndcg": ndcg, "packs": packs}


def granted_json(
    grant: Grant, token: str, others: Iterable[Grant] = (), replaced: Grant | None = None
) -> dict[str, Any]:
    """Return a new grant with its token, other grants of its name, and the replaced one."""
    return {
        **_grant_json(grant),
        "token": token,
        "others": [each.id for each in others],
        "replaces": _grant_json(replaced) if replaced else None,
    }


def grants_json(grants: Iterable[Grant], now: float) -> dict[str, Any]:
    """Return all grants; `counts` is whether the token is still valid."""
    return {"grants": [{**_grant_json(each), "counts": each.is_alive(now)} for each in grants]}


def _grant_json(grant: Grant) -> dict[str, Any]:
    return {
        **pick(grant, "id name kind=kind.value emails agents created"),
        **pick(grant, "used? expires? revoked? replaced_by?"),
        "scopes": {scope.value: each for scope, each in grant.scopes.items()},
    }


def fleet_stats_json(stats: Mapping[str, VaultStats], missing: Mapping[str, str]) -> dict[str, Any]:
    """Return the counts of each vault, and why others are missing."""
    vaults = [{"vault": name, **each._asdict()} for name, each in stats.items()]
    return {"vaults": vaults, "missing": missing}


def fleet_judged_json(results: JobResults) -> dict[str, Any]:
    """Return whether each vault's pack is as expected, with the reasons if not."""
    vaults = [
        {"vault": name, "as_expected": not reasons, "reasons": reasons}
        for name, reasons in results.items()
    ]
    is_good = all(each["as_expected"] for each in vaults)
    return {"as_expected": is_good, "vaults": vaults, **_done_json(results)}


def fleet_curated_json(results: JobResults) -> dict[str, Any]:
    """Return the proposals of each vault."""
    vaults = [{"vault": name, "proposals": proposals} for name, proposals in results.items()]
    return {"vaults": vaults, **_done_json(results)}


def fleet_compacted_json(results: JobResults) -> dict[str, Any]:
    """Return what would be compacted in each vault, and the exempt notes with reasons."""
    names = ("path", "step", "idle_days", "tokens", "tokens_left")
    vaults = []
    for vault, plan in results.items():
        steps = [
            {**{name: each[name] for name in names}, "from": each["before"]}
            for each in plan["steps"]
        ]
        vaults.append({"vault": vault, "steps": steps, "exempt": plan["exempt"]})
    return {"vaults": vaults, **_done_json(results)}


def _done_json(results: JobResults) -> dict[str, Any]:
    return {"asked": results.run_count, "missing": results.missing, "behind": results.stale_reasons}


def mentions_json(mentions: Mentions) -> dict[str, Any]:
    """Return the vaults that state something, earliest first."""
    believers = [{"vault": name, **each._asdict()} for name, each in mentions.believers]
    rest = {
        "others": mentions.others,
        "missing": mentions.missing,
        "behind": mentions.stale_reasons,
    }
    return {"believers": believers, **rest}


def duplicates_json(comparison: FleetComparison) -> dict[str, Any]:
    """Return statements that several vaults have, and those that are nearly the same."""
    return {
        "same": comparison.same,
        "near": _pairs_json(comparison.near),
        **_compared_json(comparison),
    }


def contradictions_json(comparison: FleetComparison) -> dict[str, Any]:
    """Return the contradictions between notes of several vaults."""
    return {"contradictions": _pairs_json(comparison.contradicting), **_compared_json(comparison)}


def _compared_json(comparison: FleetComparison) -> dict[str, Any]:
    counts = {"vaults": comparison.vaults, "notes": comparison.notes, "asked": comparison.run_count}
    return {**counts, "missing": comparison.missing, "behind": comparison.stale_reasons}


def _pairs_json(pairs: Sequence[DifferingStatements]) -> list[dict[str, Any]]:
    return [
        {
            **each._asdict(),
            "differences": [
                {"kind": kind, "older": older or None, "newer": newer or None}
                for kind, older, newer in each.differences
            ],
        }
        for each in pairs
    ]


def connected_json(
    client: str, changes: Sequence[SettingsChange], *, is_dry: bool
) -> dict[str, Any]:
    """Return the changes of a client's settings; with `is_dry`, those planned."""
    return {"client": client, "dry_run": is_dry, "changes": changes}


def connections_json(connections: Sequence[Connection], installed: Sequence[str]) -> dict[str, Any]:
    """Return the clients connected to a vault, with the settings file, and the other clients."""
    return {"connections": connections, "installed": installed}


def skill_json(path: Path, action: str) -> dict[str, Any]:
    """Return the skill's path, and the action."""
    return {"path": str(path), "action": action}


def import_json(report: ImportReport) -> dict[str, Any]:
    """Return what an import added, or would add: counts by file and outcome, and the items."""
    commits = report.commits
    return {
        "kind": report.kind,
        "dry_run": report.dry_run,
        "sources": [
            {"name": name, "outcomes": dict(sorted(counts.items()))}
            for name, counts in report.counts.items()
        ],
        "items": report.items,
        "turns": report.turns,
        "commit": commits.commit or None,
    }


def untaken_json(conflicts: Sequence[Conflict]) -> dict[str, Any]:
    """Return the conflicts that prevented promoting notes from a branch."""
    return {"promoted": [], "commit": None, "conflicts": conflicts}


def indexed_json(vault: Vault, report: IndexReport) -> dict[str, Any]:
    """Return a vault's counts and changes after indexing."""
    notes, tokens = vault.view.totals()
    return {
        "notes": notes,
        "tokens": tokens,
        **pick(report, "added changed removed"),
        "seconds": round(report.seconds, 3),
        "problems": problems_data(vault.manifest.problems()),
    }


def watcher_json(watcher: WatcherInfo | None) -> dict[str, Any]:
    """Return whether a vault is watched, and the watcher."""
    return {"watching": watcher is not None, "watcher": watcher}


def daemon_json(watcher: WatcherInfo, log: Path) -> dict[str, Any]:
    """Return the started watcher and its log file."""
    return {"watcher": watcher, "log": str(log)}


def happened_json(event: WatchEvent, time: str) -> dict[str, Any]:
    """Return an event of the watcher with its time (ISO 8601)."""
    return {"time": time, "what": event.kind, "text": event.text}


def trusted_json(paths: Sequence[str], signer: str, allowed: str) -> dict[str, Any]:
    """Return the trusted notes, their signer, and the newly allowed signer."""
    return {"trusted": list(paths), "signer": signer or None, "allowed": allowed or None}


def repository_json(name: str, folder: Path, branch: str = "", commits: int = 0) -> dict[str, Any]:
    """Return a vault that was added to a hub, and its bare repository."""
    return {"name": name, "folder": str(folder), "branch": branch, "commits": commits}


def removed_json(name: str, folder: Path) -> dict[str, Any]:
    """Return a vault that was removed from a hub, and the folder of its repository."""
    return {"name": name, "kept": str(folder)}


def listed_json(name: str, path: str) -> dict[str, Any]:
    """Return the entry that was added to or removed from the list of vaults."""
    return {"name": name, "path": path}


def unconfirmed_json(result: UnconfirmResult) -> dict[str, Any]:
    """Return the removed confirmation of a note: its author and wording."""
    data = pick(result, "path who=confirmation.author wording=confirmation.wording")
    return {**data, "commits": commits_json(result.report.commits)}


def primed_json(source: str, plan: PrimePlan, *, is_dry: bool) -> dict[str, Any]:
    """Return the changes of importing reference material; with `is_dry`, the planned ones."""
    data = {"source": source, "dry_run": is_dry, "unchanged": len(plan.unchanged)}
    return {**data, **pick(plan, "added changed removed kept=kept_notes")}


def unprimed_json(plan: RemovalPlan, *, is_dry: bool) -> dict[str, Any]:
    """Return the removed notes of a source, and those that were kept."""
    return {"would_remove" if is_dry else "removed": plan.removed, "kept": plan.kept_notes}


def added_question_json(result: AddedQuestion) -> dict[str, Any]:
    """Return a question made from a receipt, and whether it is new in its file."""
    question = result.question
    return {"question": question.text, "notes": question.notes, "added": result.is_new}
