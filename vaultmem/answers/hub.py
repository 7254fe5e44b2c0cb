"""What a hub's commands say, as JSON; no token is in it but the one that has just been made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.services.hub.audit import Entry
    from vaultmem.services.hub.folder import Hub
    from vaultmem.services.hub.grants import Grant


def hub_json(hub: Hub) -> dict[str, Any]:
    """Return a hub that was made."""
    return {"folder": str(hub.folder)}


def repository_json(name: str, folder: Path, branch: str = "", commits: int = 0) -> dict[str, Any]:
    """Return a vault that a hub has got, by its bare repository."""
    return {"name": name, "folder": str(folder), "branch": branch, "commits": commits}


def removed_json(name: str, kept: Path) -> dict[str, Any]:
    """Return a vault that was taken out, and where its repository is kept."""
    return {"name": name, "kept": str(kept)}


def granted_json(
    grant: Grant, token: str, others: Iterable[Grant] = (), replaced: Grant | None = None
) -> dict[str, Any]:
    """Return a grant that was made, with its token.

    `others` of the same name count as before; the one that it `replaced` ends at its `expires`.
    """
    return {
        **_describe(grant),
        "token": token,
        "others": [each.id for each in others],
        "replaces": _describe(replaced) if replaced else None,
    }


def grants_json(grants: Iterable[Grant], now: float) -> dict[str, Any]:
    """Return who may do what; `counts` is whether the token still does."""
    return {"grants": [{**_describe(each), "counts": each.is_alive(now)} for each in grants]}


def log_json(entries: Iterable[Entry]) -> dict[str, Any]:
    """Return what was done, asked and refused, newest first."""
    return {"entries": [each._asdict() for each in entries]}


def _describe(grant: Grant) -> dict[str, Any]:
    times = {name: getattr(grant, name) or None for name in ("used", "expires", "revoked")}
    return {
        "id": grant.id,
        "name": grant.name,
        "kind": grant.kind.value,
        "scopes": {scope.value: list(each) for scope, each in grant.scopes.items()},
        "emails": list(grant.emails),
        "agents": list(grant.agents),
        "created": grant.created,
        **times,
        "replaced_by": grant.replaced_by or None,
    }
