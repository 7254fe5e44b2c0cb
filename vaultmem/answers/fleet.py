"""What is said of many vaults at once, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.services.pools.status import PoolStatus


def fleet_status_json(status: PoolStatus) -> dict[str, Any]:
    """Return how a pool or fleet is."""
    return status._asdict()
