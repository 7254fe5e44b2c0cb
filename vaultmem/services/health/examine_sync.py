"""Check whether a vault that is carried between machines gets there."""

from __future__ import annotations

from vaultmem.core.check import Check, Verdict
from vaultmem.services.syncing.state import read_sync_state
from vaultmem.vault import Vault

#: Seconds for which commits may wait before it is told.
_LONG = 7 * 86_400.0


def check_sync(vault: Vault, now: float) -> Check:
    """Tell of a sync that does not come about, and of commits that wait for long."""
    found = read_sync_state(vault)
    if found is None:
        return Check("sync", told="no remote")
    if found.problem:
        told, _, remedy = found.problem.rpartition("; ")
        return Check("sync", Verdict.WARNING, told or remedy, remedy=remedy if told else "")
    if found.outcome in {"refused", "conflict", "failed"}:
        remedy = "mend that, and run `vaultmem sync`"
        return Check("sync", Verdict.PROBLEM, f"the last one failed: {found.told}", remedy=remedy)
    if found.at and found.waiting and now - found.good_at > _LONG:
        told = f"commits waiting: {found.waiting:,}; no sync has finished for a week"
        remedy = f"see that {found.remote} can be reached, and run `vaultmem sync`"
        return Check("sync", Verdict.WARNING, told, remedy=remedy)
    return Check("sync", told=f"with {found.remote}" if found.at else f"never with {found.remote}")
