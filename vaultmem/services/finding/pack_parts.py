"""Find what a pack has besides its hits: pinned, recent and neighbouring notes, preferences."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.finding.weights import WEIGHTS
from vaultmem.core.lifecycle import Kind, State
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.pack_item import PackSource
from vaultmem.core.paths import LEARNED, PINNED_FILES
from vaultmem.core.preferences.concern import Preference, choose_preferences
from vaultmem.core.safe_text import escape_bytes
from vaultmem.core.sessions.session import FOLDER
from vaultmem.services.finding.score import choose_scope
from vaultmem.services.finding.search import find_places, list_sections, name_refs
from vaultmem.services.finding.trust import trusted_documents
from vaultmem.services.reading.texts import read_section, read_text
from vaultmem.vault import Vault

#: How many sections are considered for a pack.
CANDIDATES = 50


def list_own(vault: Vault, pins: bool) -> tuple[list[NoteRecord], list[Hit]]:
    """Return the trusted notes, and if it `pins`, the pinned sections."""
    trusted = trusted_documents(vault)
    records = [*vault.view.records_of(trusted).values()] if trusted else []
    return records, pinned_sections(vault, trusted) if pins else []


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


def pinned_sections(vault: Vault, trusted: frozenset[int]) -> list[Hit]:
    """Return all pinned sections: policies that may instruct first, then by name.

    What agents wrote comes last: what they pin or learn has the room that the owner's leaves.
    """
    records = [*filter(NoteFilter().admits, vault.view.pinned())]
    records.sort(key=lambda r: (r.document not in trusted, _pin_rank(r.path), r.path))
    return sorted(list_sections(vault, records), key=partial(_stands_behind, trusted))


def _stands_behind(trusted: Container[int], hit: Hit) -> bool:
    """Tell whether an agent wrote a section that is not trusted: its note, or what was learned."""
    is_learned = hit.record.path == PINNED_FILES[0] and hit.section.heading == LEARNED
    is_agents = is_learned or hit.record.source == "agent"
    return is_agents and hit.record.document not in trusted


def _pin_rank(path: str) -> int:
    return PINNED_FILES.index(path) if path in PINNED_FILES else len(PINNED_FILES)


def list_recent(vault: Vault, has_sessions: bool) -> list[NoteRecord]:
    """Return the notes that were written last, newest first, with those of sessions if wanted."""
    return [
        record
        for record in filter(NoteFilter().admits, vault.view.recent(CANDIDATES * 4))
        if has_sessions or record.context != FOLDER
    ][:CANDIDATES]


#: Of the hits, best first, how many are looked at, and what of its score one gives to the note
#: that was written next.
_FIRST, _SHARE = 5, 0.7


def add_next(vault: Vault, hits: Sequence[Hit], note_filter: NoteFilter) -> list[Hit]:
    """Return the hits, behind each of the first the note next to it, as beside it.

    Who is next to whom is what the ranking knows: short notes of a session, or with a tag in
    common. Such a note is brought without a word of the question of its own, for a share of the
    score: where one asks, the next may answer. What was found itself stays as it was found.
    """
    known = {hit.local_key for hit in hits}
    nexts = _find_next(vault, note_filter, hits[:_FIRST])
    ordered: list[Hit] = []
    for hit in hits:
        ordered.append(hit)
        beside = nexts.get(hit.local_key)
        if beside and beside.local_key not in known:
            known.add(beside.local_key)
            ordered.append(beside)
    return ordered


def _find_next(
    vault: Vault, note_filter: NoteFilter, hits: Sequence[Hit]
) -> dict[tuple[int, int], Hit]:
    """Return by document and section the section written next, of those that have one."""
    scope = choose_scope(vault, note_filter)
    if scope is None or scope.eligible.neighbours is None:
        return {}
    _, snapshot, eligible = scope
    after = scope.eligible.neighbours[len(WEIGHTS.neighbours)]
    documents = snapshot.column("document")
    found = {}
    for hit in hits:
        rows = after[(documents == hit.record.document) & eligible.mask]
        places = find_places(scope, rows[rows >= 0].tolist())
        for record, section in places.values():
            if (text := read_section(vault, record, section)) is not None:
                refs = name_refs(vault, record)
                score, path = _SHARE * hit.score, hit.record.path
                beside = Hit(record, section, text, score, (), 0.0, 1.0, refs, beside=path)
                found[hit.local_key] = beside
    return found


def find_wishes(
    vault: Vault, question: str, relevant: Sequence[Hit], trusted: Sequence[NoteRecord]
) -> list[Hit]:
    """Return the active preferences on record that concern a question, the newest first of equals.

    `relevant` is what recall found for it, `trusted` the notes whose promotion is on record.
    """
    records = [
        record
        for record in trusted
        if record.kind == Kind.PREFERENCE and record.state == State.ACTIVE
    ]
    if not records:
        return []
    records.sort(key=lambda record: (-record.changed, record.path))
    topics = {
        record.document: _read_topic(read_text(vault, record.path, record.blob) or "")
        for record in records
    }
    known = [Preference(hit, topics[hit.record.document]) for hit in list_sections(vault, records)]
    return choose_preferences(known, question, relevant)


def _read_topic(text: str) -> str:
    """Return what a preference is about by its property; "" if that is everything."""
    from vaultmem.core.notes.frontmatter import read_frontmatter

    prop = read_frontmatter(text).get("about")
    if prop is None or prop.kind == "null":
        return ""
    return prop.value if isinstance(prop.value, str) else " ".join(prop.value)
