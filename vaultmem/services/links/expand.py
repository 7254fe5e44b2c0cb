"""Let a recall follow the links of what it found."""

from __future__ import annotations

from collections.abc import Sequence

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.lifecycle import STATE_WEIGHT, State
from vaultmem.core.links.expand import share_scores
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.services.finding.texts import read_sections
from vaultmem.services.links.graph import FoundLink, LinkGraph
from vaultmem.vault import Vault

#: The best sections whose links are followed.
_FOLLOWED = 10

_Key = tuple[int, int]


def expand_hits(vault: Vault, query: RecallQuery, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits and the sections that the best of them link to, at most `query.limit`.

    A linked section gets a share of the linking section's score. The query's filter holds for it.
    """
    graph = LinkGraph(vault)
    known = {_key(hit): hit for hit in hits}
    places: dict[_Key, tuple[NoteRecord, SectionRecord]] = {}
    links: dict[_Key, list[_Key]] = {}
    for hit in hits[:_FOLLOWED]:
        for found in graph.links_of(hit.record.document):
            if _is_in(hit, found) and (place := _find_place(vault, graph, query, found)):
                key = (place[0].document, place[1].ordinal)
                places[key] = place
                links.setdefault(_key(hit), []).append(key)
    expanded = []
    ranked = [(_key(hit), hit.score) for hit in hits]
    for key, score, giver in share_scores(ranked, links)[: query.limit]:
        source = known[giver].record.path if giver else ""
        found_hit = known.get(key) or _read_hit(vault, *places[key])
        if found_hit is not None:
            expanded.append(found_hit._replace(score=score, linked_from=source))
    return expanded


def _key(hit: Hit) -> _Key:
    return hit.record.document, hit.section.ordinal


def _is_in(hit: Hit, found: FoundLink) -> bool:
    """Tell whether a link stands in a section; those of properties belong to the first."""
    if found.link.property:
        return hit.section.ordinal == 0
    return hit.section.start <= found.link.start < hit.section.end


def _find_place(
    vault: Vault, graph: LinkGraph, query: RecallQuery, found: FoundLink
) -> tuple[NoteRecord, SectionRecord] | None:
    document = graph.documents.get(found.target or "")
    section = graph.find_section(found) if document is not None else None
    if document is None or section is None:
        return None
    record = vault.view.records_of([document])[document]
    facts = (record.kind, record.state, record.tags, record.context, record.pinned)
    return (record, section) if query.filter.admits(*facts) else None


def _read_hit(vault: Vault, record: NoteRecord, section: SectionRecord) -> Hit | None:
    weight = STATE_WEIGHT.get(State(record.state), 1.0)
    for _, _, text in read_sections(vault, [(record, section)]):
        return Hit(record, section, text, 0.0, (), 0.0, weight)
    return None
