"""Documents on their way into manifest and index, and both kept in step.

The database is written before the index, in one transaction a batch. It holds the stamp of the
index that it belongs to; where that differs, the index is behind and what it lacks is read again.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from vaultmem.storage.index.batch import SegmentBatch
from vaultmem.storage.links import LinkStore
from vaultmem.storage.manifest import KnownFile
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.indexing.analysis import AnalysedNote

#: Called with (done, total) while many notes are read.
Progress = Callable[[int, int], None]


class Batch:
    """Documents that become one segment of the index."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._links = LinkStore(vault.state)
        self._segment = SegmentBatch()

    def add(self, note: AnalysedNote) -> int:
        """Add a note unless it is known already, and return its document's number."""
        manifest = self._vault.manifest
        document = manifest.find_document(note.record.path, note.record.blob)
        if document is None:
            document = manifest.add_document(note)
            self._links.put(document, note)
            for section, terms in zip(note.sections, note.terms, strict=True):
                self._segment.add(document, section.ordinal, terms)
        return document

    def write(self) -> None:
        """Write the index after the database: a crash between leaves it behind, never ahead."""
        index = self._vault.index
        if len(self._segment):
            index.write(self._segment, index.documents() - self._vault.manifest.documents())
        remember_index(self._vault)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Let Python look for reference cycles later: a batch makes none, and many objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def is_index_behind(vault: Vault) -> bool:
    """Tell whether the index is not the one that the database was written with."""
    return vault.state.get("index") != vault.index.stamp()


def repair_index(vault: Vault) -> None:
    """Forget the documents that the index does not hold (it was interrupted): they come again."""
    if not is_index_behind(vault):
        return
    if vault.state.get("index") or not vault.state.get("view"):
        # Neither written by this database nor on its way: damaged, or left by a lost database
        # whose document numbers start again.
        vault.index.reset()
    lost = vault.manifest.documents() - vault.index.documents()
    if not lost:
        return
    with vault.state.transaction():
        vault.manifest.drop_files([r.path for r in vault.view.records() if r.document in lost])
        vault.stored_views.clear()
        vault.manifest.drop_documents(vault.manifest.documents())


def finish_view(vault: Vault, replaced: Iterable[KnownFile]) -> None:
    """End a change of the work tree's view; until the index is written, it counts as behind."""
    documents = [file.document for file in replaced if file.document is not None]
    vault.manifest.drop_documents(documents)
    vault.state.put("index", "")
    vault.state.put("scan", "")
    vault.state.put("view", str(time.time_ns()))


def remember_index(vault: Vault) -> None:
    """Say that the index holds what the database knows."""
    vault.state.put("index", vault.index.stamp())
