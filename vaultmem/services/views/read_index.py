"""Add documents to manifest and index, and keep the two consistent.

The database is written before the index, in one transaction per batch. It holds the stamp of its
index. If the stamp differs, the index is out of date and missing notes are read again.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from vaultmem.errors import DamagedError
from vaultmem.storage.index.segments import MAX_SIZE
from vaultmem.storage.link_table import LinkStore
from vaultmem.storage.views import KnownFile
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.indexing.rows import NoteRows
    from vaultmem.core.indexing.term_arrays import TermArrays
    from vaultmem.services.views.chunk import Chunk, ReadJob
    from vaultmem.storage.index.batch import SectionArrays

#: Most postings indexed at once: each takes some 60 bytes of memory while written.
MAX_POSTINGS = 2_000_000

#: Called with (done, total) while many notes are read.
Progress = Callable[[int, int], None]


class Batch:
    """Documents that become one segment of the index."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._parts: list[SectionArrays] = []
        self._sections = self._postings = 0

    @property
    def is_full(self) -> bool:
        """Return whether the segment is full."""
        return self._sections >= MAX_SIZE or self._postings >= MAX_POSTINGS

    def add(self, jobs: Sequence[ReadJob], chunk: Chunk) -> list[int | None]:
        """Add the new notes of a chunk, and return all documents' numbers.

        There is one number per job, None if it is not a note. Compacted notes are read once more,
        with their full texts.
        """
        from vaultmem.services.views.texts import find_full_texts

        full_jobs = find_full_texts(self._vault, jobs, chunk.readings)
        documents = self._add(chunk, full_jobs.keys())
        if full_jobs:
            from vaultmem.services.views.chunk import ChunkReader

            new_documents = self._add(ChunkReader(self._vault.root).read([*full_jobs.values()]))
            for place, document in zip(full_jobs, new_documents, strict=True):
                documents[place] = document
        return documents

    def _add(self, chunk: Chunk, without: Container[int] = ()) -> list[int | None]:
        """Add the notes of a chunk, except those at some positions, which get no number."""
        manifest = self._vault.manifest
        notes = [reading.note for reading in chunk.readings if reading.note is not None]
        numbers_by_note = manifest.find_documents(note[:2] for note in notes)
        skipped_notes = {
            reading.note[:2]
            for place, reading in enumerate(chunk.readings)
            if reading.note is not None and place in without
        }
        new_notes = [
            note
            for note in notes
            if note[:2] not in numbers_by_note and note[:2] not in skipped_notes
        ]
        numbers = manifest.add_documents(new_notes)
        LinkStore(self._vault.state).put(zip(numbers, new_notes, strict=True))
        numbers_by_note |= {
            (note.path, note.blob): number for number, note in zip(numbers, new_notes, strict=True)
        }
        documents = [numbers_by_note.get(note[:2]) for note in notes]
        if chunk.terms is not None and numbers:
            self._add_sections(documents, notes, chunk.terms, numbers)
        document_iterator = iter(documents)
        return [
            None if reading.note is None else next(document_iterator) for reading in chunk.readings
        ]

    def _add_sections(
        self,
        documents: Sequence[int | None],
        notes: Sequence[NoteRows],
        terms: TermArrays,
        new_documents: Container[int | None],
    ) -> None:
        """Collect the sections of those notes whose documents are new."""
        import numpy as np

        from vaultmem.storage.index.batch import describe_sections, select_sections

        sections = describe_sections([each or 0 for each in documents], notes, terms)
        is_fresh = np.array([document in new_documents for document in documents], np.bool_)
        section_mask = np.repeat(is_fresh, [len(note.ordinals) for note in notes])
        if section_mask.any():
            self._parts.append(select_sections(sections, section_mask))
            self._sections += len(self._parts[-1])
            self._postings += len(self._parts[-1].terms.term)

    def write(self) -> None:
        """Write the index after the database: a crash between them leaves the index older."""
        index = self._vault.index
        if self._parts:
            dropped_documents = index.documents() - self._vault.manifest.documents()
            index.write(self._parts, dropped_documents)
        remember_index(self._vault)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Turn off garbage collection in the block: a batch makes many objects and no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def is_index_stale(vault: Vault) -> bool:
    """Return whether the index is damaged, or is not the one the database was written with."""
    stamp = vault.index.stamp()
    try:
        return not stamp or vault.state.get("index") != stamp
    except DamagedError:
        return True


def repair_index(vault: Vault) -> None:
    """Drop documents that the index lacks after an interruption: they are read again."""
    if not is_index_stale(vault):
        return
    if not vault.index.stamp() or vault.state.get("index") or not vault.state.get("view"):
        # Damaged, or left by a lost database, whose document numbers start again: neither written
        # by this database nor about to be.
        vault.index.reset()
    lost_documents = vault.manifest.documents() - vault.index.documents()
    if not lost_documents:
        return
    with vault.state.transaction():
        vault.manifest.drop_files(
            [r.path for r in vault.view.records() if r.document in lost_documents]
        )
        vault.manifest.clear_views()
        vault.manifest.drop_documents(vault.manifest.documents())


def finish_view(vault: Vault, files: Iterable[KnownFile]) -> None:
    """End a change of the work tree's view; until the index is written, it is out of date."""
    documents = [file.document for file in files if file.document is not None]
    vault.manifest.drop_documents(documents)
    vault.state.put("index", "")
    vault.state.put("scan", "")
    vault.state.put("view", str(time.time_ns()))


def remember_index(vault: Vault) -> None:
    """Record that the index matches the database."""
    vault.state.put("index", vault.index.stamp())
