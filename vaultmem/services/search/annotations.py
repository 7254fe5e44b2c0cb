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
from vaultmem.core.packs.division import group_by_vault
from vaultmem.core.packs.passages import choose_sentence, has_sentence
from vaultmem.core.packs.warnings import find_caution, written_at
from vaultmem.core.search.query import Hit, NoteFilter, NoteKey
from vaultmem.core.search.terms import count_terms
from vaultmem.core.text.paths import fold, is_note_name
from vaultmem.errors import VaultError
from vaultmem.services.search.search import list_sections
from vaultmem.services.search.vault_set import VaultSet, label_vault
from vaultmem.services.views.texts import read_sections, read_text
from vaultmem.storage.arrivals import read_found
from vaultmem.storage.link_table import LinkStore
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.conflict import ConflictingText
    from vaultmem.core.notes.link_syntax import Link
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.core.similarity.compare import KnownText
    from vaultmem.services.search.link_walk import LinkGraph

#: The label of a section that states a wish, until the owner has decided about it.
WISH = "what the user wants, not promoted"

#: The share of a wish that a preference must state to match it.
_SAID = 0.75


def add_cautions(vault: Vault, hits: Sequence[Hit], at: float) -> list[Hit]:
    """Return the hits with their cautions; `at` is the time that counts as now."""
    cited = LinkStore(vault.state).cites({hit.record.document for hit in hits}) if hits else {}
    if cited:
        hits = _add_anchors(vault, hits, cited)
    changed = _find_changed_notes(vault, hits, cited) if cited else {}
    cautions = [find_caution(hit, at, changed.get(hit.record.document, ())) for hit in hits]
    if any(hit.record.wishes for hit in hits):
        cautions = _add_wishes(vault, hits, cautions)
    return [
        hit._replace(caution=caution, otherwise=_find_otherwise(vault, hit)) if caution else hit
        for hit, caution in zip(hits, cautions, strict=True)
    ]


def _add_wishes(vault: Vault, hits: Sequence[Hit], cautions: Sequence[str]) -> list[str]:
    """Return the cautions, with `WISH` for each section that states an open wish."""
    waiting = list_open_wishes(vault, [hit.record for hit in hits])
    found = []
    for hit, caution in zip(hits, cautions, strict=True):
        text = " ".join(hit.text.split())
        is_wish = any(wish in text for wish in waiting.get(hit.record.document, ()))
        found.append("; ".join(filter(None, (caution, WISH if is_wish else ""))))
    return found


def list_open_wishes(vault: Vault, records: Iterable[NoteRecord]) -> dict[int, tuple[str, ...]]:
    """Return, by document, the wishes of notes that no preference of any state matches."""
    stating = {record.document: record for record in records if record.wishes}
    if not stating:
        return {}
    known = list_preferences(vault)
    left = {
        document: tuple(wish for wish in record.wishes if not is_known_wish(wish, known))
        for document, record in stating.items()
    }
    return {document: wishes for document, wishes in left.items() if wishes}


def list_preferences(vault: Vault) -> list[KnownText]:
    """Return the texts of all preferences, including rejected ones."""
    from vaultmem.core.similarity.compare import KnownText
    from vaultmem.services.views.read_notes import find_note

    records = vault.view.records(f"d.kind = '{NoteKind.PREFERENCE.value}'")
    notes = (find_note(vault, record.path) for record in records)
    return [KnownText(note.visible_body, note.title) for note in notes if note]


def is_known_wish(wish: str, known: Iterable[KnownText]) -> bool:
    """Return whether a preference states a wish in the same or nearly the same words."""
    from vaultmem.core.similarity.compare import compare_texts  # Its tables take time to read.

    terms = _find_terms(wish)
    near = (e for e in known if 2 * len(terms & _find_terms(f"{e.title}\n{e.text}")) >= len(terms))
    return any(compare_texts(wish, each).is_said(_SAID) for each in near)


@lru_cache(maxsize=1024)  # Each wish is compared with the same preferences.
def _find_terms(text: str) -> frozenset[str]:
    return frozenset(count_terms(text))


def _find_otherwise(vault: Vault, hit: Hit) -> tuple[ConflictingText, ...]:
    """Return the text of another side of a merge for words of a section."""
    if not hit.record.conflict or hit.record.caution != hit.record.conflict:
        return ()
    from vaultmem.core.notes.note import parse_note

    text = read_text(vault, hit.record.path, hit.record.blob) or ""
    note = parse_note(PurePosixPath(hit.record.path), text.encode("utf-8", "surrogatepass"))
    return note.otherwise.get(hit.section.ordinal, ())


def _add_anchors(
    vault: Vault, hits: Sequence[Hit], cited: Mapping[int, Sequence[Link]]
) -> list[Hit]:
    """Return hits with the states of the code that their notes cite."""
    from vaultmem.services.anchors.check import check_documents, limit_query

    records = {hit.record.document: hit.record for hit in hits}
    checks = check_documents(vault, records, cited, limit_query())
    return [
        hit._replace(anchors=checks[hit.record.document]) if hit.record.document in checks else hit
        for hit in hits
    ]


def _find_changed_notes(
    vault: Vault, hits: Sequence[Hit], cited: Mapping[int, Sequence[Link]]
) -> dict[int, list[str]]:
    """Return, by document, the cited notes that changed after the citing one."""
    documents = {hit.record.document: hit for hit in hits}
    found: dict[int, list[str]] = {}
    graph: LinkGraph | None = None
    for document, links in cited.items():
        for link in links:
            hit = documents[document]
            path: str | None = link.path
            if link.kind != "path":
                from vaultmem.services.search.link_walk import LinkGraph

                graph = graph or LinkGraph(vault)
                path = graph.names.find(link, hit.record.path)
            since = max(written_at(hit), hit.record.changed)
            if path and is_note_name(path) and (vault.view.changed_at(path) or 0) > since:
                found.setdefault(document, []).append(path)
    return found


def find_shown_line(vault: Vault, hit: Hit) -> str:
    """Return a sentence from the rest of the note if the hit's text has no sentence, or else "".

    For a compacted note, it is a sentence for terms that only the full text contains.
    """
    terms = [match.term for match in hit.matches]
    if hit.record.full_text:
        in_body = {match.term for match in hit.matches if "body" in match.fields}
        lacking = in_body - count_terms(hit.text).keys()
        line = choose_sentence(_read_full(vault, hit), terms) if lacking else ""
        return line if lacking.intersection(count_terms(line)) else ""
    if has_sentence(hit.text):
        return ""
    whole = "\n\n".join(each.text for each in list_sections(vault, [hit.record]))
    return choose_sentence(whole, terms) if has_sentence(whole) else ""


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
    found = find_same_titles(hits)
    given = {
        name: ([hit.record for hit in own], name) for name, own in group_by_vault(hits).items()
    }
    for told in vaults.run(find_contradictions, given).values():
        found += told
    distinct: dict[frozenset[NoteKey], Contradiction] = {}
    for one in sorted(found, key=_rank_relation):
        distinct.setdefault(frozenset((one.first, one.second)), one)
    return list(distinct.values())


def find_contradictions(
    vault: Vault, notes: Sequence[NoteRecord], name: str = ""
) -> list[Contradiction]:
    """Return the contradictions of notes that properties name, or that incoming notes brought.

    `name` is the name of the vault.
    """
    found: list[tuple[int, int, str, int]] = _find_arrived(vault, notes)
    written = _find_written(vault, notes)
    others: list[int | None] = []
    if written:
        from vaultmem.services.search.link_walk import resolve_few

        others = resolve_few(vault, [(path, link) for _, path, link in written])
    shown = {each.document for each in notes}
    for (document, _, link), other in zip(written, others, strict=True):
        if other is None or other == document or not shown & {document, other}:
            continue
        if link.property == "superseded_by":
            found.append((other, document, "supersedes", document))
        else:
            found.append((document, other, link.property, document))
    if not found:
        return []
    records = vault.view.records_of({number for each in found for number in each[:2]})
    keys = {number: (name, each.path, each.blob) for number, each in records.items()}
    return [
        Contradiction(keys[first], keys[second], why, keys.get(by))
        for first, second, why, by in found
        if first in keys and second in keys
    ]


def _find_arrived(vault: Vault, notes: Sequence[NoteRecord]) -> list[tuple[int, int, str, int]]:
    """Return the undecided contradictions between these notes and incoming ones.

    They were found when the notes arrived.
    """
    shown = {(each.path, each.blob) for each in notes}
    found: list[tuple[int, int, str, int]] = []
    for each in read_found(vault.state):
        older, newer = (each.path, each.blob), (each.into, each.into_blob)
        if each.action in {Action.UPDATE, Action.CONTRADICTION} and shown & {older, newer}:
            known = vault.manifest.find_documents([older, newer])
            if older in known and newer in known:
                found.append((known[newer], known[older], "contradicts", -1))
    return found


def _rank_relation(told: Contradiction) -> tuple[bool, bool, NoteKey, NoteKey]:
    """Return a sort key: first relations that order two notes, then contradictions, then titles."""
    is_title = told.why not in CONFLICT_PROPERTIES
    return (told.why not in ORDERED, is_title, told.first, told.second)


def _find_written(vault: Vault, notes: Sequence[NoteRecord]) -> list[tuple[int, str, Link]]:
    """Return the links in conflict properties that are in these notes, or can point to one.

    Each is the linking document, its path, and the link.
    """
    shown = {each.document: each.path for each in notes}
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
    vaults: VaultSet, relations: Iterable[Contradiction], hits: Sequence[Hit]
) -> dict[NoteKey, Hit]:
    """Return the first section of each note in a contradiction that was not found itself."""
    known = {hit.note for hit in hits}
    wanted: dict[str, list[str]] = {}
    for name, path, _ in {n for each in relations for n in (each.first, each.second)} - known:
        wanted.setdefault(name, []).append(path)
    found = vaults.run(_first_sections, {name: (paths,) for name, paths in wanted.items()})
    named = (hit for name, own in found.items() for hit in label_vault(name, own))
    return {hit.note: hit for hit in named if hit.note not in known}


def _first_sections(vault: Vault, paths: Sequence[str]) -> list[Hit]:
    """Return the first section of each of some notes, without hidden states."""
    marks = ", ".join("?" * len(paths))
    found = vault.view.records(f"d.path IN ({marks})", paths)
    records = [*filter(NoteFilter().admits, found)]
    sections = vault.view.sections_of({record.document for record in records}, [0])
    places = [(r, sections[r.document, 0]) for r in records if (r.document, 0) in sections]
    return [
        Hit(record, section, text, 0.0, (), 0.0, 1.0)
        for record, section, text in read_sections(vault, places)
    ]
