"""Score sections by meaning, for recall."""

from __future__ import annotations

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


def find_scorer(
    vault: Vault,
    wanted: bool | None = None,
    progress: Progress | None = None,
    *,
    waits: bool = True,
) -> DenseScorer | None:
    """Return what scores by meaning; None where nobody wants it.

    `wanted` is what was asked for, None if vaultmem.yaml decides; with a quick model, what has no
    vectors gets them now, within some seconds: one batch of it, where nobody `waits`. The vault
    must be in sync.

    Raises:
        RefusedError: vaultmem.yaml names no model that there is.
        MissingModelError: it is wanted, and its package, file or setting is not there.
    """
    if wanted is False or (wanted is None and vault.config.semantic == "off"):
        return None
    meaning = open_meaning(vault, choose_model(vault))
    if meaning.embedder.is_quick:
        embed_sections(vault, meaning, _LONGEST if waits else 0.0, progress)
    return DenseScorer(vault, meaning)
