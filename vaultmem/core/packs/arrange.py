"""Bring the sections of a pack that contradict each other side by side."""

from __future__ import annotations

from collections.abc import Sequence

from vaultmem.core.finding.hit import Hit
from vaultmem.core.packs.conflicts import Relation, describe_conflict, is_first_stronger
from vaultmem.core.packs.pack_text import PackItem


def tell_conflict(relation: Relation, first: Hit, second: Hit, trusted: frozenset[int]) -> str:
    """Return the sentence about two sections that contradict each other."""
    if is_first_stronger(first, second, relation.why, trusted):
        return describe_conflict(first, second, relation.why, trusted)
    return describe_conflict(second, first, relation.why, trusted)


def arrange_items(
    items: Sequence[PackItem], relations: Sequence[Relation], trusted: frozenset[int]
) -> list[PackItem]:
    """Return the items with those that contradict each other side by side, the stronger first.

    What is pinned keeps its place, and the sentence about the two stands before the first.
    """
    arranged = list(items)
    for relation in relations:
        pair = [
            next((i for i in arranged if i.hit.record.document == document), None)
            for document in (relation.first, relation.second)
        ]
        first, second = pair
        if first is None or second is None or first.is_instruction != second.is_instruction:
            continue
        if not is_first_stronger(first.hit, second.hit, relation.why, trusted):
            first, second = second, first
        told = tell_conflict(relation, first.hit, second.hit, trusted)
        if told not in f"{first.conflict} {second.conflict}":
            continue
        movable, fixed = (first, second) if second.pinned and not first.pinned else (second, first)
        arranged.remove(movable)
        place = arranged.index(fixed) + (movable is second)
        arranged.insert(place, movable)
        for item in (first, second):
            rest = item.conflict.replace(told, "").strip()
            conflict = f"{told} {rest}".strip() if item is first else rest
            arranged[arranged.index(item)] = item._replace(conflict=conflict)
    return arranged
