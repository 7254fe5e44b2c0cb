"""vaultmem: an agent's long-term memory as a folder of markdown in git.

What stands in `__all__` is what other programs can rely on (docs/reference/api.md).
"""

from __future__ import annotations

TYPE_CHECKING = False  # What `typing` has, which takes `vaultmem recall` 5 ms to import.

if TYPE_CHECKING:
    from typing import Any

    from vaultmem.config import Config
    from vaultmem.core.finding.hit import Further, Hit, Match, Sureness
    from vaultmem.core.finding.query import NoteFilter, RecallQuery, parse_query
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
    from vaultmem.services.finding.ask import Ask, QueryResult, run_query
    from vaultmem.services.finding.pack import AskPack, PackAnswer, ask_pack, make_pack
    from vaultmem.services.finding.recall import recall
    from vaultmem.services.finding.rerank import Reranked, Reranker
    from vaultmem.services.finding.score import Scorer
    from vaultmem.services.finding.vault_set import ByMeaning, VaultSet
    from vaultmem.services.lifecycle.promote import Promotion, promote_notes
    from vaultmem.services.lifecycle.supersede import Supersession, supersede_note
    from vaultmem.services.lifecycle.transition import Move, Transition, change_state
    from vaultmem.services.likeness.known import Nearby
    from vaultmem.services.notes.create import Created, CreateOptions, create_vault
    from vaultmem.services.notes.memory import Memory
    from vaultmem.services.notes.propose import Proposed
    from vaultmem.services.notes.remember import Outcome, Remembered, remember
    from vaultmem.services.reading.sync import SyncReport, sync_vault
    from vaultmem.services.sessions.begin import Begun, NewSession, start_session
    from vaultmem.services.sessions.close import Closed, close_session
    from vaultmem.services.sessions.edit_session import add_detail
    from vaultmem.services.sessions.learn import Learned
    from vaultmem.services.sessions.recover import Recovered
    from vaultmem.services.watching.lease import catch_up
    from vaultmem.services.writing.commit import CommitReport, save_checkpoint
    from vaultmem.storage.git.head import Head
    from vaultmem.storage.journal import Author
    from vaultmem.vault import Notices, Store, UserFolders, Vault, VaultSettings, open_vault

__version__ = "0.1.0"

__all__ = [
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
    "core.finding.hit": "Further Hit Match Sureness",
    "core.finding.query": "NoteFilter RecallQuery parse_query",
    "core.lifecycle": "Kind State",
    "core.notes.conflict": "Otherwise",
    "core.notes.handler": "NoteHandler",
    "core.notes.record": "NoteRecord SectionRecord",
    "core.packs.pack_item": "LeftOut LeftWhy PackItem PackLabels PackPart PackSource PackStyle",
    "core.packs.pack_text": "Pack PackAccount",
    "core.sessions.session": (
        "Decision Edge Relation Session SessionFacts Status Told TouchedFile Window"
    ),
    "core.similarity.compare": "Difference",
    "errors": (
        "BusyError ChangedError ConflictError DamagedError FaultError ForbiddenError "
        "MergeConflictError NoVaultError NoteNotFoundError PendingError RefusedError VaultError"
    ),
    "services.finding.ask": "Ask QueryResult run_query",
    "services.finding.pack": "AskPack PackAnswer ask_pack make_pack",
    "services.finding.recall": "recall",
    "services.finding.score": "Scorer",
    "services.finding.vault_set": "ByMeaning VaultSet",
    "services.finding.rerank": "Reranked Reranker",
    "services.lifecycle.promote": "Promotion promote_notes",
    "services.lifecycle.supersede": "Supersession supersede_note",
    "services.lifecycle.transition": "Move Transition change_state",
    "services.likeness.known": "Nearby",
    "services.notes.create": "Created CreateOptions create_vault",
    "services.notes.memory": "Memory",
    "services.notes.propose": "Proposed",
    "services.notes.remember": "Outcome Remembered remember",
    "services.reading.sync": "SyncReport sync_vault",
    "services.sessions.begin": "Begun NewSession start_session",
    "services.sessions.close": "Closed close_session",
    "services.sessions.learn": "Learned",
    "services.sessions.recover": "Recovered",
    "services.sessions.edit_session": "add_detail",
    "services.watching.lease": "catch_up",
    "services.writing.commit": "CommitReport save_checkpoint",
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
