"""Read what the owner prefers, as far as it concerns a question; and whole notes as sections."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from vaultmem.core.finding.hit import Hit
from vaultmem.core.lifecycle import Kind, State
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.preferences.concern import Preference, Wishes, choose_preferences
from vaultmem.services.finding.hits import name_refs
from vaultmem.services.reading.texts import read_sections, read_text
from vaultmem.vault import Vault


def find_wishes(
    vault: Vault, question: str, relevant: Sequence[Hit], trusted: frozenset[int]
) -> Wishes:
    """Return the active preferences on record that concern a question, the newest first of equals.

    `relevant` is what recall found for it, `trusted` the documents whose promotion is on record.
    """
    kept = vault.view.records_of(trusted).values() if trusted else ()
    records = [
        record for record in kept if record.kind == Kind.PREFERENCE and record.state == State.ACTIVE
    ]
    if not records:
        return Wishes()
    records.sort(key=lambda record: (-record.changed, record.path))
    topics = {
        record.document: _read_topic(read_text(vault, record.path, record.blob) or "")
        for record in records
    }
    known = [Preference(hit, topics[hit.record.document]) for hit in list_sections(vault, records)]
    return Wishes(choose_preferences(known, question, relevant), vault.config.preference_share)


@lru_cache(maxsize=512)
def _read_topic(text: str) -> str:
    """Return what a preference is about by its property; "" if that is everything."""
    from vaultmem.core.notes.frontmatter import read_frontmatter

    prop = read_frontmatter(text).get("about")
    if prop is None or prop.kind == "null":
        return ""
    return prop.value if isinstance(prop.value, str) else " ".join(prop.value)


def list_sections(vault: Vault, records: Sequence[NoteRecord]) -> list[Hit]:
    """Return all sections of notes, in the order of the notes."""
    sections = vault.view.sections_of({record.document for record in records})
    ordered: dict[int, list[int]] = {}
    for document, ordinal in sorted(sections):
        ordered.setdefault(document, []).append(ordinal)
    places = [
        (record, sections[record.document, ordinal])
        for record in records
        for ordinal in ordered.get(record.document, [])
    ]
    return [
        Hit(record, section, text, 0.0, (), 0.0, 1.0, name_refs(vault, record))
        for record, section, text in read_sections(vault, places)
    ]
