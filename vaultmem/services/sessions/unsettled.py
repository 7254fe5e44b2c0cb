"""Find sessions of this machine that lack an end, or whose end nobody has committed."""

from __future__ import annotations

from vaultmem.services.sessions.read import open_table
from vaultmem.storage.active_sessions import ActiveSession, ActiveSessions
from vaultmem.vault import Vault


def find_unsettled(vault: Vault) -> list[ActiveSession]:
    """Return the sessions that count as open here and are not: nothing is changed.

    Their process is gone, or their note has an end. The vault must be in sync.
    """
    records = [r for r in ActiveSessions(vault.state_folder).all() if not r.recovered]
    if not records:
        return []
    table = open_table(vault)
    ended = {r.id for r in records if (facts := table.find(r.id)) and not facts.is_open}
    return [record for record in records if record.id in ended or record.is_gone]


def find_dead(vault: Vault) -> list[ActiveSession]:
    """Return the sessions whose process is gone and whose note has no end."""
    table = open_table(vault)
    return [
        record
        for record in find_unsettled(vault)
        if record.is_gone and (facts := table.find(record.id)) and facts.is_open
    ]
