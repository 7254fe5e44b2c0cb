"""An ONNX model of texts and its tokenizer: loaded on first use, run on a few texts at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.storage.embedding.embedder import MissingModelError, import_tokenizers
from vaultmem.storage.missing import tell_missing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Texts a run: more take more memory and no less time, as the shorter are filled up.
_RUN = 4


def find_in_folder(folder: Path, variable: str) -> tuple[Path, Path]:
    """Return a folder's `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json` or `vocab.txt`.

    Raises:
        MissingModelError: one is not there; `variable` is what names the folder.
    """
    models = [folder / "model.onnx", folder / "onnx" / "model.onnx"]
    vocabularies = [folder / "tokenizer.json", folder / "vocab.txt"]
    found = [[file for file in files if file.is_file()] for files in (models, vocabularies)]
    if not all(found):
        raise MissingModelError(
            f"{folder}: needs model.onnx and tokenizer.json or vocab.txt; "
            f"set {variable} to a folder that has both"
        )
    return found[0][0], found[1][0]


class OnnxModel:
    """A model file and its tokenizer; a text, or a pair of texts, is cut to `max_tokens`."""

    def __init__(self, model: Path, vocabulary: Path, max_tokens: int) -> None:
        self.file, self._vocabulary, self._max_tokens = model, vocabulary, max_tokens
        self._loaded: tuple[Any, Any] | None = None

    def run(
        self, texts: Sequence[str] | Sequence[tuple[str, str]], options: Any = None
    ) -> Iterator[tuple[list[int], NDArray[np.float32], NDArray[np.int64]]]:
        """Yield what the model makes of some texts at a time, those of about one length together.

        That is which texts they are, the model's first output, and which of the tokens are theirs
        (shape: texts, tokens). `options` are onnxruntime's for a run.

        Raises:
            MissingModelError: the files are no model that can be used.
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
                raise MissingModelError(tell_missing("onnxruntime", "semantic")) from None
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3
            # A thread that waits by turning takes a core from whoever is working.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            try:
                session = onnxruntime.InferenceSession(
                    str(self.file), options, providers=["CPUExecutionProvider"]
                )
                self._loaded = (session, _load_tokenizer(self._vocabulary, self._max_tokens))
            except MissingModelError:
                raise
            except Exception as error:  # The library's own have no base.
                reason = str(error).partition("\n")[0][:200]
                raise MissingModelError(f"{self.file}: not a usable model ({reason})") from error
        return self._loaded


def _run_session(
    session: Any, encoded: Sequence[Any], options: Any
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the first output for tokenized texts, and which tokens are theirs."""
    import numpy as np

    tokens = np.zeros((len(encoded), max(len(each.ids) for each in encoded)), np.int64)
    mask, kinds = np.zeros_like(tokens), np.zeros_like(tokens)
    for row, each in enumerate(encoded):
        tokens[row, : len(each.ids)] = each.ids
        kinds[row, : len(each.ids)] = each.type_ids
        mask[row, : len(each.ids)] = 1
    given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": kinds}
    names = {entry.name for entry in session.get_inputs()}
    wanted = {name: given[name] for name in names & given.keys()}
    return np.asarray(session.run(None, wanted, options)[0], np.float32), mask


def _load_tokenizer(file: Path, max_tokens: int) -> Any:
    tokenizers = import_tokenizers()
    if file.suffix == ".txt":
        tokenizer = tokenizers.BertWordPieceTokenizer(str(file), lowercase=True)
    else:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer
