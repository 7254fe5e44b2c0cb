"""The Whoosh codec that writes an index's segments as arrays, and its schema."""

from __future__ import annotations

import pickle
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from whoosh.analysis import Token, Tokenizer
from whoosh.codec import base
from whoosh.columns import NumericColumn, VarBytesColumn
from whoosh.fields import COLUMN, TEXT, Schema
from whoosh.formats import Existence, Frequency, Positions

from vaultmem.core.search.terms import FIELDS, term_sequence
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.index.batch import NUMBER_COLUMNS
from vaultmem.storage.index.codec_reading import (
    COLUMN_NAME,
    SegmentDocuments,
    SegmentTerms,
    encode_column,
    open_arrays,
)
from vaultmem.storage.index.segment_encoding import (
    Postings,
    encode_postings,
    pack_sequences,
    rank_terms,
)
from vaultmem.storage.index.segments import SUFFIX, VERSION, encode_arrays, narrow

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Documents that Whoosh's own writer adds, collected in memory and written as a segment's file.

#: A term says in a byte which fields have it.
MAX_FIELDS = 8

_FORMATS = (Existence, Frequency, Positions)


def check_field(name: str, field: Any) -> None:
    """Raise a ValueError if a field is indexed in a way that the codec cannot keep."""
    if field.format is not None and type(field.format) not in _FORMATS:
        kind = type(field.format).__name__
        raise ValueError(f"{name}: cannot keep {kind}; use Existence, Frequency or Positions")


class DocumentWriter(base.PerDocumentWriter):  # type: ignore[misc]
    """Collects lengths, columns and stored fields; closed, it writes a file without terms.

    Where there is no document it writes nothing: whoever writes segments in bulk and takes
    Whoosh's writer only to commit them leaves no file behind.
    """

    def __init__(self, storage: Any, name: str) -> None:
        self._storage = storage
        self._name = name
        self._size = 0
        self._lengths: dict[str, array[int]] = {}
        self._columns: dict[str, tuple[Any, list[tuple[int, Any]]]] = {}
        self._stored: list[bytes] = []
        self.is_closed = False

    def start_doc(self, docnum: int) -> None:
        """Begin a document; nothing of it is kept before it is finished."""
        if docnum != self._size:
            raise ValueError(f"document {docnum} begun where {self._size} is the next")
        self._new_stored: dict[str, Any] = {}
        self._new_lengths: dict[str, int] = {}
        self._new_values: list[tuple[str, Any, Any]] = []

    def add_field(self, fieldname: str, fieldobj: Any, value: Any, length: int | None) -> None:
        """Take what is stored of a field, None for nothing, and its length.

        Raises:
            ValueError: the codec cannot keep the field's format.
        """
        check_field(fieldname, fieldobj)
        if value is not None:
            self._new_stored[fieldname] = value
        if length:
            self._new_lengths[fieldname] = length

    def add_column_value(self, fieldname: str, columnobj: Any, value: Any) -> None:
        """Take a value of a column."""
        self._new_values.append((fieldname, columnobj, value))

    def add_vector_items(self, fieldname: str, fieldobj: Any, items: Any) -> None:
        """Raise a ValueError: the codec keeps no vectors."""
        raise ValueError(f"{fieldname}: cannot keep term vectors; take vector= out of the schema")

    def finish_doc(self) -> None:
        """Keep the document."""
        for field, length in self._new_lengths.items():
            lengths = self._lengths.setdefault(field, array("I"))
            lengths.extend([0] * (self._size - len(lengths)))
            lengths.append(length)
        for field, column, value in self._new_values:
            self._columns.setdefault(field, (column, []))[1].append((self._size, value))
        self._stored.append(pickle.dumps(self._new_stored, 4) if self._new_stored else b"")
        self._size += 1

    def cancel_doc(self) -> None:
        """Forget the document."""

    def close(self) -> None:
        """Write the file; it is replaced when the terms are known."""
        if self._size:
            write_segment(self._storage, self._name, self.encode(), (), self._size)
        self.is_closed = True

    def encode(self) -> dict[str, Any]:
        """Return the arrays of a segment of these documents without terms."""
        arrays: dict[str, Any] = {}
        for field, lengths in self._lengths.items():
            lengths.extend([0] * (self._size - len(lengths)))
            arrays[f"{field}_length"] = narrow(np.array(lengths, np.uint32))
        for field, (column, values) in self._columns.items():
            arrays[COLUMN_NAME.format(field)] = encode_column(column, values, self._size)
        starts = np.array([0, *accumulate(map(len, self._stored))], np.uint64)
        arrays |= {"stored": b"".join(self._stored), "stored_start": starts}
        nothing = np.zeros(0, np.uint32)
        empty = Postings([], nothing.astype(np.int64), nothing, nothing, nothing[:, None])
        return arrays | encode_postings(empty)


class TermWriter(base.FieldWriter):  # type: ignore[misc]
    """Collects postings; closed, it puts them into the file that the document writer wrote."""

    def __init__(self, storage: Any, name: str) -> None:
        self._storage = storage
        self._name = name
        self._terms: dict[bytes, int] = {}
        self._fields: list[str] = []
        self._field: Any = None
        self._postings = _Columns("term", "document", "field", "count")
        self._words = _Columns("term", "document", "field", "position")
        self._is_whole = False
        self.is_closed = False

    def add_postings(self, schema: Any, lengths: Any, items: Any) -> None:
        """Take the postings of all fields, sorted."""
        super().add_postings(schema, lengths, items)
        self._is_whole = True

    def start_field(self, fieldname: str, fieldobj: Any) -> None:
        """Begin a field.

        Raises:
            ValueError: the codec cannot keep its format, or so many fields.
        """
        check_field(fieldname, fieldobj)
        self._fields.append(fieldname)
        self._field = fieldobj
        if len(self._fields) > MAX_FIELDS:
            raise ValueError(f"{fieldname}: cannot keep terms of more than {MAX_FIELDS} fields")

    def start_term(self, text: bytes) -> None:
        """Begin a term."""
        self._text = text
        self._term = self._terms.setdefault(text, len(self._terms))

    def add(self, docnum: int, weight: float, vbytes: bytes, length: int | None) -> None:
        """Take a posting.

        Raises:
            ValueError: its weight is not a whole number above zero.
        """
        if weight < 1 or weight != int(weight):
            where = f"{self._fields[-1]}:{self._text!r}"
            raise ValueError(f"{where}: cannot keep the weight {weight}; use no boost, or a whole")
        field = len(self._fields) - 1
        self._postings.add(self._term, docnum, field, int(weight))
        if isinstance(self._field.format, Positions):
            for position in self._field.format.decode_positions(vbytes):
                self._words.add(self._term, docnum, field, position)

    def finish_term(self) -> None:
        """End a term."""

    def close(self) -> None:
        """Write the file with all terms."""
        if self._is_whole:
            old, size = _read_documents(self._storage, self._name)
            new = old | self._encode(size)
            write_segment(self._storage, self._name, new, self._fields, size)
        self.is_closed = True

    def _encode(self, size: int) -> dict[str, Any]:
        if not self._terms:
            return {}
        terms = sorted(self._terms)
        places = np.zeros(len(terms), np.int64)
        places[[self._terms[term] for term in terms]] = np.arange(len(terms))
        postings = self._postings.arrays()
        postings["term"] = places[postings["term"]]
        words = self._words.arrays()
        words["term"] = places[words["term"]]
        return {
            **encode_postings(_group_postings(terms, postings, len(self._fields))),
            **_encode_words(words, len(terms), (size, len(self._fields))),
        }


def _read_documents(storage: Any, name: str) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the arrays of a file and its number of documents."""
    if not storage.file_exists(name):
        return DocumentWriter(storage, name).encode(), 0
    arrays = open_arrays(storage, name)
    return {name: arrays[name] for name in arrays.file.names()}, arrays.size


class _Columns(dict[str, "array[int]"]):
    """Rows of numbers, column by column."""

    def __init__(self, *names: str) -> None:
        super().__init__({name: array("I") for name in names})
        self._add = [column.append for column in self.values()]

    def add(self, *numbers: int) -> None:
        for add, number in zip(self._add, numbers, strict=True):
            add(number)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: np.array(column, np.int64) for name, column in self.items()}


def _group_postings(
    terms: list[bytes], postings: Mapping[str, NDArray[np.int64]], fields: int
) -> Postings:
    """Return one posting a term and document, with the counts of all fields."""
    keys = postings["term"].astype(np.uint64) << np.uint64(32) | postings["document"].astype("u8")
    keys, row = np.unique(keys, return_inverse=True)
    counts = np.zeros((len(keys), fields), np.uint32)
    np.add.at(counts, (row, postings["field"]), postings["count"].astype(np.uint32))
    known, code, many = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-many, kind="stable")
    numbers = np.zeros(len(order), np.uint32)
    numbers[order] = np.arange(len(order))
    each = np.bincount((keys >> np.uint64(32)).astype(np.int64), minlength=len(terms))
    return Postings(terms, each, keys.astype(np.uint32), numbers[code.ravel()], known[order])


def _encode_words(
    words: Mapping[str, NDArray[np.int64]], many: int, shape: tuple[int, int]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of sequences; `shape` is the number of documents and of fields."""
    place = words["document"] * shape[1] + words["field"]
    order = np.lexsort((words["term"], words["position"], place))
    place, position = place[order], words["position"][order]
    rank = rank_terms(np.bincount(words["term"], minlength=many))
    steps = np.diff(position, prepend=0)
    is_first = np.diff(place, prepend=-1) != 0
    steps[is_first] = position[is_first] + 1
    is_marked = steps != 1
    ranks = np.insert(
        rank[words["term"][order]].astype(np.int64),
        np.flatnonzero(is_marked),
        many + 1 + steps[is_marked],
    )
    sizes = np.bincount(place, 1 + is_marked, shape[0] * shape[1]).astype(np.int64).reshape(shape)
    packed, many_bytes = pack_sequences(ranks, sizes)
    return {
        "sequence": packed,
        "sequence_start": np.array([0, *accumulate(many_bytes.tolist())], np.uint32),
        "sequence_size": narrow(sizes.sum(1) + shape[1] - 1),
        "rank": rank,
    }


def write_segment(
    storage: Any, name: str, arrays: Mapping[str, Any], fields: Iterable[str], size: int
) -> None:
    """Put a segment's file in its place, in any of Whoosh's storages."""
    parts = encode_arrays(arrays, {"fields": [*fields], "size": size}, VERSION)
    if folder := getattr(storage, "folder", ""):
        write_atomically(Path(folder) / name, parts, durable=False)
        return
    with storage.create_file(name) as file:
        for part in parts:
            file.write(part)


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


# The fields and columns of the index, as Whoosh knows them.

_RUN = re.compile(r"\S+")


class TermTokenizer(Tokenizer):  # type: ignore[misc]
    """Gives the index terms of a text in their order, so that queries are cut as sections are."""

    def __call__(
        self,
        value: str,
        positions: bool = False,
        chars: bool = False,
        removestops: bool = True,
        start_pos: int = 0,
        start_char: int = 0,
        mode: str = "",
        **options: Any,
    ) -> Iterator[Token]:
        """Yield the tokens of a text; each begins and ends where there are blanks around it."""
        token = Token(positions, chars, removestops, mode, **options)
        terms = ((run, term) for run in _RUN.finditer(value) for term in term_sequence(run[0]))
        for position, (run, term) in enumerate(terms, start_pos):
            token.text, token.original, token.boost = term, term, 1.0
            token.pos, token.stopped = position, False
            token.startchar, token.endchar = (start_char + place for place in run.span())
            yield token


def make_schema() -> Schema:
    """Return the schema: three fields of terms, columns of numbers, and labels as bytes.

    A section's labels are 32 bits each, the lowest first. Nothing is stored.
    """
    fields: dict[str, Any] = {name: TEXT(analyzer=TermTokenizer()) for name in FIELDS}
    fields |= {name: COLUMN(NumericColumn("I")) for name in NUMBER_COLUMNS}
    return Schema(**fields, labels=COLUMN(VarBytesColumn()))
