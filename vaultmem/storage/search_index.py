"""The inverted index: sections in, postings as arrays out (Whoosh).

The index is a cache and its files are pickles: it lives in a private folder of the user's, and
any trouble on opening it means that it is set aside and built again. A section belongs to a
document id of the state database; which documents count is the reader's choice (a view).
"""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.core.finding.terms import ANALYSIS_VERSION
from vaultmem.storage.segments import (
    NUMBER_COLUMNS,
    BatchWriter,
    SegmentBatch,
    make_schema,
    read_column,
    read_postings,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Segments up to this many sections are always merged with the next batch.
SMALL_SEGMENT = 16

#: This many segments of about the same size are merged into one.
MERGE_FACTOR = 4

_FORMAT = f"vaultmem-{ANALYSIS_VERSION}-1"
_RETRIES = 5


class SearchIndex:
    """The index in one folder; open it once and use it for many searches and batches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: Any = None
        self._snapshot: Snapshot | None = None

    def stamp(self) -> str:
        """Return a text that differs whenever the index holds something else."""
        index = self._open()
        names = [f"{segment.segid}." for segment in _segments(index)]
        files = []
        for entry in os.scandir(self._folder):
            if any(name in entry.name for name in names):
                status = entry.stat()
                files.append(f"{entry.name} {status.st_size} {status.st_mtime_ns}")
        return f"{_FORMAT}:{index.latest_generation()}:{','.join(sorted(files))}"

    def documents(self) -> set[int]:
        """Return the ids of all documents that have a section here."""
        found: set[int] = set()
        for reader in self.snapshot().readers:
            found.update(read_column(reader, "document"))
        return found

    def write(self, batch: SegmentBatch, dropped: set[int]) -> None:
        """Add a batch and forget documents; readers see all of it or nothing."""
        index = self._open()
        readers = self._leaf_readers(index)
        absorbed = _choose_merge(readers, len(batch), dropped)
        keep = []
        for segment, reader in readers:
            if segment.segid in absorbed:
                batch.absorb(reader, dropped)
            else:
                keep.append(segment.segid)
            reader.close()
        writer = BatchWriter(index, batch, timeout=30.0)
        writer.replace_segments(keep)
        self._forget_snapshot()

    def reset(self) -> None:
        """Empty the index; what cannot be read of it is set aside."""
        self._forget_snapshot()
        self._index = None
        _set_aside(self._folder)

    def snapshot(self) -> Snapshot:
        """Return the index as it is now; the same object while nothing has changed."""
        for attempt in range(_RETRIES):
            index = self._open()
            try:
                generation = index.latest_generation()
                if self._snapshot is None or self._snapshot.generation != generation:
                    readers = [reader for _, reader in self._leaf_readers(index)]
                    self._forget_snapshot()
                    self._snapshot = Snapshot(generation, readers)
                return self._snapshot
            except FileNotFoundError:  # A writer replaced the segments under our eyes.
                if attempt == _RETRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close the files; the object can be used again afterwards."""
        self._forget_snapshot()
        self._index = None

    def _open(self) -> Any:
        if self._index is not None:
            return self._index
        from whoosh import index

        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = self._folder / "format"
        try:
            if name.read_text() == _FORMAT:
                self._index = index.open_dir(str(self._folder))
                self._index.schema.names()
                return self._index
        except Exception:  # noqa: BLE001 - whatever a damaged pickle raises: rebuild.
            self._index = None
        _set_aside(self._folder)
        self._index = index.create_in(str(self._folder), make_schema())
        name.write_text(_FORMAT)
        return self._index

    def _leaf_readers(self, index: Any) -> list[tuple[Any, Any]]:
        from whoosh.reading import SegmentReader

        info = index._read_toc()
        return [
            (segment, SegmentReader(index.storage, info.schema, segment, info.generation))
            for segment in info.segments
        ]

    def _forget_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
        self._snapshot = None


class Snapshot:
    """The sections of one generation, numbered through all segments, as numpy arrays."""

    def __init__(self, generation: int, readers: list[Any]) -> None:
        self.generation = generation
        self.readers = readers
        #: What a reader keeps of its choice of sections, as long as they are these.
        self.masks: dict[object, NDArray[np.bool_]] = {}
        self._bases: list[int] = []
        self._columns: dict[str, NDArray[np.int64]] | None = None
        self._found: dict[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.float32]]] = {}
        total = 0
        for reader in readers:
            self._bases.append(total)
            total += reader.doc_count_all()
        self.size = total

    def column(self, name: str) -> NDArray[np.int64]:
        """Return one number a section: "document", "ordinal" or "<field>_length"."""
        if self._columns is None:
            import numpy as np

            self._columns = {}
            for each in NUMBER_COLUMNS:
                parts = [read_column(reader, each) for reader in self.readers] or [array("I")]
                self._columns[each] = np.concatenate([np.asarray(part, np.int64) for part in parts])
        return self._columns[name]

    def postings(self, field: str, term: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the numbers of the sections that have the term in the field, and its counts."""
        known = self._found.get((field, term))
        if known is not None:
            return known
        import numpy as np

        numbers: list[Any] = []
        counts: list[Any] = []
        for base, reader in zip(self._bases, self.readers, strict=True):
            found = read_postings(reader, field, term)
            if found is not None:
                numbers.append(np.cumsum(np.asarray(found[0], np.int64)) + base)
                counts.append(np.asarray(found[1], np.float32))
        if not numbers:
            result = (np.empty(0, np.int64), np.empty(0, np.float32))
        else:
            result = (np.concatenate(numbers), np.concatenate(counts))
        if len(self._found) > 4096:
            self._found.clear()
        self._found[field, term] = result
        return result

    def close(self) -> None:
        """Close the segments' files."""
        for reader in self.readers:
            reader.close()


def _segments(index: Any) -> Iterable[Any]:
    return index._read_toc().segments  # type: ignore[no-any-return]


def _set_aside(folder: Path) -> None:
    """Empty the folder, keeping what was in it as `damaged` for whoever wants to look."""
    aside = folder.with_name(folder.name + ".damaged")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.exists() and any(folder.iterdir()):
        folder.rename(aside)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _choose_merge(readers: Iterable[tuple[Any, Any]], incoming: int, dropped: set[int]) -> set[str]:
    """Return the ids of segments to merge with the batch, by size and share of dead."""
    chosen: set[str] = set()
    tiers: dict[int, list[str]] = {}
    for segment, reader in readers:
        documents = read_column(reader, "document")
        dead = sum(document in dropped for document in documents) if dropped else 0
        size = len(documents) - dead
        if size <= SMALL_SEGMENT or dead > len(documents) // 4:
            chosen.add(segment.segid)
            incoming += size
        else:
            tiers.setdefault(size.bit_length() // 2, []).append(segment.segid)
    for tier in sorted(tiers):
        same = tier <= incoming.bit_length() // 2
        if len(tiers[tier]) + same > MERGE_FACTOR:
            chosen.update(tiers[tier])
    return chosen
