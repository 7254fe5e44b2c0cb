"""Why a section is in a pack, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vaultmem.core.finding.hit import Hit
from vaultmem.core.packs.pack_item import PackItem, PackPart

#: The parts of a score besides the words that were asked, and what each says.
_PARTS = {
    "closeness": "what was asked stands close together",
    "passage": "one passage has most of what was asked",
    "named": "its title or who says it was named",
    "neighbours": "what stands beside it answers too",
    "semantic": "it means what was asked",
    "recency": "how new it is",
}

#: Scores that are nothing when they are shown.
_LEAST = 0.005


class Reason(NamedTuple):
    """A reason, and what it adds to the score; None for what no score says."""

    words: str
    score: float | None = None


def tell_reasons(item: PackItem, is_asked: bool) -> list[Reason]:
    """Return why a section is in the pack for a question, or without one."""
    return [*_tell_standing(item, is_asked), *tell_score(item.hit)]


def tell_score(hit: Hit) -> list[Reason]:
    """Return what adds to a hit's score besides the words that it has, and what weighs it."""
    told = [
        Reason(words, score)
        for name, words in _PARTS.items()
        if abs(score := getattr(hit, name)) >= _LEAST
    ]
    if hit.rerank is not None:
        told.append(Reason("what a model made of it", hit.rerank))
    if hit.state_weight != 1:
        told.append(Reason(f"{hit.record.state} counts {hit.state_weight:g}"))
    return told


def _tell_standing(item: PackItem, is_asked: bool) -> Iterator[Reason]:
    hit = item.hit
    if item.pinned:
        yield Reason("pinned")
    elif item.part is PackPart.PREFERENCES:
        yield Reason("its owner prefers it so")
    elif not is_asked:
        yield Reason("among the newest")
    if hit.linked_from:
        yield Reason(f"linked from {hit.linked_from}")
    if hit.beside:
        yield Reason(f"said next, after {hit.beside}")
    if hit.refs:
        yield Reason(f"on {', '.join(hit.refs)}")
