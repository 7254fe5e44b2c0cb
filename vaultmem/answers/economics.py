"""What memory costs as JSON: what is pinned, and what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.services.economics import PinnedNote, Stats, Sums
    from vaultmem.services.showings import Shown


def pinned_json(notes: Sequence[PinnedNote], tokens: int, budget: int) -> dict[str, Any]:
    """Return what is pinned, what it costs in each pack, and what a pack may cost."""
    shown = [
        {
            "path": each.record.path,
            "title": each.record.title,
            "kind": each.record.kind,
            "sections": each.sections,
            "tokens": each.tokens,
        }
        for each in notes
    ]
    return {"pinned": shown, "tokens": tokens, "budget": budget}


def stats_json(found: Stats) -> dict[str, Any]:
    """Return what packs and recalls cost, in all and by session, and what they found."""
    return {
        "notes": found.notes,
        "flat": found.flat,
        "packs": _sums_json(found.packs),
        "recalls": _sums_json(found.recalls),
        "sessions": [
            {
                "agent": each.agent or None,
                "session": each.session or None,
                "packs": _sums_json(each.packs),
                "recalls": _sums_json(each.recalls),
                "last": each.last,
            }
            for each in found.sessions
        ],
        "found_nothing": [{"query": query, "times": times} for query, times in found.failed],
        "most_recalled": [
            {"path": each.path, "times": each.times, "last": each.last, "best": each.best}
            for each in found.most
        ],
        "never_recalled": found.never,
    }


def recent_json(shown: Sequence[Shown]) -> dict[str, Any]:
    """Return what was shown, to whom and when."""
    calls = []
    for (call, sections), receipt in shown:
        places = [
            {"path": path, "heading": heading or None, "score": score}
            for path, heading, score in sections
        ]
        calls.append(
            {
                "time": tell_time(call.at),
                "kind": call.kind,
                "query": call.query,
                "agent": call.agent or None,
                "session": call.session or None,
                "tokens": call.sent,
                "receipt": receipt or None,
                "shown": places,
            }
        )
    return {"calls": calls}


def tell_time(at: float) -> str:
    """Return a time, given in seconds since the epoch, as ISO 8601 with this machine's offset."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")


def _sums_json(sums: Sums) -> dict[str, Any]:
    return {
        "calls": sums.calls,
        "sent": sums.sent,
        "flat": sums.flat,
        "saved": sums.saved,
        "empty": sums.empty,
    }
