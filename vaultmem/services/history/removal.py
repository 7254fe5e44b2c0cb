"""Tell of a note that is gone who removed it, and why."""

from __future__ import annotations

from vaultmem.core.changing.file_changes import ChangeOp
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.history.trace import trace_note
from vaultmem.vault import Vault


def tell_removal(vault: Vault, address: str) -> str:
    """Return who removed a note, when, why and how it comes back; "" where no commit did."""
    try:
        trace = trace_note(vault, address, 1)
    except (NoteNotFoundError, RefusedError):
        return ""
    gone = next((v for v in trace.versions if v.operation.file.op is ChangeOp.REMOVE), None)
    if gone is None or gone.commit is None:
        return ""
    commit = gone.commit
    lines = commit.prose.splitlines()
    why = next((w for line in lines if (w := _find_reason(line, trace.path))), "no reason given")
    name = commit.commit[:7]
    return (
        f"{trace.path}: {commit.who} removed it on {commit.time[:10]} in {name}: {why}; "
        f"`vaultmem restore {trace.path} --at {name}~` brings it back"
    )


def _find_reason(line: str, path: str) -> str:
    before, _, reason = line.partition(f"removed {path}: ")
    return "" if before else reason
