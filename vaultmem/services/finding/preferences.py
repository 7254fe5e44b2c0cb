"""Read what the owner prefers, as far as it concerns a question."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

from vaultmem.core.finding.hit import Hit
from vaultmem.core.lifecycle import Kind, State
from vaultmem.core.preferences.concern import Preference, choose_preferences
from vaultmem.services.finding.hits import list_sections
from vaultmem.services.reading.texts import read_text
from vaultmem.vault import Vault


def find_wishes(
    vault: Vault, question: str, relevant: Sequence[Hit], trusted: Collection[int]
) -> list[Hit]:
    """Return the active preferences on record that concern a question, the newest first of equals.

    `relevant` is what recall found for it, `trusted` the documents whose promotion is on record.
    """
    kept = vault.view.records_of(trusted).values() if trusted else ()
    records = [
        record for record in kept if record.kind == Kind.PREFERENCE and record.state == State.ACTIVE
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


@lru_cache(maxsize=512)
def _read_topic(text: str) -> str:
    """Return what a preference is about by its property; "" if that is everything."""
    from vaultmem.core.notes.frontmatter import read_frontmatter

    prop = read_frontmatter(text).get("about")
    if prop is None or prop.kind == "null":
        return ""
    return prop.value if isinstance(prop.value, str) else " ".join(prop.value)
