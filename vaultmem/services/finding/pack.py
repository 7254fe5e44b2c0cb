"""Render the context pack: what is pinned, and what is relevant, with what has to be said of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import NoteFilter, parse_query
from vaultmem.core.finding.reranking import Reranker
from vaultmem.core.finding.sureness import Sureness, judge_hits
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.caution import written_at
from vaultmem.core.packs.conflicts import (
    CONFLICT_PROPERTIES,
    ORDERED,
    Contradiction,
    Remarks,
    find_same_titles,
)
from vaultmem.core.packs.order import bring_together, order_by_worth
from vaultmem.core.packs.pack import build_pack
from vaultmem.core.packs.pack_item import PackLabels, PackSource, PackStyle, parse_labels
from vaultmem.core.packs.pack_text import Pack
from vaultmem.core.paths import PINNED_FILES, fold
from vaultmem.core.safe_text import escape_bytes
from vaultmem.services.finding.any_question import recall_any
from vaultmem.services.finding.beside import add_next
from vaultmem.services.finding.caution import add_cautions
from vaultmem.services.finding.elsewhere import tell_doubts
from vaultmem.services.finding.hits import list_sections
from vaultmem.services.finding.preferences import find_wishes
from vaultmem.services.finding.recall import Scorer
from vaultmem.services.finding.trust import trusted_documents
from vaultmem.services.reading.behind import sync_once
from vaultmem.services.reading.handles import name_notes
from vaultmem.services.reading.heal import heals
from vaultmem.services.reading.texts import read_sections
from vaultmem.storage.links import LinkStore
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.links.link import Link


def add_remarks(
    vault: Vault, pinned: Sequence[Hit], relevant: Sequence[Hit], trusted: frozenset[int]
) -> tuple[list[Hit], Remarks]:
    """Return the relevant sections, opponents side by side, and what is to be said of them.

    A note that contradicts a relevant one, and counts no less, is added where nothing hides it
    (its state, say). `trusted` are the documents whose promotion is on record.
    """
    relations = _find_relations(vault, [*pinned, *relevant])
    partners = _find_partners(vault, relations, [*pinned, *relevant])
    hits = bring_together(relevant, relations, partners, trusted)
    return hits, Remarks(relations)


def _find_relations(vault: Vault, hits: Sequence[Hit]) -> list[Contradiction]:
    """Return the conflicts that the notes' properties and titles tell of."""
    found = find_same_titles(hits)
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
    distinct: dict[frozenset[int], Contradiction] = {}
    for each in sorted(found, key=_rank_relation):
        distinct.setdefault(frozenset((each.first, each.second)), each)
    return list(distinct.values())


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
    vault: Vault, relations: Iterable[Contradiction], hits: Sequence[Hit]
) -> dict[int, Hit]:
    """Return the first section of each note that is in a conflict and was not found itself."""
    known = {hit.record.document for hit in hits}
    wanted = {n for each in relations for n in (each.first, each.second)} - known
    if not wanted:
        return {}
    visible = NoteFilter()
    records = [
        record
        for record in vault.view.records_of(wanted).values()
        if visible.admits(record.kind, record.state, record.tags, record.context, record.pinned)
    ]
    return {hit.record.document: hit for hit in _first_sections(vault, records)}


def _first_sections(vault: Vault, records: Sequence[NoteRecord]) -> list[Hit]:
    sections = vault.view.sections_of({record.document for record in records}, [0])
    places = [(r, sections[r.document, 0]) for r in records if (r.document, 0) in sections]
    return [
        Hit(record, section, text, 0.0, (), 0.0, 1.0)
        for record, section, text in read_sections(vault, places)
    ]


#: How many sections are considered for a pack, and shown where probably nothing answers.
_CANDIDATES, _NEAREST = 50, 5


@heals
def make_pack(
    vault: Vault,
    text: str = "",
    budget: int | None = None,
    *,
    style: PackStyle = PackStyle.MARKDOWN,
    labels: PackLabels | None = None,
    expand_links: bool = False,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
    looks_elsewhere: bool = False,
) -> Pack:
    """Return the pack for a question; for an empty one, pinned and most recent notes.

    With `expand_links`, what the best sections link to is found as well; with `dense`, what means
    the same; `reranker` puts the best in its order. With `looks_elsewhere`, an answer that is not
    sure names who has one. What is on disk is taken in first, once for each `open_vault`. The same
    notes, commit, question and budget give the same bytes.

    Raises:
        RefusedError: the budget is under 100 tokens, or the question too long.
    """
    sync_once(vault)
    trusted = trusted_documents(vault)
    pinned = pinned_sections(vault, trusted)
    query = parse_query(text, limit=_CANDIDATES)
    is_asked = bool(text.strip())
    if is_asked:
        query, relevant = recall_any(vault, query, dense, reranker=reranker)
    else:
        relevant = _recent_sections(vault)
    if expand_links:
        from vaultmem.services.finding.links import expand_hits

        relevant = expand_hits(vault, query, relevant)
    sureness = None
    told: tuple[str, ...] = ()
    if is_asked:
        sureness = judge_hits(relevant)
        told = tell_doubts(vault, query, relevant, sureness, looks_elsewhere)
    if sureness is Sureness.NONE:
        relevant = relevant[:_NEAREST]
    relevant = order_by_worth(add_next(vault, query.filter, relevant))
    source = _date(pack_source(vault), [*pinned, *relevant])
    relevant, remarks = add_remarks(vault, pinned, relevant, trusted)
    moment = source.at or max((hit.record.changed for hit in [*pinned, *relevant]), default=0)
    pinned, relevant = (add_cautions(vault, hits, moment) for hits in (pinned, relevant))
    wishes = find_wishes(vault, text, relevant, trusted)
    handles = name_notes(vault, [*pinned, *relevant, *wishes.hits])
    _, flat_tokens = vault.view.totals()
    return build_pack(
        pinned,
        relevant,
        trusted,
        source,
        budget if budget is not None else vault.config.budget,
        vault.config.pinned_share,
        flat_tokens,
        remarks._replace(handles=handles, told=told),
        style,
        wishes,
        labels or parse_labels(vault.config.labels),
    )._replace(replaced=query.replaced, sureness=sureness)


def pack_source(vault: Vault) -> PackSource:
    """Return branch, commit and commit time that a pack names."""
    if vault.view.sources:
        source, *others = vault.view.sources
        named = tuple((each.name, each.commit) for each in others)
        name = source.name if others else source.branch
        return PackSource(name, source.commit, source.at, named)
    head = vault.head()
    if head is None:
        return PackSource("", "", 0)
    at = vault.state.get("head_time") if vault.state.get("head") == head.commit else "0"
    return PackSource(escape_bytes(head.branch), head.commit, int(at or 0))


def _date(source: PackSource, hits: Sequence[Hit]) -> PackSource:
    """Return the source with the time of the newest note where there is no commit."""
    if source.commit:
        return source
    return source._replace(at=int(max(map(written_at, hits), default=0)))


def pinned_sections(vault: Vault, trusted: frozenset[int]) -> list[Hit]:
    """Return all pinned sections: policies that may instruct first, then by name."""
    visible = NoteFilter()
    records = [
        record
        for record in vault.view.pinned()
        if visible.admits(record.kind, record.state, record.tags, record.context, True)
    ]
    records.sort(
        key=lambda record: (record.document not in trusted, _pin_rank(record.path), record.path)
    )
    return list_sections(vault, records)


def _pin_rank(path: str) -> int:
    return PINNED_FILES.index(path) if path in PINNED_FILES else len(PINNED_FILES)


def _recent_sections(vault: Vault) -> list[Hit]:
    visible = NoteFilter()
    records = [
        record
        for record in vault.view.recent(_CANDIDATES * 4)
        if visible.admits(record.kind, record.state, record.tags, record.context, False)
    ]
    return list_sections(vault, records[:_CANDIDATES])[:_CANDIDATES]
