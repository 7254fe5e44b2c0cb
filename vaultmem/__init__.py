"""vaultmem: an agent's long-term memory as a folder of markdown in git."""

from __future__ import annotations

TYPE_CHECKING = False  # What `typing` has, which takes `vaultmem recall` 5 ms to import.

if TYPE_CHECKING:
    from typing import Any

    from vaultmem.core.finding.hit import Hit
    from vaultmem.core.finding.query import NoteFilter, RecallQuery, parse_query
    from vaultmem.core.packs.pack import Pack
    from vaultmem.errors import VaultError
    from vaultmem.services.finding.pack import make_pack
    from vaultmem.services.finding.recall import recall
    from vaultmem.services.lifecycle.promote import promote_notes
    from vaultmem.services.lifecycle.supersede import supersede_note
    from vaultmem.services.lifecycle.transition import change_state
    from vaultmem.services.notes.create import create_vault
    from vaultmem.services.notes.remember import Memory, remember
    from vaultmem.services.reading.sync import sync_vault
    from vaultmem.services.watching.lease import catch_up
    from vaultmem.services.writing.checkpoint import save_checkpoint
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
    "catch_up",
    "change_state",
    "create_vault",
    "make_pack",
    "open_vault",
    "parse_query",
    "promote_notes",
    "recall",
    "remember",
    "save_checkpoint",
    "supersede_note",
    "sync_vault",
]

_HOMES = {
    "Hit": "core.finding.hit",
    "Memory": "services.notes.remember",
    "NoteFilter": "core.finding.query",
    "Pack": "core.packs.pack",
    "RecallQuery": "core.finding.query",
    "Vault": "vault",
    "VaultError": "errors",
    "catch_up": "services.watching.lease",
    "change_state": "services.lifecycle.transition",
    "create_vault": "services.notes.create",
    "make_pack": "services.finding.pack",
    "open_vault": "vault",
    "parse_query": "core.finding.query",
    "promote_notes": "services.lifecycle.promote",
    "recall": "services.finding.recall",
    "remember": "services.notes.remember",
    "save_checkpoint": "services.writing.checkpoint",
    "supersede_note": "services.lifecycle.supersede",
    "sync_vault": "services.reading.sync",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `vaultmem --help` imports none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vaultmem' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"vaultmem.{_HOMES[name]}"), name)
