"""Vectors of sections on disk, mapped into memory; a cache for one model.

A folder has a file of keys and one of vectors, both append-only, and `about.json` with the number
of valid rows. It is replaced after the other files are durable, so that readers never see half of a
batch, even after a kill. Numbers are float32: float16 takes half the space, but its conversion
makes a search ten times slower.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.errors import SystemFailureError
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.lock import hold_lock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_METADATA_FILE = "about.json"
_KEY_BYTES = 24

#: An odd number near 2^64 divided by the golden ratio; it spreads section numbers.
_SPREAD = 0x9E3779B97F4A7C15


class SectionVectors(NamedTuple):
    """The stored vectors, one in a row; a section can have several adjacent rows.

    `names` is blob and section as 24 bytes (shape: rows, 24), `keys` a number for each (shape:
    rows), `vectors` float32 (shape: rows, dimensions). `version` changes with the data.
    """

    version: str
    names: NDArray[np.uint8]
    keys: NDArray[np.uint64]
    vectors: NDArray[np.float32]


class VectorStore:
    """The vectors of one model in one vault's state folder."""

    def __init__(self, folder: Path, model: str) -> None:
        digest = hashlib.sha256(model.encode()).hexdigest()[:8]
        self._model = model
        self._folder = folder / f"{re.sub('[^0-9A-Za-z]+', '-', model)[:40]}-{digest}"
        self._read: SectionVectors | None = None

    def read(self) -> SectionVectors:
        """Return the stored vectors, the same object until they change; empty a damaged store."""
        for _ in range(5):
            metadata = self._read_about()
            version = f"{metadata.get('number', '')}:{metadata.get('count', 0)}"
            if self._read is None or self._read.version != version:
                try:
                    self._read = self._map(metadata, version)
                except (FileNotFoundError, ValueError):  # Replaced or truncated meanwhile.
                    continue
            return self._read
        with hold_lock(self._lock()):
            self._write_about({})
        return self.read()

    def append(self, names: NDArray[np.uint8], vectors: NDArray[np.float32]) -> SectionVectors:
        """Add vectors of sections by their packed names, durably.

        Add all vectors of a section in one call; sections already stored are skipped. Vectors of
        other dimensions replace all that is stored.

        Raises:
            SystemFailureError: writing failed; nothing was added.
        """
        import numpy as np

        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with hold_lock(self._lock()):
                existing = self.read()
                if existing.vectors.shape[1] not in {0, vectors.shape[1]}:
                    existing = self._clear()
                new = ~np.isin(make_keys(names), existing.keys)
                if new.any():
                    self._append(len(existing.keys), names[new], vectors[new])
        except OSError as error:
            raise SystemFailureError(
                f"{self._folder}: vectors were not written ({error.strerror})"
            ) from error
        return self.read()

    def retain_only(self, blobs: Iterable[str], allowed: int = 0) -> int:
        """Drop the vectors of other blobs if more than `allowed`; return how many were dropped."""
        import numpy as np

        blob_list = list(blobs)
        keys = make_keys(pack_names(blob_list, [0] * len(blob_list)))
        if not len(self.read().keys):
            return 0
        with hold_lock(self._lock()):
            existing = self.read()
            blob_names = existing.names.copy()
            blob_names[:, 20:] = 0
            mask = np.isin(make_keys(blob_names), keys)
            dropped_count = int(np.count_nonzero(~mask))
            if dropped_count <= allowed:
                return 0
            names, vectors = existing.names[mask], np.asarray(existing.vectors)[mask]
            self._clear()
            if len(names):
                self._append(0, names, vectors)
        return dropped_count

    def _append(self, count: int, names: NDArray[np.uint8], vectors: NDArray[np.float32]) -> None:
        metadata = self._read_about() or {"number": secrets.token_hex(4)}
        width = vectors.shape[1]
        for name, rows, size in (("keys", names, _KEY_BYTES), ("vectors", vectors, 4 * width)):
            file = self._folder / f"{name}-{metadata['number']}"
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
            with os.fdopen(descriptor, "r+b") as stream:
                stream.truncate(count * size)  # Remove the rest of an interrupted batch.
                stream.seek(count * size)
                stream.write(rows.astype("<f4" if name == "vectors" else "u1").tobytes())
                stream.flush()
                os.fsync(stream.fileno())
        self._write_about({**metadata, "count": count + len(names), "dimensions": width})

    def _clear(self) -> SectionVectors:
        """Remove all vectors; processes that have the old files mapped can still read them."""
        old = self._read_about()
        self._write_about({})
        for name in ("keys", "vectors"):
            if old:
                (self._folder / f"{name}-{old['number']}").unlink(missing_ok=True)
        return self.read()

    def _read_about(self) -> dict[str, Any]:
        """Return the contents of `about.json`, empty if missing, invalid or of another model."""
        try:
            metadata = json.loads((self._folder / _METADATA_FILE).read_text(encoding="utf-8"))
            if metadata["model"] == self._model and metadata["number"].isalnum():
                return {
                    "number": metadata["number"],
                    "count": max(int(metadata["count"]), 0),
                    "dimensions": max(int(metadata["dimensions"]), 1),
                }
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            pass
        return {}

    def _write_about(self, metadata: dict[str, Any]) -> None:
        content = json.dumps({"model": self._model, **metadata})
        write_atomically(self._folder / _METADATA_FILE, content.encode())

    def _map(self, metadata: dict[str, Any], version: str) -> SectionVectors:
        import numpy as np

        count, width = metadata.get("count", 0), metadata.get("dimensions", 0)
        if not count:
            names = np.zeros((0, _KEY_BYTES), np.uint8)
            return SectionVectors(
                version, names, make_keys(names), np.zeros((0, width), np.float32)
            )
        files = [self._folder / f"{name}-{metadata['number']}" for name in ("keys", "vectors")]
        names = np.fromfile(files[0], np.uint8, count * _KEY_BYTES).reshape(count, _KEY_BYTES)
        # A plain array is faster: each operation on a memmap makes another memmap.
        vectors = np.asarray(np.memmap(files[1], "<f4", "r", shape=(count, width)))
        return SectionVectors(version, names, make_keys(names), vectors)

    def _lock(self) -> Path:
        return self._folder / "lock"


def make_keys(names: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return a number for each blob and section, from 64 bits of the blob's id."""
    import numpy as np

    blobs = np.ascontiguousarray(names[:, :8]).view(">u8").reshape(-1).astype(np.uint64)
    sections = np.ascontiguousarray(names[:, 20:]).view("<u4").reshape(-1).astype(np.uint64)
    keys: NDArray[np.uint64] = blobs + sections * np.uint64(_SPREAD)
    return keys


def pack_names(blobs: Sequence[str], sections: Sequence[int]) -> NDArray[np.uint8]:
    """Return blob and section of each as 24 bytes (shape: sections, 24)."""
    import numpy as np

    names = np.zeros((len(blobs), _KEY_BYTES), np.uint8)
    if blobs:
        names[:, :20] = np.frombuffer(bytes.fromhex("".join(blobs)), np.uint8).reshape(-1, 20)
        names[:, 20:] = np.asarray(sections, "<u4").reshape(-1, 1).view(np.uint8)
    return names
