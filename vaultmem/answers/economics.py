"""What pinned notes cost in each pack, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.services.economics import PinnedNote


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
