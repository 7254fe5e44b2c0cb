"""The list of the user's vaults as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.services.vaults.listing import ListedVault


def vaults_json(listed: Iterable[ListedVault]) -> dict[str, Any]:
    """Return the vaults of the list, and how they are."""
    return {"vaults": listed}


def listed_json(name: str, path: str) -> dict[str, Any]:
    """Return what was put on the list, or taken off it."""
    return {"name": name, "path": path}
