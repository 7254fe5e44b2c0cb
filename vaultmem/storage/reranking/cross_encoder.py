"""A cross-encoder in ONNX from a folder: question and text are read as one pair.

Source: sentence-transformers, "CrossEncoder": one logit a pair is its score; of the two of a model
with classes, the second stands for "answers".
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.errors import VaultError
from vaultmem.storage.embedding.embedder import MissingModelError, clean_texts
from vaultmem.storage.embedding.onnx_model import OnnxModel, find_in_folder
from vaultmem.storage.reranking.rerank_model import TooSlowError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: What models such as those for MS MARCO take: a long question and a passage fit.
_MAX_TOKENS = 512


class CrossEncoder:
    """A folder's model and tokenizer; loaded on first use."""

    def __init__(self, folder: Path, variable: str) -> None:
        """Find the files; `variable` is what names the folder.

        Raises:
            MissingModelError: they are not there.
        """
        self.name = folder.resolve().name
        self._model = OnnxModel(*find_in_folder(folder, variable), _MAX_TOKENS)

    def score(self, question: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Return the model's score of each text; a run under way is broken off in time.

        Raises:
            VaultError: the model cannot be used, or not in that time.
        """
        asked, *cleaned = clean_texts([question, *texts])
        options = _make_options()
        timer = threading.Timer(seconds, setattr, (options, "terminate", True))
        timer.daemon = True
        timer.start()
        scores = [0.0] * len(texts)
        try:
            for rows, output, _ in self._model.run([(asked, text) for text in cleaned], options):
                for row, score in zip(rows, self._read(output), strict=True):
                    scores[row] = score
        except VaultError:
            raise
        except Exception as error:  # The library's own have no base.
            if options.terminate:
                raise TooSlowError(seconds) from None
            reason = str(error).partition("\n")[0][:200]
            raise VaultError(f"{self._model.file}: cannot be used ({reason})") from error
        finally:
            timer.cancel()
        return scores

    def _read(self, output: NDArray[np.float32]) -> list[float]:
        """Return the score of each pair."""
        import numpy as np

        logits = output.reshape(len(output), -1)
        if output.ndim > 2 or logits.shape[1] not in {1, 2} or not np.isfinite(logits).all():
            raise MissingModelError(
                f"{self._model.file}: not a cross-encoder; it has not one score for each pair"
            )
        found: list[float] = (logits[:, -1] - logits[:, 0] * (logits.shape[1] == 2)).tolist()
        return found


def _make_options() -> Any:
    try:
        import onnxruntime
    except ImportError:
        from vaultmem.storage.missing import tell_missing

        raise MissingModelError(tell_missing("onnxruntime", "semantic")) from None
    return onnxruntime.RunOptions()
