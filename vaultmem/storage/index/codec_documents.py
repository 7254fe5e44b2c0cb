"""What each document of a segment of arrays has, as Whoosh reads it: lengths, columns, fields."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from whoosh.codec import base
from whoosh.filedb.structfile import BufferFile, StructFile

from vaultmem.storage.index.batch import NUMBER_COLUMNS

if TYPE_CHECKING:
    from vaultmem.storage.index.segment_arrays import SegmentArrays

#: The array of a column's bytes; no field's name has a blank, so none is the name of another array.
COLUMN = "column {}"


class SegmentDocuments(base.PerDocumentReader):  # type: ignore[misc]
    """The documents of a segment."""

    def __init__(self, segment: Any, arrays: SegmentArrays) -> None:
        self._segment = segment
        self._arrays = arrays
        self._columns: dict[str, bytes] = {}

    def doc_count(self) -> int:
        """Return how many documents are not deleted."""
        return self.doc_count_all() - int(self._segment.deleted_count())

    def doc_count_all(self) -> int:
        """Return how many documents there are."""
        return self._arrays.size

    def has_deletions(self) -> bool:
        """Tell whether any document is deleted."""
        return bool(self._segment.has_deletions())

    def is_deleted(self, docnum: int) -> bool:
        """Tell whether a document is deleted."""
        return bool(self._segment.is_deleted(docnum))

    def deleted_docs(self) -> Iterable[int]:
        """Return the numbers of deleted documents."""
        deleted: Iterable[int] = self._segment.deleted_docs()
        return deleted

    def supports_columns(self) -> bool:
        """Tell that there may be columns."""
        return True

    def has_column(self, fieldname: str) -> bool:
        """Tell whether a field has a column here."""
        file = self._arrays.file
        is_ours = fieldname in NUMBER_COLUMNS or fieldname == "labels"
        return COLUMN.format(fieldname) in file or (is_ours and fieldname in file)

    def list_columns(self) -> Iterator[str]:
        """Yield the fields that have a column here."""
        beginning = COLUMN.format("")
        names = (name.removeprefix(beginning) for name in self._arrays.file.names())
        return filter(self.has_column, names)

    def column_reader(self, fieldname: str, column: Any) -> Any:
        """Return the reader of a field's column.

        Raises:
            KeyError: the field has none.
        """
        if fieldname not in self._columns:
            self._columns[fieldname] = self._read_column(fieldname, column)
        data = self._columns[fieldname]
        return column.reader(BufferFile(data), 0, len(data), self.doc_count_all())

    def _read_column(self, name: str, column: Any) -> bytes:
        """Return the bytes that the column's own writer wrote, or would write."""
        written = COLUMN.format(name)
        if written in self._arrays.file:
            return bytes(self._arrays.file.numbers(written))
        values = self._list_labels() if name == "labels" else self._arrays[name].tolist()
        return encode_column(column, enumerate(values), self.doc_count_all())

    def _list_labels(self) -> list[bytes]:
        """Return each document's labels, 32 bits each, the lowest first."""
        data = self._arrays["labels"].astype("<u4").tobytes()
        starts = (self._arrays["labels_start"].astype("i8") * 4).tolist()
        return [data[start:end] for start, end in pairwise(starts)]

    def doc_field_length(self, docnum: int, fieldname: str, default: int = 0) -> int:
        """Return how many words a field of a document has, the default if none."""
        length: int = self.doc_field_length_reader(fieldname, default)(docnum)
        return length

    def doc_field_length_reader(self, fieldname: str, default: int = 0) -> Any:
        """Return what gives the length of a field by document."""
        name = f"{fieldname}_length"
        if name not in self._arrays.file:
            return lambda _: default
        lengths = self._arrays.file.numbers(name)
        return lambda document: lengths[document] or default

    def field_length(self, fieldname: str) -> int:
        """Return how many words a field has in all documents."""
        return sum(self._lengths(fieldname))

    def min_field_length(self, fieldname: str) -> int:
        """Return how many words a field has where it has the fewest."""
        return min(self._lengths(fieldname), default=0)

    def max_field_length(self, fieldname: str) -> int:
        """Return how many words a field has where it has the most."""
        return max(self._lengths(fieldname), default=0)

    def _lengths(self, field: str) -> Iterable[int]:
        name = f"{field}_length"
        return self._arrays.file.numbers(name) if name in self._arrays.file else ()

    def stored_fields(self, docnum: int) -> dict[str, Any]:
        """Return what is stored of a document."""
        file = self._arrays.file
        if "stored" not in file:
            return {}
        starts = file.numbers("stored_start")
        data = file.bytes("stored", starts[docnum], starts[docnum + 1])
        stored: dict[str, Any] = pickle.loads(data) if data else {}  # noqa: S301  We wrote it.
        return stored


def encode_column(column: Any, values: Iterable[tuple[int, Any]], size: int) -> bytes:
    """Return the bytes that a column's own writer makes of documents' values, in their order."""
    file = StructFile(BytesIO())
    writer = column.writer(file)
    for document, value in values:
        writer.add(document, value)
    writer.finish(size)
    data: bytes = file.file.getvalue()
    return data
