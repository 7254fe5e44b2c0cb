"""The interface that every model has, and where packages keep the files of theirs."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vaultmem.errors import VaultError
from vaultmem.storage.missing import tell_missing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """A model that turns texts into vectors whose dot product says how alike they are."""

    @property
    def name(self) -> str:
        """The model and its version: vectors of another name are not comparable."""

    @property
    def weight(self) -> float:
        """The share of the score by words when both are blended, 0 to 1."""

    @property
    def batch(self) -> int:
        """How many texts are best given at once; what an interruption loses at most."""

    @property
    def is_quick(self) -> bool:
        """Tell whether thousands of texts take a second, so that nobody has to wait."""

    def embed(self, texts: Sequence[str], patient: bool = True) -> NDArray[np.float32]:
        """Return one vector of length 1 for each text (shape: texts, dimensions).

        A text without any word has a vector of zeros. Where somebody waits, nothing is tried
        twice or takes more than some seconds: that is not to be `patient`.

        Raises:
            VaultError: the model cannot be used, or not soon.
        """


class MissingModelError(VaultError):
    """A model's package, file or setting is not there; the text says how to get it."""


def find_shipped(package: str, *names: str) -> Path | None:
    """Return a file that an installed package ships, without importing the package."""
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if found is None or not found.origin:
        return None
    file = Path(found.origin).parent.joinpath(*names)
    return file if file.is_file() else None


def import_tokenizers() -> Any:
    """Return the library that divides texts as most models want them.

    Raises:
        MissingModelError: it is not installed.
    """
    try:
        import tokenizers
    except ImportError:
        raise MissingModelError(tell_missing("tokenizers", "semantic-static")) from None
    return tokenizers


def clean_texts(texts: Sequence[str]) -> list[str]:
    """Return texts that can be written as UTF-8, which not all that is typed can."""
    return [text if text.isascii() else text.encode("utf-8", "replace").decode() for text in texts]


def scale_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row with length 1; a row of zeros stays."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled
