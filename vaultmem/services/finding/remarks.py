"""What is to be said of a pack's sections besides their own words: what contradicts what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.notes.record import divide_numbers, place_number
from vaultmem.core.packs.conflicts import (
    CONFLICT_PROPERTIES,
    ORDERED,
    Contradiction,
    Remarks,
    find_same_titles,
)
from vaultmem.core.packs.order import bring_together
from vaultmem.core.paths import fold
from vaultmem.core.upkeep.proposal import Action
from vaultmem.services.finding.reach import Reach
from vaultmem.services.reading.texts import read_sections
from vaultmem.storage.arrivals import read_found
from vaultmem.storage.links import LinkStore
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.links.link import Link


def add_remarks(
    reach: Reach, pinned: Sequence[Hit], relevant: Sequence[Hit], trusted: frozenset[int]
) -> tuple[list[Hit], Remarks]:
    """Return the relevant sections, opponents side by side, and what is to be said of them.

    A note that contradicts a relevant one, and counts no less, is added where nothing hides it
    (its state, say). `trusted` are the documents whose promotion is on record.
    """
    relations = _find_relations(reach, [*pinned, *relevant])
    partners = _find_partners(reach, relations, [*pinned, *relevant])
    hits = bring_together(relevant, relations, partners, trusted)
    return hits, Remarks(relations)


def _find_relations(reach: Reach, hits: Sequence[Hit]) -> list[Contradiction]:
    """Return the conflicts that the notes' properties and titles tell of."""
    found = find_same_titles(hits)
    given = {place: (own,) for place, own in reach.divide(hits).items()}
    for place, told in reach.run(_find_told, given).items():
        found += [_number(each, place) for each in told]
    distinct: dict[frozenset[int], Contradiction] = {}
    for one in sorted(found, key=_rank_relation):
        distinct.setdefault(frozenset((one.first, one.second)), one)
    return list(distinct.values())


def _number(told: Contradiction, place: int) -> Contradiction:
    """Return a conflict between notes of one of several vaults, by their numbers among all."""
    if not place:
        return told
    first, second = (place_number(each, place) for each in (told.first, told.second))
    by = told.told_by if told.told_by < 0 else place_number(told.told_by, place)
    return told._replace(first=first, second=second, told_by=by)


def _find_told(vault: Vault, hits: Sequence[Hit]) -> list[Contradiction]:
    """Return the conflicts that properties tell of, or that came from elsewhere."""
    found = _find_arrived(vault, hits)
    written = _find_written(vault, hits)
    others = _resolve(vault, [(path, link) for _, path, link in written]) if written else []
    shown = {hit.record.document for hit in hits}
    for (document, _, link), other in zip(written, others, strict=True):
        if other is None or other == document or not shown & {document, other}:
            continue
        if link.property == "superseded_by":
            found.append(Contradiction(other, document, "supersedes", document))
        else:
            found.append(Contradiction(document, other, link.property, document))
    return found


def _find_arrived(vault: Vault, hits: Sequence[Hit]) -> list[Contradiction]:
    """Return which of these notes say another value than one that came, or came themselves.

    That was found when they came; nobody has decided it.
    """
    shown = {(hit.record.path, hit.record.blob) for hit in hits}
    found = []
    for each in read_found(vault.state):
        older, newer = (each.path, each.blob), (each.into, each.into_blob)
        if each.action in {Action.UPDATE, Action.CONTRADICTION} and shown & {older, newer}:
            known = vault.manifest.find_documents([older, newer])
            if older in known and newer in known:
                found.append(Contradiction(known[newer], known[older], "contradicts"))
    return found


def _rank_relation(told: Contradiction) -> tuple[bool, bool, int, int]:
    """Put what orders two notes before what says that they differ, and that before titles."""
    is_title = told.why not in CONFLICT_PROPERTIES
    return (told.why not in ORDERED, is_title, told.first, told.second)


def _resolve(vault: Vault, links: Sequence[tuple[str, Link]]) -> list[int | None]:
    from vaultmem.services.finding.links import resolve_few

    return resolve_few(vault, links)


def _find_written(vault: Vault, hits: Sequence[Hit]) -> list[tuple[int, str, Link]]:
    """Return the links in properties about conflicts that are of these notes, or may mean one.

    Each is the linking document, its path, and the link.
    """
    shown = {hit.record.document: hit.record.path for hit in hits}
    names = {fold(path).rpartition("/")[2].removesuffix(".md") for path in shown.values()}
    store = LinkStore(vault.state)
    names.update(fold(alias) for each in store.aliases_of(shown).values() for alias in each)
    found = []
    for document, links in store.links_in(CONFLICT_PROPERTIES).items():
        for link in links:
            name = fold(link.path).rpartition("/")[2].removesuffix(".md")
            if document in shown or name in names:
                found.append((document, link))
    listed = ", ".join(str(document) for document, _ in found)
    paths = vault.view.paths(f"d.id IN ({listed})") if found else {}
    return [(document, paths[document], link) for document, link in found if document in paths]


def _find_partners(
    reach: Reach, relations: Iterable[Contradiction], hits: Sequence[Hit]
) -> dict[int, Hit]:
    """Return the first section of each note that is in a conflict and was not found itself."""
    known = {hit.record.document for hit in hits}
    wanted = {n for each in relations for n in (each.first, each.second)} - known
    if not wanted:
        return {}
    given = {place: (own,) for place, own in divide_numbers(wanted).items()}
    found = reach.run(_first_sections, given)
    numbered = (hit for place, own in found.items() for hit in reach.number(own, place))
    return {hit.record.document: hit for hit in numbered}


def _first_sections(vault: Vault, documents: Collection[int]) -> list[Hit]:
    """Return the first section of each of some notes that nothing hides."""
    visible = NoteFilter()
    records = [
        record
        for record in vault.view.records_of(documents).values()
        if visible.admits(record.kind, record.state, record.tags, record.context, record.pinned)
    ]
    sections = vault.view.sections_of({record.document for record in records}, [0])
    places = [(r, sections[r.document, 0]) for r in records if (r.document, 0) in sections]
    return [
        Hit(record, section, text, 0.0, (), 0.0, 1.0)
        for record, section, text in read_sections(vault, places)
    ]
