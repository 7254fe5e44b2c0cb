"""Sessions of other machines: which open ones are where, and the last turns that are shared."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from vaultmem.core.sessions.session import Session, SessionFacts
from vaultmem.core.sessions.turns import Line, Turn, decode_line, join_turns
from vaultmem.services.evidence.usage import list_machines
from vaultmem.services.evidence.words import may_send_words
from vaultmem.storage.machines import read_turns
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
        (sign.at, machine.name, name)
        for machine in list_machines(vault, with_usage=False)
        for name, sign in machine.sessions.items()
        if name in unseen
    )
    last = {name: (at, machine) for at, machine, name in signs}
    return [_name(each, *last[each.id]) if each.id in last else each for each in listed]


def name_machine(vault: Vault, session: Session) -> Session:
    """Return a session with its machine, as `name_machines` does."""
    return session._replace(facts=name_machines(vault, [session.facts])[0])


def read_shared_turns(vault: Vault, session: str) -> list[tuple[int, Turn]]:
    """Return the last turns of a session that another machine shares, oldest first.

    They count only where turns are shared from here, too: by a vault that the person trusts, and
    by remotes that nobody else writes to.
    """
    shares = vault.config.share_turns and vault.trust.is_trusted()
    if not shares or not may_send_words(vault):
        return []
    lines = map(_decode, read_turns(vault.history, vault.state, session))
    return list(join_turns(line for line in lines if isinstance(line, Line)))


def _decode(data: bytes) -> object:
    try:
        return decode_line(data)
    except (RecursionError, ArithmeticError, AttributeError):
        return None


def _name(facts: SessionFacts, at: float, machine: str) -> SessionFacts:
    seen = datetime.fromtimestamp(int(at)).isoformat()
    return facts._replace(machine=machine, seen=seen)
