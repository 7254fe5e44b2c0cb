"""vaultmem: an agent's long-term memory as a folder of markdown in git."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.core.hit import Hit
    from vaultmem.core.pack import Pack
    from vaultmem.core.query import NoteFilter, RecallQuery, parse_query
    from vaultmem.errors import VaultError
    from vaultmem.services.checkpoint import save_checkpoint
    from vaultmem.services.create import create_vault
    from vaultmem.services.pack import make_pack
    from vaultmem.services.promote import promote_notes
    from vaultmem.services.recall import recall
    from vaultmem.services.remember import Memory, remember
    from vaultmem.services.sync import sync_vault
    from vaultmem.vault import Vault, open_vault

__version__ = "0.1.0"

__all__ = [
    "Hit",
    "Memory",
    "NoteFilter",
    "Pack",
    "RecallQuery",
    "Vault",
    "VaultError",
    "__version__",
    "create_vault",
    "make_pack",
    "open_vault",
    "parse_query",
    "promote_notes",
    "recall",
    "remember",
    "save_checkpoint",
    "sync_vault",
]

_HOMES = {
    "Hit": "core.hit",
    "Memory": "services.remember",
    "NoteFilter": "core.query",
    "Pack": "core.pack",
    "RecallQuery": "core.query",
    "Vault": "vault",
    "VaultError": "errors",
    "create_vault": "services.create",
    "make_pack": "services.pack",
    "open_vault": "vault",
    "parse_query": "core.query",
    "promote_notes": "services.promote",
    "recall": "services.recall",
    "remember": "services.remember",
    "save_checkpoint": "services.checkpoint",
    "sync_vault": "services.sync",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `vaultmem --help` imports none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vaultmem' has no attribute {name!r}")
    return getattr(import_module(f"vaultmem.{_HOMES[name]}"), name)
