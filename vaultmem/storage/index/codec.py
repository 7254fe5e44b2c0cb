"""The index's segments as a codec of Whoosh's, so that any Whoosh code opens and searches them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whoosh.codec import base

from vaultmem.storage.index.codec_documents import SegmentDocuments
from vaultmem.storage.index.codec_reading import SegmentTerms, open_arrays
from vaultmem.storage.index.codec_writing import DocumentWriter, TermWriter
from vaultmem.storage.index.segment_arrays import SUFFIX


class ArraySegment(base.Segment):  # type: ignore[misc]
    """What a table of contents says of a segment; instances are pickled there."""

    def __init__(self, indexname: str, size: int = 0) -> None:
        super().__init__(indexname)
        self._size = size
        self._deleted: set[int] = set()

    def codec(self) -> ArrayCodec:
        """Return what reads and writes the segment."""
        return ArrayCodec()

    def file_name(self) -> str:
        """Return the name of the segment's only file."""
        return str(self.make_filename(SUFFIX))

    def should_assemble(self) -> bool:
        """Tell that one file needs no putting together."""
        return False

    def doc_count_all(self) -> int:
        """Return the number of documents, deleted ones included."""
        return self._size

    def set_doc_count(self, doccount: int) -> None:
        """Take the number of documents."""
        self._size = doccount

    def deleted_count(self) -> int:
        """Return the number of deleted documents."""
        return len(self._deleted)

    def deleted_docs(self) -> Iterable[int]:
        """Return the numbers of deleted documents in their order."""
        return sorted(self._deleted)

    def is_deleted(self, docnum: int) -> bool:
        """Tell whether a document is deleted."""
        return docnum in self._deleted

    def delete_document(self, docnum: int, delete: bool = True) -> None:
        """Delete a document, or bring it back."""
        if delete:
            self._deleted.add(docnum)
        else:
            self._deleted.discard(docnum)


class ArrayCodec(base.Codec):  # type: ignore[misc]
    """Reads and writes segments of arrays.

    It keeps terms of up to eight fields in the formats `Existence`, `Frequency` and `Positions`,
    weights that are whole numbers, columns of any kind and stored fields; no vectors.
    """

    #: Writers need not read the lengths back: the file has them.
    length_stats = False

    def new_segment(self, storage: Any, indexname: str) -> ArraySegment:
        """Return a segment that is still empty."""
        return ArraySegment(indexname)

    def per_document_writer(self, storage: Any, segment: ArraySegment) -> DocumentWriter:
        """Return what writes what each document has."""
        return DocumentWriter(storage, segment.file_name())

    def field_writer(self, storage: Any, segment: ArraySegment) -> TermWriter:
        """Return what writes terms and postings."""
        return TermWriter(storage, segment.file_name())

    def terms_reader(self, storage: Any, segment: ArraySegment) -> SegmentTerms:
        """Return what reads terms and postings.

        Raises:
            DamagedFileError: the segment's file is not as it was written.
        """
        return SegmentTerms(open_arrays(storage, segment.file_name()))

    def per_document_reader(self, storage: Any, segment: ArraySegment) -> SegmentDocuments:
        """Return what reads what each document has."""
        return SegmentDocuments(segment, open_arrays(storage, segment.file_name()))
