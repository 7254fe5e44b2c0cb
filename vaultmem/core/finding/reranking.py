"""What may put the best hits in an order of its own, and what came of that."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import RecallQuery


class Reranked(NamedTuple):
    """Which model put how many sections in order; `problem` says why none did, "" if one did."""

    model: str
    sections: int
    problem: str = ""


class Reranker(Protocol):
    """Puts the best hits in an order of its own; `sections` is how many it looks at."""

    @property
    def sections(self) -> int:
        """How many of the best hits it has to be given, where there are so many."""

    def __call__(self, query: RecallQuery, hits: list[Hit]) -> list[Hit]:
        """Return the same hits, the best first."""
