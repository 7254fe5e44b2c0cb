"""The order of sections in a pack: what is worth most first, what belongs together side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import pow

from vaultmem.core.finding.hit import Hit, NoteKey
from vaultmem.core.packs.conflicts import MAX_RIVALS, Contradiction, rank_authority
from vaultmem.core.packs.pack_item import PackItem
from vaultmem.core.token_count import count_tokens

#: The power of a section's tokens that its score is divided by, and the tokens that it costs
#: besides its text.
_COST, _LABEL = 0.15, 20


def order_by_worth(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits in the order of score for tokens, equals as they were.

    A section of 300 tokens needs a score 1.4 times that of one of 20 to stand before it: in its
    room there would be others.
    """

    def worth(hit: Hit) -> float:
        return hit.score / pow(float(count_tokens(hit.text) + _LABEL), _COST)

    return sorted(hits, key=worth, reverse=True)


def bring_together(
    hits: Sequence[Hit],
    relations: Iterable[Contradiction],
    partners: Mapping[NoteKey, Hit],
    trusted: frozenset[NoteKey],
) -> list[Hit]:
    """Return the hits in their order, each one's opponents directly behind it.

    `partners` are sections of notes that are in a relation and among no hits. One comes in
    only if it counts no less than the hit, or if the hit names it: no note brings itself into a
    pack by contradicting a better one.
    """
    related: dict[NoteKey, list[Contradiction]] = {}
    for each in relations:
        related.setdefault(each.first, []).append(each)
        related.setdefault(each.second, []).append(each)
    found: dict[NoteKey, Hit] = {}
    for hit in hits:
        found.setdefault(hit.note, hit)
    ordered: dict[tuple[NoteKey, int], Hit] = {}
    for hit in hits:
        ordered.setdefault(hit.key, hit)
        rivals = []
        for each in related.get(hit.note, ()):
            other = each.second if each.first == hit.note else each.first
            rival = found.get(other) or partners.get(other)
            if rival and (other in found or _may_join(hit, rival, each, trusted)):
                rivals.append(rival)
        rivals.sort(key=lambda each: rank_authority(each, each.note in trusted))
        for rival in rivals[:MAX_RIVALS]:
            ordered.setdefault(rival.key, rival)
    return list(ordered.values())


def _may_join(hit: Hit, rival: Hit, relation: Contradiction, trusted: frozenset[NoteKey]) -> bool:
    ranks = [rank_authority(h, h.note in trusted) for h in (rival, hit)]
    return ranks[0] <= ranks[1] or relation.told_by == hit.note


def put_answers_behind(items: Sequence[PackItem]) -> list[PackItem]:
    """Return the items, each that may answer a note directly behind that note."""
    answers = [item for item in items if item.hit.beside]
    ordered = [item for item in items if not item.hit.beside]
    for answer in reversed(answers):
        paths = [item.hit.record.path for item in ordered]
        asked = answer.hit.beside
        place = paths.index(asked) + 1 if asked in paths else len(ordered)
        ordered.insert(place, answer)
    return ordered
