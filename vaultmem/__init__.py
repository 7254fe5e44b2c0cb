"""vaultmem: an agent's long-term memory as a folder of markdown in git.

The names imported below are the public API (docs/reference/api.md).
"""

from __future__ import annotations

TYPE_CHECKING = False  # Importing `typing` would add 5 ms to `vaultmem recall`.

if TYPE_CHECKING:
    from typing import Any

    from vaultmem.config import Config as Config
    from vaultmem.core.anchors import Anchor as Anchor
    from vaultmem.core.anchors import AnchorCheck as AnchorCheck
    from vaultmem.core.anchors import AnchorStatus as AnchorStatus
    from vaultmem.core.lifecycle import NoteKind as NoteKind
    from vaultmem.core.lifecycle import NoteState as NoteState
    from vaultmem.core.new_memory import Memory as Memory
    from vaultmem.core.notes.conflict import ConflictingText as ConflictingText
    from vaultmem.core.notes.handler import NoteHandler as NoteHandler
    from vaultmem.core.notes.record import NoteRecord as NoteRecord
    from vaultmem.core.notes.record import SectionRecord as SectionRecord
    from vaultmem.core.packs.pack_item import OmissionReason as OmissionReason
    from vaultmem.core.packs.pack_item import OmittedItem as OmittedItem
    from vaultmem.core.packs.pack_item import PackItem as PackItem
    from vaultmem.core.packs.pack_item import PackLabels as PackLabels
    from vaultmem.core.packs.pack_item import PackPart as PackPart
    from vaultmem.core.packs.pack_item import PackSource as PackSource
    from vaultmem.core.packs.pack_item import PackStyle as PackStyle
    from vaultmem.core.packs.pack_text import Pack as Pack
    from vaultmem.core.packs.pack_text import PackUsage as PackUsage
    from vaultmem.core.search.query import Hit as Hit
    from vaultmem.core.search.query import Match as Match
    from vaultmem.core.search.query import MatchStrength as MatchStrength
    from vaultmem.core.search.query import NoteFilter as NoteFilter
    from vaultmem.core.search.query import RecallQuery as RecallQuery
    from vaultmem.core.search.query import RelatedSection as RelatedSection
    from vaultmem.core.search.query import parse_query as parse_query
    from vaultmem.core.sessions.session import ContextWindow as ContextWindow
    from vaultmem.core.sessions.session import Decision as Decision
    from vaultmem.core.sessions.session import Session as Session
    from vaultmem.core.sessions.session import SessionFacts as SessionFacts
    from vaultmem.core.sessions.session import SessionLink as SessionLink
    from vaultmem.core.sessions.session import SessionRelation as SessionRelation
    from vaultmem.core.sessions.session import SessionStatus as SessionStatus
    from vaultmem.core.sessions.session import TouchedFile as TouchedFile
    from vaultmem.core.sessions.session import TranscriptSummary as TranscriptSummary
    from vaultmem.core.similarity.compare import Difference as Difference
    from vaultmem.errors import ArgumentError as ArgumentError
    from vaultmem.errors import ConflictError as ConflictError
    from vaultmem.errors import DamagedError as DamagedError
    from vaultmem.errors import ForbiddenError as ForbiddenError
    from vaultmem.errors import LockTimeoutError as LockTimeoutError
    from vaultmem.errors import MergeConflictError as MergeConflictError
    from vaultmem.errors import NoteNotFoundError as NoteNotFoundError
    from vaultmem.errors import NoVaultError as NoVaultError
    from vaultmem.errors import PendingError as PendingError
    from vaultmem.errors import RefusedError as RefusedError
    from vaultmem.errors import SystemFailureError as SystemFailureError
    from vaultmem.errors import VaultError as VaultError
    from vaultmem.errors import VersionMismatchError as VersionMismatchError
    from vaultmem.services.changes.commit import CommitReport as CommitReport
    from vaultmem.services.changes.commit import save_checkpoint as save_checkpoint
    from vaultmem.services.lifecycle.supersede import SupersedeResult as SupersedeResult
    from vaultmem.services.lifecycle.supersede import supersede_note as supersede_note
    from vaultmem.services.lifecycle.transition import Move as Move
    from vaultmem.services.lifecycle.transition import PromoteResult as PromoteResult
    from vaultmem.services.lifecycle.transition import TransitionResult as TransitionResult
    from vaultmem.services.lifecycle.transition import change_state as change_state
    from vaultmem.services.lifecycle.transition import promote_notes as promote_notes
    from vaultmem.services.memory.create_vault import CreateOptions as CreateOptions
    from vaultmem.services.memory.create_vault import CreateResult as CreateResult
    from vaultmem.services.memory.create_vault import create_vault as create_vault
    from vaultmem.services.memory.remember import DeadEndProposal as DeadEndProposal
    from vaultmem.services.memory.remember import PreferenceProposal as PreferenceProposal
    from vaultmem.services.memory.remember import RememberOutcome as RememberOutcome
    from vaultmem.services.memory.remember import RememberResult as RememberResult
    from vaultmem.services.memory.remember import remember as remember
    from vaultmem.services.packs.build import AskPack as AskPack
    from vaultmem.services.packs.build import PackAnswer as PackAnswer
    from vaultmem.services.packs.build import ask_pack as ask_pack
    from vaultmem.services.packs.build import make_pack as make_pack
    from vaultmem.services.search.recall import recall as recall
    from vaultmem.services.search.rerank import Reranker as Reranker
    from vaultmem.services.search.rerank import RerankInfo as RerankInfo
    from vaultmem.services.search.run_query import Query as Query
    from vaultmem.services.search.run_query import QueryResult as QueryResult
    from vaultmem.services.search.run_query import run_query as run_query
    from vaultmem.services.search.score import Scorer as Scorer
    from vaultmem.services.search.vault_set import SemanticInfo as SemanticInfo
    from vaultmem.services.search.vault_set import VaultSet as VaultSet
    from vaultmem.services.sessions.begin import NewSession as NewSession
    from vaultmem.services.sessions.begin import StartResult as StartResult
    from vaultmem.services.sessions.begin import start_session as start_session
    from vaultmem.services.sessions.close import CloseResult as CloseResult
    from vaultmem.services.sessions.close import RecoveryResult as RecoveryResult
    from vaultmem.services.sessions.close import close_session as close_session
    from vaultmem.services.sessions.edit_session import LearnResult as LearnResult
    from vaultmem.services.sessions.edit_session import add_detail as add_detail
    from vaultmem.services.similarity.known import SimilarText as SimilarText
    from vaultmem.services.views.update_index import IndexReport as IndexReport
    from vaultmem.services.views.update_index import sync_vault as sync_vault
    from vaultmem.services.watching.lease import catch_up as catch_up
    from vaultmem.storage.git.head import GitHead as GitHead
    from vaultmem.storage.journal import Author as Author
    from vaultmem.vault import Notices as Notices
    from vaultmem.vault import Store as Store
    from vaultmem.vault import UserFolders as UserFolders
    from vaultmem.vault import Vault as Vault
    from vaultmem.vault import VaultSettings as VaultSettings
    from vaultmem.vault import open_vault as open_vault

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `vaultmem --help` imports none of them."""
    homes = _read_homes()
    if name == "__all__":
        return ["__version__", *homes]
    if name not in homes:
        raise AttributeError(f"module 'vaultmem' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(homes[name]), name)
    return value


def _read_homes() -> dict[str, str]:
    """Return the module of each public name, as listed above."""
    import re
    from pathlib import Path

    text = Path(__file__).read_text(encoding="utf-8")
    return {name: home for home, name in re.findall(r"^    from (\S+) import (\w+) as", text, re.M)}
