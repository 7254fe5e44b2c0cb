"""The pages of the story's vault, by what they show."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from story import FEATURES


class Place(NamedTuple):
    """A page's address, and the status with which it is answered."""

    address: str
    status: int = 200


def _note(path: str) -> Place:
    return Place(f"/note/{quote(path)}")


PLACES = {
    "home": Place("/"),
    "search": Place("/search?q=refunds"),
    "search by facets": Place("/search?q=refunds&state=active&kind=decision"),
    "search without a question": Place("/search"),
    "search without an answer": Place("/search?q=xyzzy"),
    "notes": Place("/notes"),
    "notes by a choice": Place("/notes?state=active&tag=payments%2Frefunds"),
    "pack": Place("/pack?q=how+are+refunds+handled%3F&budget=1200"),
    "pack without a question": Place("/pack"),
    "receipts": Place("/receipts"),
    "two packs": Place("/packs/compare?q=how+are+refunds+handled%3F&left_at=HEAD~3"),
    "bisect": Place("/bisect"),
    "bisect that found": Place("/bisect?q=refunds&says=nobody+says+that&negated=1&good=HEAD~3"),
    "bisect that is filled in": Place("/bisect?q=how+are+refunds+handled%3F&good=2026-11-12"),
    "review": Place("/review"),
    "review of an agent": Place("/review?agent=codex&chosen=1"),
    "conflicts": Place("/conflicts"),
    "note that two sides changed": _note("notes/inbox/tugboat.md"),
    "sessions": Place("/sessions"),
    "session": Place("/session/s-0502"),
    "agent": Place("/agent/claude"),
    "time": Place("/time"),
    "time of an agent": Place("/time?who=codex"),
    "history": Place("/history/notes/payments/refund-rules.md"),
    "commit": Place("/commit/HEAD~1"),
    "health": Place("/health"),
    "graph": Place("/graph/notes/payments/refund-rules.md"),
    "spread": Place("/spread/notes/payments/refund-rules.md"),
    "then": Place("/?at=2026-11-15"),
    "note": _note(FEATURES),
    "note with a table": _note("notes/payments/refund-rules.md"),
    "note with an odd name": _note("notes/inbox/🚢 harbour visit.md"),
    "pinned note": _note("MEMORY.md"),
    "quarantined note": _note("notes/frontend/admin-list-refetch-on-focus.md"),
    "unreadable note": _note("notes/inbox/cut-off.md"),
    "no such note": Place("/note/notes/none.md", 404),
    "no such page": Place("/nowhere", 404),
}
