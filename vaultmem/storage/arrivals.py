"""Notes that came by a merge or a pull: which wait to be compared, and what was found of them.

Both are in the state database. What is lost with it, a look at the whole vault finds as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence

from vaultmem.core.curation.proposal import Proposal, Report, format_report, parse_report
from vaultmem.errors import RefusedError
from vaultmem.storage.state import StateDatabase

_WAITING, _FOUND = "arrived", "arrived_found"


def read_waiting(state: StateDatabase) -> dict[str, str]:
    """Return, by path, who sent the notes that nobody has compared yet ("" where it is unknown)."""
    text = state.get(_WAITING)
    found: dict[str, str] = json.loads(text) if text else {}
    return found


def add_waiting(state: StateDatabase, arrived: Mapping[str, str]) -> None:
    """Let notes wait to be compared."""
    if arrived:
        state.put(_WAITING, json.dumps(read_waiting(state) | dict(arrived)))


def read_found(state: StateDatabase) -> tuple[Proposal, ...]:
    """Return what was found of notes that had come, as they and the others were then."""
    text = state.get(_FOUND)
    if not text:
        return ()
    kept = state.kept.get(_FOUND)
    if kept is None or kept[0] != text:
        try:
            kept = (text, parse_report(text).proposals)
        except RefusedError:  # Of another version of vaultmem.
            kept = (text, ())
        state.kept[_FOUND] = kept
    proposals: tuple[Proposal, ...] = kept[1]
    return proposals


def store_found(
    state: StateDatabase,
    compared: Collection[str],
    change: Callable[[Sequence[Proposal]], Sequence[Proposal]],
) -> None:
    """Let notes that were `compared` wait no more, and keep what `change` makes of what was found.

    Others may have taken in something meanwhile, so it is given what is there by then.
    """
    with state.transaction():
        waiting = read_waiting(state)
        left = {path: who for path, who in waiting.items() if path not in compared}
        state.put(_WAITING, json.dumps(left) if left else "")
        found = tuple(change(read_found(state)))
        state.put(_FOUND, format_report(Report("", "", found)) if found else "")
