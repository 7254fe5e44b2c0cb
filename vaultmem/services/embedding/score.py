"""Score sections by meaning, for recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vaultmem.errors import VaultError
from vaultmem.services.embedding.embed import embed_sections, find_embeddable
from vaultmem.services.embedding.meaning import Meaning, choose_model, open_meaning
from vaultmem.services.reading.indexing import Progress
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.storage.index.snapshot import Snapshot


#: Seconds for which a question waits for vectors at most; the others come with the next ones.
_LONGEST = 10.0


@dataclass
class DenseScorer:
    """What `recall` asks how alike a question and each section are.

    `weight` is the share of the score by words. After a question, `problem` says why it had no
    answer and is found by words alone, and `embedded` how many of the `sections` that it could
    find have vectors.
    """

    vault: Vault
    meaning: Meaning
    problem: str = ""
    embedded: int = 0
    sections: int = 0

    @property
    def weight(self) -> float:
        """The share of the score by words, as is best for the model."""
        return self.meaning.embedder.weight

    def __call__(
        self, text: str, eligible: NDArray[np.bool_], snapshot: Snapshot
    ) -> NDArray[np.float32] | None:
        """Return a score of each section of the snapshot, nan where it has no vector."""
        import numpy as np

        try:
            placed = self.meaning.place(self.vault, snapshot)
            counted = eligible & find_embeddable(snapshot)
            self.sections = int(np.count_nonzero(counted))
            self.embedded = int(np.count_nonzero(counted & (placed.groups >= 0)))
            scores = self.meaning.score(placed, text, eligible)
        except VaultError as error:
            self.problem = str(error)
            return None
        return scores


@dataclass
class DenseScorers:
    """What `recall` asks of several vaults, the first of which says by which model."""

    each: Sequence[DenseScorer]

    @property
    def weight(self) -> float:
        """The share of the score by words."""
        return self.each[0].weight

    @property
    def meaning(self) -> Meaning:
        """The model, with the first vault's vectors."""
        return self.each[0].meaning

    @property
    def problem(self) -> str:
        """Why one of them had no answer."""
        return next((one.problem for one in self.each if one.problem), "")

    @property
    def embedded(self) -> int:
        """How many of the `sections` have vectors."""
        return sum(one.embedded for one in self.each)

    @property
    def sections(self) -> int:
        """How many sections could be found."""
        return sum(one.sections for one in self.each)

    def __call__(
        self, text: str, eligible: NDArray[np.bool_], snapshot: Snapshot
    ) -> NDArray[np.float32] | None:
        """Return a score of each section of the snapshot, by the vault that it is of."""
        asked = next((one for one in self.each if one.vault.index.snapshot() is snapshot), None)
        return asked(text, eligible, snapshot) if asked else None


def find_scorer(
    vaults: Sequence[Vault],
    wanted: bool | None = None,
    progress: Progress | None = None,
    *,
    waits: bool = True,
) -> DenseScorer | DenseScorers | None:
    """Return what scores some vaults by meaning; None where nobody wants it.

    All are scored by the model of the first, each with its own vectors.

    `wanted` is what was asked for, None if vaultmem.yaml decides; with a quick model, what has no
    vectors gets them now, within some seconds: one batch of it, where nobody `waits`. The vaults
    must be in sync.

    Raises:
        RefusedError: vaultmem.yaml names no model that there is.
        MissingModelError: it is wanted, and its package, file or setting is not there.
    """
    if wanted is False or (wanted is None and vaults[0].config.semantic == "off"):
        return None
    model = choose_model(vaults[0])
    each = [_open_scorer(one, model, progress, waits) for one in vaults]
    return each[0] if len(each) == 1 else DenseScorers(each)


def _open_scorer(vault: Vault, model: str, progress: Progress | None, waits: bool) -> DenseScorer:
    meaning = open_meaning(vault, model)
    if meaning.embedder.is_quick:
        embed_sections(vault, meaning, _LONGEST if waits else 0.0, progress)
    return DenseScorer(vault, meaning)
