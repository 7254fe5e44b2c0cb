"""Find the sections of one vault that answer a query as it is."""

from __future__ import annotations

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.finding.reranking import Reranker
from vaultmem.services.finding.ask import find_sections
from vaultmem.services.finding.score import Scorer
from vaultmem.services.finding.vault_set import VaultSet
from vaultmem.services.reading.heal import heals
from vaultmem.vault import Vault


@heals
def recall(
    vault: Vault,
    query: RecallQuery,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
    by_note: bool = False,
) -> list[Hit]:
    """Return the best sections for the query, best first; ties are in the order of path.

    `by_note` counts notes, and returns the best section of each. Files that changed since
    `open_vault` are indexed first, once; later calls read only the files of the hits.
    """
    vaults = VaultSet([vault])
    return find_sections(vaults, query, vaults.count(query), query.limit, by_note, dense, reranker)
