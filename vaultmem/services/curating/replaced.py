"""Say of sections that were found which notes their note replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vaultmem.core.finding.hit import Hit
from vaultmem.storage.links import LinkStore
from vaultmem.vault import Vault


def list_replaced(vault: Vault) -> dict[int, list[str]]:
    """Return by document the names that a note gives under `supersedes`, of all views."""
    return LinkStore(vault.state).targets_in("supersedes")


def name_replaced(hits: Sequence[Hit], replaced: Mapping[int, Sequence[str]]) -> list[Hit]:
    """Return the hits with the names of the notes that theirs replaced."""
    return [
        hit._replace(replaces=tuple(replaced[hit.record.document]))
        if hit.record.document in replaced
        else hit
        for hit in hits
    ]
