"""Notes that contradict each other: which are known to, and which of two counts more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.terms import count_terms
from vaultmem.core.lifecycle import Kind
from vaultmem.core.packs.authority import name_authority, rank_authority
from vaultmem.core.packs.caution import written_at

#: Properties whose links say that two notes do not agree.
CONFLICT_PROPERTIES = ("contradicts", "supersedes", "superseded_by")

#: Opponents that are brought to one section's side.
MAX_RIVALS = 2

_SAME_TITLE = "same title and folder"

#: Kinds of which one note a day or a session is usual: equal titles say nothing there.
_SERIAL = frozenset(
    {Kind.EPISODIC_TRACE, Kind.REFLECTION, Kind.WORKING_CONTEXT, Kind.ADAPTER_EXAMPLE}
)


class Relation(NamedTuple):
    """Two documents that do not agree, and how that is known; `why` is a property's name or words.

    Where `why` is "supersedes", the first is the newer word. `told_by` is the document whose
    property says so.
    """

    first: int
    second: int
    why: str
    told_by: int = -1


def find_same_titles(hits: Sequence[Hit]) -> list[Relation]:
    """Return the pairs of notes that say different things under one title in one folder."""
    groups: dict[tuple[str, str, str], list[Hit]] = {}
    for hit in hits:
        record = hit.record
        if record.kind in _SERIAL or record.path.startswith("primed/"):
            continue
        name = (record.title.casefold(), hit.section.heading.casefold(), record.context)
        groups.setdefault(name, []).append(hit)
    return [
        Relation(group[0].record.document, other.record.document, _SAME_TITLE)
        for group in groups.values()
        for other in group[1:]
        if other.record.document != group[0].record.document
        and count_terms(other.text) != count_terms(group[0].text)
    ]


def bring_together(
    hits: Sequence[Hit],
    relations: Iterable[Relation],
    partners: Mapping[int, Hit],
    trusted: frozenset[int],
) -> list[Hit]:
    """Return the hits in their order, each one's opponents directly behind it.

    `partners` are sections of documents that are in a relation and among no hits. One comes in
    only if it counts no less than the hit, or if the hit names it: no note brings itself into a
    pack by contradicting a better one.
    """
    related: dict[int, list[Relation]] = {}
    for each in relations:
        related.setdefault(each.first, []).append(each)
        related.setdefault(each.second, []).append(each)
    found: dict[int, Hit] = {}
    for hit in hits:
        found.setdefault(hit.record.document, hit)
    ordered: dict[tuple[int, int], Hit] = {}
    for hit in hits:
        document = hit.record.document
        ordered.setdefault((document, hit.section.ordinal), hit)
        rivals = []
        for each in related.get(document, ()):
            number = each.second if each.first == document else each.first
            rival = found.get(number) or partners.get(number)
            if rival and (number in found or _may_join(hit, rival, each, trusted)):
                rivals.append(rival)
        rivals.sort(key=lambda each: rank_authority(each, each.record.document in trusted))
        for rival in rivals[:MAX_RIVALS]:
            ordered.setdefault((rival.record.document, rival.section.ordinal), rival)
    return list(ordered.values())


def _may_join(hit: Hit, rival: Hit, relation: Relation, trusted: frozenset[int]) -> bool:
    ranks = [rank_authority(h, h.record.document in trusted) for h in (rival, hit)]
    return ranks[0] <= ranks[1] or relation.told_by == hit.record.document


def is_first_stronger(first: Hit, second: Hit, why: str, trusted: frozenset[int]) -> bool:
    """Tell which of two counts more: by authority, else what supersedes, else the later word."""

    def key(hit: Hit) -> tuple[int, bool, float, str]:
        rank = rank_authority(hit, hit.record.document in trusted)
        is_older = why == "supersedes" and hit is second
        return (rank, is_older, -written_at(hit), hit.record.path)

    return key(first) < key(second)


def describe_conflict(stronger: Hit, weaker: Hit, why: str, trusted: frozenset[int]) -> str:
    """Return the sentence that stands before two sections that contradict each other."""
    ranks = [rank_authority(h, h.record.document in trusted) for h in (stronger, weaker)]
    if ranks[0] != ranks[1]:
        reason = f"{name_authority(ranks[0])} before {name_authority(ranks[1])}"
    elif why == "supersedes":
        reason = "it supersedes the other"
    else:
        reason = (
            "the later of two alike" if written_at(stronger) > written_at(weaker) else "by name"
        )
    return (
        f"In conflict ({why}): {stronger.record.path} counts more than {weaker.record.path}, "
        f"{reason}; what the user says now, or the repository holds now, counts more than both."
    )
