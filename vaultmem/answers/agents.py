"""What agents were given of a vault, and what was imported of theirs, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.services.connecting.connect import Connection, SettingsChange, Shown
    from vaultmem.services.importing.run import ImportReport


def connected_json(
    client: str, changes: Sequence[SettingsChange], *, is_dry: bool
) -> dict[str, Any]:
    """Return the changes of a client's settings that were or would be made."""
    return {"client": client, "dry_run": is_dry, "changes": changes}


def connections_json(found: Sequence[Connection], installed: Sequence[str]) -> dict[str, Any]:
    """Return which clients know a vault, where that is written, and which are there without one."""
    return {"connections": found, "installed": installed}


def shown_json(shown: Sequence[Shown]) -> dict[str, Any]:
    """Return what goes into a client's settings, and where they are."""
    return {"shown": shown}


def skill_json(path: Path, action: str) -> dict[str, Any]:
    """Return where the skill stands or stood, and what was done with it."""
    return {"path": str(path), "action": action}


def import_json(report: ImportReport) -> dict[str, Any]:
    """Return what an import took in, or would: of each file how many of what, and which."""
    commits = report.commits
    return {
        "kind": report.kind,
        "dry_run": report.dry_run,
        "sources": [
            {"name": name, "outcomes": dict(sorted(counts.items()))}
            for name, counts in report.counts.items()
        ],
        "items": report.taken,
        "turns": report.turns,
        "commit": commits.commit or None,
    }
