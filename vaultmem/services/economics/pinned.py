"""What is pinned, and what it costs in every pack."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.pack import has_words
from vaultmem.core.packs.pack_text import PackItem, render_item
from vaultmem.core.packs.tokens import count_tokens
from vaultmem.services.finding.pack import pinned_sections
from vaultmem.services.notes.trust import trusted_documents
from vaultmem.vault import Vault


class PinnedNote(NamedTuple):
    """A pinned note, its sections with words in them, and their tokens as a pack shows them."""

    record: NoteRecord
    sections: int
    tokens: int


def list_pinned(vault: Vault) -> list[PinnedNote]:
    """Return the pinned notes in the order in which a pack shows them; the vault must be in sync.

    Hidden notes (archived, deprecated, quarantined) are in no pack and left out.
    """
    trusted = trusted_documents(vault)
    found: dict[int, PinnedNote] = {}
    for hit in pinned_sections(vault, trusted):
        record = hit.record
        before = found.get(record.document, PinnedNote(record, 0, 0))
        if not has_words(hit.text):
            found.setdefault(record.document, before)
            continue
        item = PackItem(hit, hit.text, True, record.document in trusted, False)
        tokens = before.tokens + count_tokens(render_item(item)) + 2
        found[record.document] = PinnedNote(record, before.sections + 1, tokens)
    return list(found.values())


def warn_of_pinned(tokens: int, budget: int) -> str:
    """Return a warning if pinned sections cost more than half of the vault's default budget."""
    if tokens <= budget // 2:
        return ""
    return (
        f"pinned notes cost {tokens:,} tokens, over half of the budget of {budget:,}: a pack names "
        "the rest by link; unpin or shorten some (`vaultmem pinned` lists them)"
    )
