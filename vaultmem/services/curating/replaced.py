"""Say of sections that were found which notes their note replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vaultmem.core.finding.hit import Hit
from vaultmem.storage.links import LinkStore
from vaultmem.vault import Vault


def name_replaced(vault: Vault, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits with the names that their notes give under `supersedes`."""
    links = LinkStore(vault.state).links({hit.record.document for hit in hits})
    names = {
        document: tuple(link.path for link in found if link.property == "supersedes")
        for document, found in links.items()
    }
    return [
        replace(hit, replaces=names[hit.record.document]) if names.get(hit.record.document) else hit
        for hit in hits
    ]
