"""WordLlama: a vector for each word piece, averaged; quick enough for every sync.

Its wheel ships the weights and the tokenizer. Both files are read directly: the package's own
loader asks the network, and imports much that is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.storage.embedding.embedder import (
    MissingModelError,
    clean_texts,
    find_shipped,
    import_tokenizers,
    scale_rows,
)
from vaultmem.storage.missing import how_to_install, tell_missing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MODEL = "l2_supercat"
_TYPES = {"F16": "<f2", "F32": "<f4"}

#: Longer texts say nothing more to an average.
_MAX_CHARS = 20_000


class StaticEmbedder:
    """WordLlama's 256 dimensions; loaded on first use."""

    name = "wordllama-l2-supercat-256"
    weight = 0.7
    batch = 1_000
    is_quick = True

    def __init__(self) -> None:
        weights = find_shipped("wordllama", "weights", f"{_MODEL}_256.safetensors")
        tokenizer = find_shipped("wordllama", "tokenizers", f"{_MODEL}_tokenizer_config.json")
        if weights is None or tokenizer is None:
            raise MissingModelError(tell_missing("the static model", "semantic-static"))
        self._files = weights, tokenizer

    def embed(self, texts: Sequence[str], patient: bool = True) -> NDArray[np.float32]:
        """Return the sum of each text's word pieces, with length 1."""
        import numpy as np

        weights, tokenizer = _load(*self._files)
        sums = np.zeros((len(texts), weights.shape[1]), np.float32)
        encoded = tokenizer.encode_batch_fast(
            [text[:_MAX_CHARS] for text in clean_texts(texts)], add_special_tokens=False
        )
        for row, pieces in enumerate(encoded):
            if ids := pieces.ids:
                sums[row] = weights[ids].sum(axis=0)
        return scale_rows(sums)


@cache
def _load(weights: Path, tokenizer: Path) -> tuple[NDArray[Any], Any]:
    """Return the weights and the tokenizer: once a process, however many vaults are asked."""
    return _read_weights(weights), import_tokenizers().Tokenizer.from_file(str(tokenizer))


def _read_weights(file: Path) -> NDArray[np.float32]:
    """Return the one table of a safetensors file (shape: word pieces, dimensions).

    Source: the format of safetensors: 8 bytes that say how long the header is, the header as
    JSON, the numbers.
    """
    import numpy as np

    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(length))
    tables = [value for name, value in header.items() if name != "__metadata__"]
    if len(tables) != 1 or tables[0]["dtype"] not in _TYPES:
        raise MissingModelError(
            f"{file.name}: not the weights that are expected; {how_to_install('semantic-static')}"
        )
    (table,) = tables
    offset = 8 + length + table["data_offsets"][0]
    shape = tuple(table["shape"])
    # Half of the numbers are never looked at, but one copy as float32 is quicker than many of rows.
    return np.memmap(file, _TYPES[table["dtype"]], "r", offset, shape).astype(np.float32)
