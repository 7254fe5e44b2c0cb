"""The tools that commit: promote, checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vaultmem.answers.notes import report_json
from vaultmem.mcp_server.schemas import answer, arguments, rows, text
from vaultmem.mcp_server.tool import Answer, Tool

if TYPE_CHECKING:
    from vaultmem.services.writing.commit import CommitReport
    from vaultmem.vault import Vault


def promote_tool(vault: Vault, given: dict[str, Any]) -> Answer:
    """Make candidates active, in one commit."""
    from vaultmem.services.lifecycle.promote import promote_notes

    done = promote_notes(vault, given["paths"])
    paths = [path for path, _ in done.notes]
    data = {**report_json(done.report), "promoted": paths, "trusted": done.trusted}
    told = [f"Promoted {', '.join(paths)}.", *_describe(done.report)]
    return Answer("\n".join(told), data)


def checkpoint_tool(vault: Vault, given: dict[str, Any]) -> Answer:
    """Commit everything that changed."""
    from vaultmem.services.writing.checkpoint import save_checkpoint

    report = save_checkpoint(vault, given["note"])
    told = _describe(report) or ["Nothing has changed since the last commit."]
    return Answer("\n".join(told), report_json(report))


def _describe(report: CommitReport) -> list[str]:
    return [f"{commit[:7]}  {subject}" for commit, subject in report.commits] + [
        f"left out  {path}: {reason}" for path, reason in report.skipped.items()
    ]


_COMMITS = rows(commit="string", subject="string")
_PATHS = {"type": "array", "items": {"type": "string"}}

PROMOTE = Tool(
    "promote",
    "Promote candidates",
    "Make candidate notes active and commit them, and nothing else. Whether a policy may instruct "
    "afterwards is the owner's decision, not this tool's.",
    arguments(
        ["paths"],
        paths={**_PATHS, "minItems": 1, "maxItems": 100, "description": "The notes to promote."},
    ),
    answer(promoted=_PATHS, trusted=_PATHS, commit="string?", commits=_COMMITS, skipped="object"),
    promote_tool,
    writes=True,
)

CHECKPOINT = Tool(
    "checkpoint",
    "Checkpoint",
    "Commit everything that changed in the vault, each author's changes under their own name. "
    "Do this after a piece of work whose memories belong together.",
    arguments(["note"], note=text("What was done, in a few words.", 500, 1)),
    answer(commit="string?", commits=_COMMITS, paths=_PATHS, skipped="object"),
    checkpoint_tool,
    writes=True,
)
