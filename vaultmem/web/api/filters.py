"""Parameters that choose notes, and the filter that they make."""

from __future__ import annotations

from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.lifecycle import Kind, State
from vaultmem.core.timestamps import parse_timestamp
from vaultmem.operations.operation import Given
from vaultmem.operations.schemas import flag, text, texts

#: All that notes can be chosen by.
FILTERS = {
    "kind": texts("Only notes of these kinds.", [each.value for each in Kind]),
    "state": texts("Only notes in these states.", [each.value for each in State]),
    "tag": texts("Only notes with all of these tags, or tags inside them."),
    "context": text("Only notes of this context (folder).", 200),
    "pinned": flag("Only notes that are pinned, or are not."),
    "from_agent": text("Only notes that this agent wrote.", 200),
    "from_session": text("Only notes of this session.", 200),
    "since": text("Only notes written then or later (2026-10-01).", 40),
    "until": text("Only notes written then or earlier.", 40),
    "path": texts("Only notes in these folders, or of such paths: notes/*auth*."),
}


def make_filter(given: Given, *, any_state: bool = False) -> NoteFilter:
    """Return the filter that was given.

    Raises:
        RefusedError: a date is none.
    """
    since, until = given.get("since"), given.get("until")
    return NoteFilter(
        kinds=frozenset(map(Kind, given.get("kind", ()))),
        states=frozenset(map(State, given.get("state", ()))),
        tags=tuple(given.get("tag", ())),
        context=given.get("context", "").strip("/"),
        pinned=given.get("pinned"),
        any_state=any_state,
        session=given.get("from_session", ""),
        agent=given.get("from_agent", ""),
        paths=tuple(given.get("path", ())),
        since=parse_timestamp(since) if since else None,
        until=parse_timestamp(until, end_of_day=True) if until else None,
    )
