"""Say of sections that were found which notes their note replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vaultmem.core.finding.hit import Hit
from vaultmem.storage.links import LinkStore
from vaultmem.vault import Vault


def name_replaced(vault: Vault, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits with the names that their notes give under `supersedes`."""
    documents = {hit.record.document for hit in hits}
    names = LinkStore(vault.state).targets_in("supersedes", documents)
    if not names:
        return list(hits)
    return [replace(hit, replaces=tuple(names.get(hit.record.document, ()))) for hit in hits]
