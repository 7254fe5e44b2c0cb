"""A check of the sessions: which have died, and what may be done about it."""

from __future__ import annotations

from vaultmem.core.check import Check, Verdict
from vaultmem.services.sessions.read import list_facts, open_transcripts
from vaultmem.services.sessions.recover import recover_sessions
from vaultmem.services.sessions.unsettled import find_dead
from vaultmem.vault import Vault


def check_sessions(vault: Vault, fix: bool) -> Check:
    """See to it that sessions whose process is gone have an end; the vault must be in sync."""
    fixed = []
    if fix:
        for each in recover_sessions(vault):
            if not each.problem:
                fixed.append(f"{each.session} has an end ({each.status})")
    dead = find_dead(vault)
    if dead:
        told = f"{len(dead):,} sessions have no end, and their process is gone"
        remedy = "`vaultmem doctor --fix` or `vaultmem session list` recovers them"
        paths = tuple(record.id for record in dead)
        return Check("sessions", Verdict.WARNING, told, paths, remedy, tuple(fixed))
    facts = list_facts(vault)
    still = sum(each.is_open for each in facts)
    size = sum(open_transcripts(vault).size(each.id) for each in facts)
    told = f"{len(facts):,}, {still:,} open, transcripts of {size / 1024 / 1024:.1f} MB"
    return Check("sessions", told=told, fixed=tuple(fixed))
