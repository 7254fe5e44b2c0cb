"""A clock that a test sets, and agents and people who write and ask by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from vaultmem.core.search.query import parse_query
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.search.recall import recall
from vaultmem.services.search.run_query import count_recall
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

START = datetime(2026, 1, 5, 9, 0).timestamp()
DAY = 86_400


@dataclass
class Clock:
    """The time, in seconds since the epoch, as a test has it."""

    at: float = START

    def __call__(self) -> float:
        return self.at

    def pass_days(self, days: float) -> None:
        self.at += days * DAY


def tell(vault: Vault, *memories: Memory) -> list[str]:
    """Remember these and commit them; return their paths."""
    paths = [remember(vault, memory, force=True).path for memory in memories]
    save_checkpoint(vault, "day's end")
    return paths


def ask(vault: Vault, question: str, limit: int = 3) -> Sequence[str]:
    """Recall as the command does, counted; return the paths that were found."""
    sync_vault(vault)
    hits = recall(vault, parse_query(question, limit=limit))
    count_recall(vault, question, hits, [hit.text for hit in hits])
    return [hit.record.path for hit in hits]
