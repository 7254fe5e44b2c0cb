"""The state of a vault as JSON: what was read, what is wrong, what git has, who watches it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.answers.history import commit_json
from vaultmem.core.json_values import as_named

if TYPE_CHECKING:
    from vaultmem.core.check import Check
    from vaultmem.services.health.status import GitStatus, VaultStatus
    from vaultmem.services.notes.create import Created
    from vaultmem.services.notes.plan_vault import InitPlan
    from vaultmem.services.reading.sync import SyncReport
    from vaultmem.services.watching.context import RenderedContext
    from vaultmem.services.watching.lease import Watching
    from vaultmem.services.watching.watch import Happened
    from vaultmem.vault import Vault


def init_json(plan: InitPlan, created: Created | None = None, name: str = "") -> dict[str, Any]:
    """Return what `init` would do to a folder or, with what it did, the vault that it is now."""
    report = created and created.report
    return {
        "vault": str(plan.root),
        "is_vault": plan.is_vault or created is not None,
        "repository": str(plan.repository) if plan.repository else None,
        "new_repository": created.new_repository if created else plan.repository is None,
        "added": created.added if created else plan.added,
        "files": len(plan.files),
        "bytes": plan.size,
        "private": plan.private,
        "credentials": plan.credentials,
        "kept_out": created.kept_out if created else plan.kept_out,
        "released": created.released if created else (),
        "listed_as": name or None,
        "left_out": plan.left_out,
        "excluded": created.excluded if created else (),
        "configured": created.configured if created else (),
        "commit": (report and report.commit) or None,
        "person_problem": (created and created.person_problem) or None,
        "notes": created.vault.view.totals()[0] if created else None,
        "problems": _problems_json(created.vault.manifest.problems() if created else ()),
    }


def indexed_json(vault: Vault, report: SyncReport) -> dict[str, Any]:
    """Return what a vault holds, and what was new in it."""
    notes, tokens = vault.view.totals()
    return {
        "notes": notes,
        "tokens": tokens,
        "added": report.added,
        "changed": report.changed,
        "removed": report.removed,
        "seconds": round(report.seconds, 3),
        "problems": _problems_json(vault.manifest.problems()),
    }


def status_json(vault: Vault, found: VaultStatus) -> dict[str, Any]:
    """Return what a vault holds, who watches it, and what is not committed."""
    return {
        "vault": vault.show_folder(str(vault.root)),
        "settings_problem": found.settings_problem or None,
        "git": None if found.git is None else _git_json(found.git),
        "agent": found.author.agent or None,
        "session": found.author.session or None,
        "ref": found.ref or None,
        "watcher": found.watcher,
        "notes": found.notes,
        "tokens": found.tokens,
        "kinds": found.kinds,
        "states": found.states,
        "proposed": found.proposed,
        "to_decide": found.to_decide,
        "index": {
            "in_sync": found.is_in_sync,
            "problem": found.sync_problem or None,
            "added": found.sync.added,
            "changed": found.sync.changed,
            "removed": found.sync.removed,
        },
        "waiting": found.waiting,
        "in_doubt": _problems_json(found.in_doubt),
        "trust_problem": found.trust_problem or None,
        "problems": _problems_json(found.problems),
        "passed_over": found.passed_over,
    }


def _git_json(git: GitStatus) -> dict[str, Any]:
    return {
        "problem": git.problem or None,
        "branch": git.head.branch or None,
        "commit": git.head.commit or None,
        "obstacle": git.obstacle or None,
        "person_problem": git.person_problem or None,
        "uncommitted": git.uncommitted,
        "skipped": git.left_out,
        "credentials": git.credentials,
        "kept_out": git.kept_out,
        "sync": git.sync,
        "proposals": git.proposals,
        "moved_links": git.moved_links,
        "events": list(map(commit_json, git.events)),
    }


def _problems_json(problems: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"path": path, "problem": problem} for path, problem in problems]


def contexts_json(rendered: Iterable[RenderedContext]) -> dict[str, Any]:
    """Return the files that are rendered from a vault, and which of them changed."""
    contexts = [
        {"path": each.path, "changed": each.changed, "problem": each.problem or None}
        for each in rendered
    ]
    return {"contexts": contexts}


def checks_json(checks: Sequence[Check], *, is_ok: bool) -> dict[str, Any]:
    """Return what was examined, and whether all of it is well."""
    return {"ok": is_ok, "checks": checks}


def watcher_json(found: Watching | None) -> dict[str, Any]:
    """Return whether a vault is watched, and by whom."""
    return {"watching": found is not None, "watcher": found}


def daemon_json(found: Watching, log: Path) -> dict[str, Any]:
    """Return who watches from now on, and the file that it writes to."""
    return {"watcher": found, "log": str(log)}


def happened_json(happened: Happened, time: str) -> dict[str, Any]:
    """Return one thing that the watcher did or met, and when (ISO 8601)."""
    return {"time": time, **as_named(happened)}


def trusted_json(paths: Sequence[str], signer: str, allowed: str) -> dict[str, Any]:
    """Return what is trusted, who signed it, and whose signature counts from now on."""
    return {"trusted": list(paths), "signer": signer or None, "allowed": allowed or None}
