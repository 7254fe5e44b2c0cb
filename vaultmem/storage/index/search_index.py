"""The inverted index: sections in, postings as arrays out (Whoosh).

The index is a cache and its files are pickles: it lives in a private folder of the user's, and
any trouble on opening it means that it is set aside and built again. A section belongs to a
document id of the state database; which documents count is the reader's choice (a view).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from vaultmem.core.finding.terms import ANALYSIS_VERSION
from vaultmem.errors import VaultError
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.index.batch import SegmentBatch
from vaultmem.storage.index.segment_arrays import (
    SUFFIX,
    DamagedArraysError,
    SegmentArrays,
    encode_batch,
)
from vaultmem.storage.index.segment_list import (
    SegmentList,
    folder_time,
    mark_file,
    read_list,
    write_list,
)
from vaultmem.storage.index.snapshot import Snapshot
from vaultmem.storage.lock import hold_lock

_T = TypeVar("_T")

_FORMAT = f"vaultmem-{ANALYSIS_VERSION}-6"

#: A folder that changed this shortly (ns) ago may change again within the same tick of its clock.
_RACY_NS = 100_000_000

#: One of so many terms is read to see whether an index is whole.
_EACH = 16


class SearchIndex:
    """The index in one folder; open it once and use it for many searches and batches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: Any = None
        self._snapshot: Snapshot | None = None
        self._seen = 0

    def stamp(self) -> str:
        """Return a text that differs whenever the index holds something else."""
        return self._read(self._stamp)

    def _stamp(self) -> str:
        listed = self._list_segments()
        files = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                name, _, suffix = entry.name.partition(".")
                if name in listed.segments and f".{suffix}" != SUFFIX:
                    status = entry.stat()
                    files.append(f"{entry.name} {status.st_size} {status.st_mtime_ns}")
        return f"{_FORMAT}:{listed.generation}:{','.join(sorted(files))}"

    def documents(self) -> set[int]:
        """Return the ids of all documents that have a section here."""
        return self.snapshot().documents()

    def write(self, batch: SegmentBatch, dropped: set[int]) -> None:
        """Add a batch and forget documents; readers see all of it or nothing."""
        from vaultmem.storage.index.segment_writer import BatchWriter
        from vaultmem.storage.index.segments import absorb_segment, choose_merge, open_segments

        index = self._open()
        readers = open_segments(index._read_toc(), index.storage)
        absorbed = choose_merge(readers, len(batch), dropped)
        keep = []
        try:
            for segment, reader in readers:
                if segment.segid in absorbed:
                    absorb_segment(batch, reader, dropped, self._find_stored(segment.segment_id()))
                else:
                    keep.append(segment.segid)
        finally:
            for _, reader in readers:
                reader.close()
        writer = BatchWriter(
            index, batch, self._swap, self._put_arrays, self._put_list, timeout=30.0
        )
        writer.replace_segments(keep)
        self._forget_snapshot()

    def reset(self) -> None:
        """Empty the index; what cannot be read of it is set aside."""
        self._forget_snapshot()
        self._index = None
        with self._swap():
            _set_aside(self._folder)

    def snapshot(self) -> Snapshot:
        """Return the index as it is now; the same object while nothing has changed."""
        return self._read(self._take_snapshot)

    def _take_snapshot(self) -> Snapshot:
        seen = folder_time(self._folder)
        if self._snapshot is not None and self._seen == seen > 0:
            return self._snapshot
        listed = self._list_segments()
        if self._snapshot is None or self._snapshot.generation != listed.generation:
            parts = [self._open_arrays(name, mark) for name, mark in listed.segments.items()]
            if not listed.is_current(self._folder):
                self._put_list(listed.generation, list(listed.segments))
            self._forget_snapshot()
            self._snapshot = Snapshot(listed.generation, parts, self._open_readers)
        self._seen = seen if time.time_ns() - seen > _RACY_NS else 0
        return self._snapshot

    def _list_segments(self) -> SegmentList:
        """Return the newest generation and its segments, without Whoosh if possible."""
        listed = read_list(self._folder, _FORMAT)
        if listed is not None:
            return listed
        contents = self._open()._read_toc()
        names = [str(segment.segment_id()) for segment in contents.segments]
        return SegmentList(int(contents.generation), dict.fromkeys(names))

    def _put_list(self, generation: int, names: list[str]) -> None:
        with contextlib.suppress(OSError):
            write_list(self._folder, _FORMAT, generation, names)

    def _open_arrays(self, name: str, mark: list[int] | None) -> SegmentArrays:
        """Return a segment's arrays; made again from the segment where their file is unusable.

        `mark` is the file's size and time if it was seen whole; else each byte is looked at.
        """
        file = self._folder / f"{name}{SUFFIX}"
        with contextlib.suppress(FileNotFoundError, DamagedArraysError):
            arrays = SegmentArrays.open(file)
            if (mark is not None and mark == mark_file(file)) or arrays.is_whole():
                return arrays
        from vaultmem.storage.index.segments import absorb_segment

        batch = SegmentBatch()
        segments = self._open_all()
        for segment, reader in segments:
            if segment.segment_id() == name:
                absorb_segment(batch, reader, set(), lambda _, __: b"")
            reader.close()
        if name not in {segment.segment_id() for segment, _ in segments}:
            raise FileNotFoundError(name)
        with contextlib.suppress(OSError):
            self._put_arrays(name, batch)
        return SegmentArrays(b"".join(encode_batch(batch)))

    def _find_stored(self, name: str) -> Callable[[str, int], bytes]:
        """Return what gives a segment's stored fields, empty where they are lost."""
        with contextlib.suppress(FileNotFoundError, DamagedArraysError):
            arrays = SegmentArrays.open(self._folder / f"{name}{SUFFIX}")
            if arrays.is_whole():
                return arrays.stored
        return lambda _, __: b""

    def _put_arrays(self, name: str, batch: SegmentBatch) -> None:
        file = self._folder / f"{name}{SUFFIX}"
        # No fsync: an open looks at each byte of what was not seen whole, and can make it anew.
        write_atomically(file, encode_batch(batch), durable=False)

    def _open_all(self) -> list[tuple[Any, Any]]:
        """Return all segments, each with its reader; all are open, or none."""
        from vaultmem.storage.index.segments import IndexFiles, open_segments

        files = IndexFiles(str(self._folder))
        try:
            return open_segments(self._open()._read_toc(), files)
        except OSError:
            files.close_all()
            raise

    def _open_readers(self) -> list[Any]:
        return [reader for _, reader in self._open_all()]

    def find_damage(self) -> str:
        """Return why the index cannot be read, empty if its numbers and a share of its terms can.

        A file that was changed is known by its size and time; this finds what bears neither.
        """
        from vaultmem.storage.index.segments import read_column

        try:
            documents: set[int] = set()
            for reader in self.snapshot().readers:
                documents.update(read_column(reader, "document"))
                terms = 0
                for field, term in islice(reader.all_terms(), 0, None, _EACH):
                    reader.postings(field, term).id()
                    terms += 1
                if reader.doc_count_all() and not terms:
                    return "the index has lost its terms"
            for name in ("ordinal", "body_length"):
                self.snapshot().column(name)
            if documents != self.documents():
                return "the index is damaged (its parts do not fit together)"
        except VaultError:
            raise
        except Exception as error:  # noqa: BLE001 - damaged files can raise whatever there is.
            return f"the index is damaged ({type(error).__name__})"
        return ""

    def close(self) -> None:
        """Close the files; the object can be used again afterwards."""
        self._forget_snapshot()
        self._index = None

    def _read(self, read: Callable[[], _T]) -> _T:
        """Return what is read; where a writer got in between, once more with writers held off.

        A segment's files never change, so what could be opened belongs together.
        """
        try:
            return read()
        except Exception as error:
            if not _is_gone(error):
                raise
        with self._swap():
            return read()

    def _open(self) -> Any:
        if self._index is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._index = self._open_existing()
        if self._index is None:
            with self._swap():
                self._index = self._open_existing() or self._create()
        return self._index

    def _open_existing(self) -> Any:
        """Return the index, None if there is none that can be read."""
        from whoosh import index

        try:
            if (self._folder / "format").read_text() != _FORMAT:
                return None
            found = index.open_dir(str(self._folder))
            found.schema.names()
        except Exception:  # noqa: BLE001 - whatever a damaged pickle raises: rebuild.
            return None
        return found

    def _create(self) -> Any:
        from whoosh import index

        from vaultmem.storage.index.segments import make_schema

        _set_aside(self._folder)
        created = index.create_in(str(self._folder), make_schema())
        (self._folder / "format").write_text(_FORMAT)
        return created

    def _swap(self) -> AbstractContextManager[None]:
        """Hold off others for the moment in which files of the index come and go."""
        return hold_lock(self._folder.with_name("index.lock"))

    def _forget_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
        self._snapshot = None


def _is_gone(error: Exception) -> bool:
    """Tell whether files of the index were not there."""
    if isinstance(error, OSError):
        return True
    from whoosh.index import EmptyIndexError

    return isinstance(error, EmptyIndexError)


def _set_aside(folder: Path) -> None:
    """Empty the folder, keeping what was in it as `damaged` for whoever wants to look."""
    import shutil

    aside = folder.with_name(folder.name + ".damaged")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.exists() and any(folder.iterdir()):
        folder.rename(aside)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
