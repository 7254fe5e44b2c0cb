"""The interface that every reranker has, and what the environment's names for one begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vaultmem.errors import VaultError

PREFIX = "VAULTMEM_RERANK"


class RerankModel(Protocol):
    """A model that reads a question and a text together and says how well the text answers."""

    @property
    def name(self) -> str:
        """The model, as it is told to whoever asks."""

    def score(self, question: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Return one number for each text, the higher the better, in about `seconds` at most.

        Raises:
            VaultError: the model cannot be used, or not in that time.
        """


class TooSlowError(VaultError):
    """A reranker took longer than it may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"it took longer than {seconds:g} seconds; rerank_seconds in vaultmem.yaml is the limit"
        )
