"""Notes that a merge or pull added: those not yet compared, and the proposals about them.

Both are in the state database; if it is lost, a comparison of the whole vault finds them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence

from vaultmem.core.curation.proposal import Proposal, Report, format_report, parse_report
from vaultmem.errors import RefusedError
from vaultmem.storage.state import StateDatabase

_WAITING_KEY, _PROPOSALS_KEY = "arrived", "arrived_found"


def read_waiting(state: StateDatabase) -> dict[str, str]:
    """Return the sender ("" if unknown) of each note not yet compared, by path."""
    text = state.get(_WAITING_KEY)
    senders: dict[str, str] = json.loads(text) if text else {}
    return senders


def add_waiting(state: StateDatabase, arrived: Mapping[str, str]) -> None:
    """Add notes not yet compared, with their senders by path."""
    if arrived:
        state.put(_WAITING_KEY, json.dumps(read_waiting(state) | dict(arrived)))


def read_found(state: StateDatabase) -> tuple[Proposal, ...]:
    """Return the stored proposals, made from the notes as they were when compared."""
    text = state.get(_PROPOSALS_KEY)
    if not text:
        return ()
    entry = state.kept.get(_PROPOSALS_KEY)
    if entry is None or entry[0] != text:
        try:
            entry = (text, parse_report(text).proposals)
        except RefusedError:  # Written by another version of vaultmem.
            entry = (text, ())
        state.kept[_PROPOSALS_KEY] = entry
    proposals: tuple[Proposal, ...] = entry[1]
    return proposals


def store_found(
    state: StateDatabase,
    compared: Collection[str],
    change: Callable[[Sequence[Proposal]], Sequence[Proposal]],
) -> None:
    """Remove `compared` from the waiting notes, and apply `change` to the stored proposals.

    It receives them as they are now, because other processes can change them.
    """
    with state.transaction():
        waiting = read_waiting(state)
        rest = {path: sender for path, sender in waiting.items() if path not in compared}
        state.put(_WAITING_KEY, json.dumps(rest) if rest else "")
        proposals = tuple(change(read_found(state)))
        state.put(_PROPOSALS_KEY, format_report(Report("", "", proposals)) if proposals else "")
