"""Find what answers a question however it is worded: misspelt, or of common words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vaultmem.core.finding.grouping import group_hits
from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import MAX_TERMS, RecallQuery
from vaultmem.services.finding.recall import Scorer, recall_corrected
from vaultmem.services.reading.behind import sync_once
from vaultmem.services.reading.heal import heals

if TYPE_CHECKING:
    from vaultmem.services.finding.rerank import Reranker
    from vaultmem.vault import Vault


@heals
def recall_any(
    vault: Vault,
    query: RecallQuery,
    dense: Scorer | None = None,
    beyond: int = 0,
    reranker: Reranker | None = None,
    by_note: bool = False,
) -> tuple[RecallQuery, list[Hit]]:
    """Return the query as it was searched, and what answers as `recall` does."""
    sync_once(vault)
    if not (query.terms or query.compounds or dense):
        from vaultmem.services.finding.plain_words import READ_SECTIONS, find_plain

        wanted = query.limit + beyond
        if by_note:
            return query, group_hits(find_plain(vault, query, READ_SECTIONS))[:wanted]
        return query, find_plain(vault, query, wanted)
    corrects = 0 < len(query.terms) <= MAX_TERMS
    return recall_corrected(vault, query, dense, beyond, reranker, by_note, corrects)
