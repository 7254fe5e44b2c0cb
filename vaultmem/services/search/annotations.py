"""Annotate sections: warnings, a sentence to show, and contradictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.curation.proposal import Action
from vaultmem.core.lifecycle import NoteKind
from vaultmem.core.packs.conflicts import (
    CONFLICT_PROPERTIES,
    ORDERED,
    Contradiction,
    Remarks,
    find_same_titles,
    group_opponents,
)
from vaultmem.core.packs.passages import choose_sentence, has_sentence
from vaultmem.core.packs.vault_parts import group_by_vault
from vaultmem.core.packs.warnings import find_caution, written_at
from vaultmem.core.search.query import Hit, NoteFilter, NoteKey
from vaultmem.core.search.terms import count_terms
from vaultmem.core.text.paths import fold, is_note_name
from vaultmem.errors import VaultError
from vaultmem.services.search.search import list_sections
from vaultmem.services.search.vault_set import VaultSet, label_vault
from vaultmem.services.views.texts import read_sections, read_text
from vaultmem.storage.link_table import LinkStore
from vaultmem.storage.uncompared_notes import read_found
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.conflict import ConflictingText
    from vaultmem.core.notes.link_syntax import Link
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.core.similarity.compare import KnownText
    from vaultmem.services.search.link_walk import LinkGraph

#: The label of a section that states a wish, until the owner has decided about it.
WISH_LABEL = "what the user wants, not promoted"

#: The share of a wish that a preference must state to match it.
_MIN_STATED_SHARE = 0.75


def add_cautions(vault: Vault, hits: Sequence[Hit], at: float) -> list[Hit]:
    """Return the hits with their cautions; `at` is the time that counts as now."""
    citations = LinkStore(vault.state).cites({hit.record.document for hit in hits}) if hits else {}
    if citations:
        hits = _add_anchors(vault, hits, citations)
    changed_notes = _find_changed_notes(vault, hits, citations) if citations else {}
    cautions = [find_caution(hit, at, changed_notes.get(hit.record.document, ())) for hit in hits]
    if any(hit.record.wishes for hit in hits):
        cautions = _add_wishes(vault, hits, cautions)
    return [
        hit._replace(caution=caution, conflicting_texts=_find_conflicting_texts(vault, hit))
        if caution
        else hit
        for hit, caution in zip(hits, cautions, strict=True)
    ]


def _add_wishes(vault: Vault, hits: Sequence[Hit], cautions: Sequence[str]) -> list[str]:
    """Return the cautions, with `WISH_LABEL` for each section that states an open wish."""
    open_wishes = list_open_wishes(vault, [hit.record for hit in hits])
    labels = []
    for hit, caution in zip(hits, cautions, strict=True):
        text = " ".join(hit.text.split())
        is_wish = any(wish in text for wish in open_wishes.get(hit.record.document, ()))
        labels.append("; ".join(filter(None, (caution, WISH_LABEL if is_wish else ""))))
    return labels


def list_open_wishes(vault: Vault, records: Iterable[NoteRecord]) -> dict[int, tuple[str, ...]]:
    """Return, by document, the wishes of notes that no preference of any state matches."""
    sources = {record.document: record for record in records if record.wishes}
    if not sources:
        return {}
    preferences = list_preferences(vault)
    open_wishes = {
        document: tuple(wish for wish in record.wishes if not is_known_wish(wish, preferences))
        for document, record in sources.items()
    }
    return {document: wishes for document, wishes in open_wishes.items() if wishes}


def list_preferences(vault: Vault) -> list[KnownText]:
    """Return the texts of all preferences, including rejected ones."""
    from vaultmem.core.similarity.compare import KnownText
    from vaultmem.services.views.read_notes import find_note

    records = vault.view.records(f"d.kind = '{NoteKind.PREFERENCE.value}'")
    notes = (find_note(vault, record.path) for record in records)
    return [KnownText(note.visible_body, note.title) for note in notes if note]


def is_known_wish(wish: str, preferences: Iterable[KnownText]) -> bool:
    """Return whether a preference states a wish in the same or nearly the same words."""
    from vaultmem.core.similarity.compare import compare_texts  # Its tables take time to read.

    terms = _find_terms(wish)
    candidates = (
        e for e in preferences if 2 * len(terms & _find_terms(f"{e.title}\n{e.text}")) >= len(terms)
    )
    return any(compare_texts(wish, each).is_said(_MIN_STATED_SHARE) for each in candidates)


@lru_cache(maxsize=1024)  # Each wish is compared with the same preferences.
def _find_terms(text: str) -> frozenset[str]:
    return frozenset(count_terms(text))


def _find_conflicting_texts(vault: Vault, hit: Hit) -> tuple[ConflictingText, ...]:
    """Return the text of another side of a merge for words of a section."""
    if not hit.record.conflict or hit.record.caution != hit.record.conflict:
        return ()
    from vaultmem.core.notes.note import parse_note

    text = read_text(vault, hit.record.path, hit.record.blob) or ""
    note = parse_note(PurePosixPath(hit.record.path), text.encode("utf-8", "surrogatepass"))
    return note.conflicting_texts.get(hit.section.ordinal, ())


def _add_anchors(
    vault: Vault, hits: Sequence[Hit], citations: Mapping[int, Sequence[Link]]
) -> list[Hit]:
    """Return hits with the states of the code that their notes cite."""
    from vaultmem.services.anchors.check import check_documents, limit_query

    records = {hit.record.document: hit.record for hit in hits}
    checks = check_documents(vault, records, citations, limit_query())
    return [
        hit._replace(anchors=checks[hit.record.document]) if hit.record.document in checks else hit
        for hit in hits
    ]


def _find_changed_notes(
    vault: Vault, hits: Sequence[Hit], citations: Mapping[int, Sequence[Link]]
) -> dict[int, list[str]]:
    """Return, by document, the cited notes that changed after the citing one."""
    documents = {hit.record.document: hit for hit in hits}
    changed_paths: dict[int, list[str]] = {}
    graph: LinkGraph | None = None
    for document, links in citations.items():
        for link in links:
            hit = documents[document]
            path: str | None = link.path
            if link.kind != "path":
                from vaultmem.services.search.link_walk import LinkGraph

                graph = graph or LinkGraph(vault)
                path = graph.names.find(link, hit.record.path)
            since = max(written_at(hit), hit.record.changed)
            if path and is_note_name(path) and (vault.view.changed_at(path) or 0) > since:
                changed_paths.setdefault(document, []).append(path)
    return changed_paths


def find_shown_line(vault: Vault, hit: Hit) -> str:
    """Return a sentence from the rest of the note if the hit's text has no sentence, or else "".

    For a compacted note, it is a sentence for terms that only the full text contains.
    """
    terms = [match.term for match in hit.matches]
    if hit.record.full_text:
        in_body = {match.term for match in hit.matches if "body" in match.fields}
        missing_terms = in_body - count_terms(hit.text).keys()
        line = choose_sentence(_read_full(vault, hit), terms) if missing_terms else ""
        return line if missing_terms.intersection(count_terms(line)) else ""
    if has_sentence(hit.text):
        return ""
    full_text = "\n\n".join(each.text for each in list_sections(vault, [hit.record]))
    return choose_sentence(full_text, terms) if has_sentence(full_text) else ""


def _read_full(vault: Vault, hit: Hit) -> str:
    """Return the visible full text of a compacted note, "" if it is not available."""
    from vaultmem.services.views.texts import read_full_note

    path, full_text = PurePosixPath(hit.record.path), hit.record.full_text
    try:
        return read_full_note(vault, path, full_text).visible_body
    except VaultError:  # A shallow clone can lack it.
        return ""


def add_remarks(
    vaults: VaultSet, pinned: Sequence[Hit], relevant: Sequence[Hit], trusted: frozenset[NoteKey]
) -> tuple[list[Hit], Remarks]:
    """Return the relevant sections with contradicting ones adjacent, and the contradictions.

    A note that contradicts a relevant one is added if it ranks no lower and its state does not hide
    it. `trusted` are the trusted notes.
    """
    relations = _find_relations(vaults, [*pinned, *relevant])
    partners = _find_partners(vaults, relations, [*pinned, *relevant])
    hits = group_opponents(relevant, relations, partners, trusted)
    return hits, Remarks(relations)


def _find_relations(vaults: VaultSet, hits: Sequence[Hit]) -> list[Contradiction]:
    """Return the contradictions that the notes' properties and titles show."""
    relations = find_same_titles(hits)
    arguments = {
        name: ([hit.record for hit in own], name) for name, own in group_by_vault(hits).items()
    }
    for contradictions in vaults.run(find_contradictions, arguments).values():
        relations += contradictions
    distinct: dict[frozenset[NoteKey], Contradiction] = {}
    for relation in sorted(relations, key=_rank_relation):
        distinct.setdefault(frozenset((relation.first, relation.second)), relation)
    return list(distinct.values())


def find_contradictions(
    vault: Vault, notes: Sequence[NoteRecord], name: str = ""
) -> list[Contradiction]:
    """Return the contradictions of notes that properties name, or that incoming notes brought.

    `name` is the name of the vault.
    """
    rows: list[tuple[int, int, str, int]] = _find_arrived(vault, notes)
    links = _find_written(vault, notes)
    targets: list[int | None] = []
    if links:
        from vaultmem.services.search.link_walk import resolve_few

        targets = resolve_few(vault, [(path, link) for _, path, link in links])
    documents = {each.document for each in notes}
    for (document, _, link), target in zip(links, targets, strict=True):
        if target is None or target == document or not documents & {document, target}:
            continue
        if link.property == "superseded_by":
            rows.append((target, document, "supersedes", document))
        else:
            rows.append((document, target, link.property, document))
    if not rows:
        return []
    records = vault.view.records_of({number for each in rows for number in each[:2]})
    keys = {number: (name, each.path, each.blob) for number, each in records.items()}
    return [
        Contradiction(keys[first], keys[second], why, keys.get(by))
        for first, second, why, by in rows
        if first in keys and second in keys
    ]


def _find_arrived(vault: Vault, notes: Sequence[NoteRecord]) -> list[tuple[int, int, str, int]]:
    """Return the undecided contradictions between these notes and incoming ones.

    They were found when the notes arrived.
    """
    versions = {(note.path, note.blob) for note in notes}
    rows: list[tuple[int, int, str, int]] = []
    for arrival in read_found(vault.state):
        older, newer = (arrival.path, arrival.blob), (arrival.into, arrival.into_blob)
        if arrival.action in {Action.UPDATE, Action.CONTRADICTION} and versions & {older, newer}:
            documents = vault.manifest.find_documents([older, newer])
            if older in documents and newer in documents:
                rows.append((documents[newer], documents[older], "contradicts", -1))
    return rows


def _rank_relation(relation: Contradiction) -> tuple[bool, bool, NoteKey, NoteKey]:
    """Return a sort key: first relations that order two notes, then contradictions, then titles."""
    is_title = relation.reason not in CONFLICT_PROPERTIES
    return (relation.reason not in ORDERED, is_title, relation.first, relation.second)


def _find_written(vault: Vault, notes: Sequence[NoteRecord]) -> list[tuple[int, str, Link]]:
    """Return the links in conflict properties that are in these notes, or can point to one.

    Each is the linking document, its path, and the link.
    """
    own_paths = {each.document: each.path for each in notes}
    names = {fold(path).rpartition("/")[2].removesuffix(".md") for path in own_paths.values()}
    store = LinkStore(vault.state)
    names.update(fold(alias) for each in store.aliases_of(own_paths).values() for alias in each)
    pairs = []
    for document, links in store.links_in(CONFLICT_PROPERTIES).items():
        for link in links:
            name = fold(link.path).rpartition("/")[2].removesuffix(".md")
            if document in own_paths or name in names:
                pairs.append((document, link))
    ids = ", ".join(str(document) for document, _ in pairs)
    paths = vault.view.paths(f"d.id IN ({ids})") if pairs else {}
    return [(document, paths[document], link) for document, link in pairs if document in paths]


def _find_partners(
    vaults: VaultSet, relations: Iterable[Contradiction], hits: Sequence[Hit]
) -> dict[NoteKey, Hit]:
    """Return the first section of each note in a contradiction that was not found itself."""
    notes = {hit.note for hit in hits}
    paths_by_vault: dict[str, list[str]] = {}
    for name, path, _ in {n for each in relations for n in (each.first, each.second)} - notes:
        paths_by_vault.setdefault(name, []).append(path)
    hits_by_vault = vaults.run(
        _first_sections, {name: (paths,) for name, paths in paths_by_vault.items()}
    )
    partners = (hit for name, own in hits_by_vault.items() for hit in label_vault(name, own))
    return {hit.note: hit for hit in partners if hit.note not in notes}


def _first_sections(vault: Vault, paths: Sequence[str]) -> list[Hit]:
    """Return the first section of each of some notes, without hidden states."""
    marks = ", ".join("?" * len(paths))
    candidates = vault.view.records(f"d.path IN ({marks})", paths)
    records = [*filter(NoteFilter().admits, candidates)]
    sections = vault.view.sections_of({record.document for record in records}, [0])
    places = [(r, sections[r.document, 0]) for r in records if (r.document, 0) in sections]
    return [
        Hit(record, section, text, 0.0, (), 0.0, 1.0)
        for record, section, text in read_sections(vault, places)
    ]
