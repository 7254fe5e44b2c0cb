"""vaultmem: an agent's long-term memory as a folder of markdown in git.

What stands in `__all__` is what other programs can rely on (docs/reference/api.md).
"""

from __future__ import annotations

TYPE_CHECKING = False  # What `typing` has, which takes `vaultmem recall` 5 ms to import.

if TYPE_CHECKING:
    from typing import Any

    from vaultmem.config import Config
    from vaultmem.core.anchors import Anchor, AnchorCheck, AnchorStatus
    from vaultmem.core.lifecycle import Kind, State
    from vaultmem.core.notes.conflict import Otherwise
    from vaultmem.core.notes.handler import NoteHandler
    from vaultmem.core.notes.record import NoteRecord, SectionRecord
    from vaultmem.core.packs.pack_item import (
        LeftOut,
        LeftWhy,
        PackItem,
        PackLabels,
        PackPart,
        PackSource,
        PackStyle,
    )
    from vaultmem.core.packs.pack_text import Pack, PackAccount
    from vaultmem.core.search.query import (
        Further,
        Hit,
        Match,
        NoteFilter,
        RecallQuery,
        Sureness,
        parse_query,
    )
    from vaultmem.core.sessions.session import (
        Decision,
        Edge,
        Relation,
        Session,
        SessionFacts,
        Status,
        Told,
        TouchedFile,
        Window,
    )
    from vaultmem.core.similarity.compare import Difference
    from vaultmem.errors import (
        BusyError,
        ChangedError,
        ConflictError,
        DamagedError,
        FaultError,
        ForbiddenError,
        MergeConflictError,
        NoteNotFoundError,
        NoVaultError,
        PendingError,
        RefusedError,
        VaultError,
    )
    from vaultmem.services.changes.commit import CommitReport, save_checkpoint
    from vaultmem.services.lifecycle.supersede import Supersession, supersede_note
    from vaultmem.services.lifecycle.transition import (
        Move,
        Promotion,
        Transition,
        change_state,
        promote_notes,
    )
    from vaultmem.services.memory.create_vault import Created, CreateOptions, create_vault
    from vaultmem.services.memory.new_note import Memory
    from vaultmem.services.memory.remember import Outcome, Proposed, Remembered, remember
    from vaultmem.services.packs.build import AskPack, PackAnswer, ask_pack, make_pack
    from vaultmem.services.search.recall import recall
    from vaultmem.services.search.rerank import Reranked, Reranker
    from vaultmem.services.search.run_query import Ask, QueryResult, run_query
    from vaultmem.services.search.score import Scorer
    from vaultmem.services.search.vault_set import ByMeaning, VaultSet
    from vaultmem.services.sessions.begin import Begun, NewSession, start_session
    from vaultmem.services.sessions.close import Closed, Recovered, close_session
    from vaultmem.services.sessions.edit_session import Learned, add_detail
    from vaultmem.services.similarity.known import Nearby
    from vaultmem.services.views.update_index import SyncReport, sync_vault
    from vaultmem.services.watching.lease import catch_up
    from vaultmem.storage.git.head import Head
    from vaultmem.storage.journal import Author
    from vaultmem.vault import Notices, Store, UserFolders, Vault, VaultSettings, open_vault

__version__ = "0.1.0"

__all__ = [
    "Anchor",
    "AnchorCheck",
    "AnchorStatus",
    "Ask",
    "AskPack",
    "Author",
    "Begun",
    "BusyError",
    "ByMeaning",
    "ChangedError",
    "Closed",
    "CommitReport",
    "Config",
    "ConflictError",
    "CreateOptions",
    "Created",
    "DamagedError",
    "Decision",
    "Difference",
    "Edge",
    "FaultError",
    "ForbiddenError",
    "Further",
    "Head",
    "Hit",
    "Kind",
    "Learned",
    "LeftOut",
    "LeftWhy",
    "Match",
    "Memory",
    "MergeConflictError",
    "Move",
    "Nearby",
    "NewSession",
    "NoVaultError",
    "NoteFilter",
    "NoteHandler",
    "NoteNotFoundError",
    "NoteRecord",
    "Notices",
    "Otherwise",
    "Outcome",
    "Pack",
    "PackAccount",
    "PackAnswer",
    "PackItem",
    "PackLabels",
    "PackPart",
    "PackSource",
    "PackStyle",
    "PendingError",
    "Promotion",
    "Proposed",
    "QueryResult",
    "RecallQuery",
    "Recovered",
    "RefusedError",
    "Relation",
    "Remembered",
    "Reranked",
    "Reranker",
    "Scorer",
    "SectionRecord",
    "Session",
    "SessionFacts",
    "State",
    "Status",
    "Store",
    "Supersession",
    "Sureness",
    "SyncReport",
    "Told",
    "TouchedFile",
    "Transition",
    "UserFolders",
    "Vault",
    "VaultError",
    "VaultSet",
    "VaultSettings",
    "Window",
    "__version__",
    "add_detail",
    "ask_pack",
    "catch_up",
    "change_state",
    "close_session",
    "create_vault",
    "make_pack",
    "open_vault",
    "parse_query",
    "promote_notes",
    "recall",
    "remember",
    "run_query",
    "save_checkpoint",
    "start_session",
    "supersede_note",
    "sync_vault",
]

#: The module that has each of them.
_HOMES = {
    "config": "Config",
    "core.anchors": "Anchor AnchorCheck AnchorStatus",
    "core.lifecycle": "Kind State",
    "core.notes.conflict": "Otherwise",
    "core.notes.handler": "NoteHandler",
    "core.notes.record": "NoteRecord SectionRecord",
    "core.packs.pack_item": "LeftOut LeftWhy PackItem PackLabels PackPart PackSource PackStyle",
    "core.packs.pack_text": "Pack PackAccount",
    "core.search.query": "Further Hit Match NoteFilter RecallQuery Sureness parse_query",
    "core.sessions.session": "Decision Edge Relation Session SessionFacts Status Told TouchedFile "
    "Window",
    "core.similarity.compare": "Difference",
    "errors": "BusyError ChangedError ConflictError DamagedError FaultError "
    "ForbiddenError MergeConflictError NoVaultError NoteNotFoundError "
    "PendingError RefusedError VaultError",
    "services.changes.commit": "CommitReport save_checkpoint",
    "services.lifecycle.supersede": "Supersession supersede_note",
    "services.lifecycle.transition": "Move Promotion Transition change_state promote_notes",
    "services.memory.create_vault": "CreateOptions Created create_vault",
    "services.memory.new_note": "Memory",
    "services.memory.remember": "Outcome Proposed Remembered remember",
    "services.packs.build": "AskPack PackAnswer ask_pack make_pack",
    "services.search.recall": "recall",
    "services.search.rerank": "Reranked Reranker",
    "services.search.run_query": "Ask QueryResult run_query",
    "services.search.score": "Scorer",
    "services.search.vault_set": "ByMeaning VaultSet",
    "services.sessions.begin": "Begun NewSession start_session",
    "services.sessions.close": "Closed Recovered close_session",
    "services.sessions.edit_session": "Learned add_detail",
    "services.similarity.known": "Nearby",
    "services.views.update_index": "SyncReport sync_vault",
    "services.watching.lease": "catch_up",
    "storage.git.head": "Head",
    "storage.journal": "Author",
    "vault": "Notices Store UserFolders Vault VaultSettings open_vault",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `vaultmem --help` imports none of them."""
    for home, names in _HOMES.items():
        if name in names.split():
            from importlib import import_module

            return getattr(import_module(f"vaultmem.{home}"), name)
    raise AttributeError(f"module 'vaultmem' has no attribute {name!r}")
