"""Name the machine of each session that is open elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from vaultmem.core.sessions.session import Session, SessionFacts
from vaultmem.services.usage import list_machines
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.vault import Vault


def name_machines(vault: Vault, found: Iterable[SessionFacts]) -> list[SessionFacts]:
    """Return sessions, each open one that is not here with its machine and its last sign there."""
    listed = list(found)
    active = ActiveSessions(vault.state_folder)
    unseen = {each.id for each in listed if each.is_open and active.find(each.id) is None}
    if not unseen:
        return listed
    signs = sorted(
        (at, machine.name, name)
        for machine in list_machines(vault)
        for name, at in machine.sessions.items()
        if name in unseen
    )
    last = {name: (at, machine) for at, machine, name in signs}
    return [_name(each, *last[each.id]) if each.id in last else each for each in listed]


def name_machine(vault: Vault, session: Session) -> Session:
    """Return a session with its machine, as `name_machines` does."""
    return session._replace(facts=name_machines(vault, [session.facts])[0])


def _name(facts: SessionFacts, at: float, machine: str) -> SessionFacts:
    seen = datetime.fromtimestamp(int(at)).isoformat()
    return facts._replace(machine=machine, seen=seen)
