"""The Whoosh codec that reads an index's segments of arrays, and the index's schema.

Postings have no positions: a matcher computes them from a document's sequence on demand. A term
that is not in the sequence has no positions.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache, partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from whoosh.analysis import Token, Tokenizer
from whoosh.codec import base
from whoosh.columns import NumericColumn, VarBytesColumn
from whoosh.fields import COLUMN, TEXT, Schema
from whoosh.filedb.structfile import BufferFile, StructFile
from whoosh.matching import LeafMatcher, ReadTooFar
from whoosh.reading import TermInfo, TermNotFound

from vaultmem.core.indexing.packing import unpack_numbers
from vaultmem.core.search.terms import FIELDS, term_sequence
from vaultmem.storage.index.batch import NUMBER_COLUMNS
from vaultmem.storage.index.segments import SEPARATOR, SUFFIX, DamagedFileError, SegmentArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ArraySegment(base.Segment):  # type: ignore[misc]
    """The entry of a segment in a table of contents, where it is pickled.

    Documents are never deleted from a segment; the next merge leaves them out.
    """

    def __init__(self, indexname: str, size: int) -> None:
        super().__init__(indexname)
        self._size = size

    def codec(self) -> ArrayCodec:
        """Return the codec that reads the segment."""
        return ArrayCodec()

    def file_name(self) -> str:
        """Return the name of the segment's only file."""
        return str(self.make_filename(SUFFIX))

    def doc_count_all(self) -> int:
        """Return the number of documents (sections)."""
        return self._size

    def deleted_count(self) -> int:
        """Return 0, because no document is deleted."""
        return 0

    def deleted_docs(self) -> Iterable[int]:
        """Return no documents."""
        return ()

    def is_deleted(self, docnum: int) -> bool:
        """Return False, because no document is deleted."""
        return False


class ArrayCodec(base.Codec):  # type: ignore[misc]
    """The codec that reads segments of arrays; `segment_encoding` writes them."""

    def terms_reader(self, storage: Any, segment: ArraySegment) -> SegmentTerms:
        """Return the reader of terms and postings.

        Raises:
            DamagedFileError: the segment's file is damaged.
        """
        return SegmentTerms(_open_arrays(storage, segment))

    def per_document_reader(self, storage: Any, segment: ArraySegment) -> SegmentDocuments:
        """Return the reader of lengths and columns."""
        return SegmentDocuments(_open_arrays(storage, segment))


def _open_arrays(storage: Any, segment: ArraySegment) -> SegmentArrays:
    """Open a segment's file.

    Raises:
        DamagedFileError: the file is truncated, or of another version.
    """
    return SegmentArrays.open(Path(storage.folder) / segment.file_name())


# The postings of one term as a Whoosh matcher.

#: Postings in a block, which is skipped if none of them can be among the best.
_BLOCK = 128


class PostingMatcher(LeafMatcher):  # type: ignore[misc]
    """The documents with a term, in order, with its count; values are made on demand."""

    def __init__(
        self,
        ids: list[int],
        weights: list[int],
        lengths: memoryview,
        read_value: Callable[[int], bytes],
        term: tuple[str, bytes],
        format_: Any,
        scorer: Any,
    ) -> None:
        """Start at the first posting; `lengths` are those of all documents in the field."""
        self._ids = ids
        self._weights = weights
        self._lengths = lengths
        self._read_value = read_value
        self._term = term
        self.format = format_
        self.scorer = scorer
        self._at = 0

    def is_active(self) -> bool:
        """Return whether there is a posting at the position."""
        return self._at < len(self._ids)

    def reset(self) -> None:
        """Go to the first posting."""
        self._at = 0

    def copy(self) -> PostingMatcher:
        """Return a copy at the same position."""
        return copy(self)

    def id(self) -> int:
        """Return the posting's document; after the end, the last one (Whoosh's AndNot reads it)."""
        return self._ids[min(self._at, len(self._ids) - 1)]

    def weight(self) -> float:
        """Return the count of the term in the document."""
        return float(self._weights[self._at])

    def value(self) -> bytes:
        """Return the posting's value in the field's format."""
        return self._read_value(self._ids[self._at])

    def next(self) -> bool:
        """Go to the next posting; return whether a new block starts or the postings end."""
        if not self.is_active():
            raise ReadTooFar
        self._at += 1
        return self._at % _BLOCK == 0 or not self.is_active()

    def skip_to(self, id: int) -> None:
        """Go forward to the first posting of this document or a later one."""
        if not self.is_active():
            raise ReadTooFar
        self._at = bisect_left(self._ids, id, lo=self._at)

    def skip_to_quality(self, minquality: float) -> int:
        """Skip blocks without a posting above a quality; return how many were skipped."""
        skipped = 0
        while self.is_active() and self.block_quality() <= minquality:
            self._at = self._block().stop
            skipped += 1
        return skipped

    def _block(self) -> slice:
        first = self._at - self._at % _BLOCK
        return slice(first, first + _BLOCK)

    def _block_lengths(self) -> list[int]:
        """Return the lengths of the block's documents, at least 1 as in scorers."""
        return [self._lengths[number] or 1 for number in self._ids[self._block()]]

    def block_min_length(self) -> int:
        """Return the length of the block's shortest document."""
        return min(self._block_lengths())

    def block_max_length(self) -> int:
        """Return the length of the block's longest document."""
        return max(self._block_lengths())

    def block_max_weight(self) -> float:
        """Return the block's highest count."""
        return float(max(self._weights[self._block()]))


#: Documents whose sequences are cached.
_MAX_CACHED_DOCUMENTS = 4096


class SegmentTerms(base.TermsReader):  # type: ignore[misc]
    """The terms of a segment, ordered by field name."""

    def __init__(self, arrays: SegmentArrays) -> None:
        """Check the checksum of a segment's file.

        Raises:
            DamagedFileError: the checksum is wrong.
        """
        if not arrays.file.is_whole():
            raise DamagedFileError
        self._arrays = arrays
        self._names = sorted(arrays.fields)
        self._places = lru_cache(None)(self._find_places)
        self._sequence = lru_cache(_MAX_CACHED_DOCUMENTS)(partial(_read_sequence, arrays))

    def _find_places(self, field: str) -> list[int]:
        """Return the places of a field's terms in the order of all terms."""
        if field not in self._arrays.fields:
            return []
        bit = 1 << self._arrays.fields.index(field)
        places: list[int] = np.flatnonzero(self._arrays["fields"] & bit).tolist()
        return places

    def _find(self, field: str, text: bytes) -> int:
        """Return a term's place.

        Raises:
            KeyError: the field does not have the term.
        """
        if field in self._arrays.fields:
            place = self._arrays.find_term(text)
            bit = 1 << self._arrays.fields.index(field)
            if place >= 0 and self._arrays["fields"][place] & bit:
                return place
        raise KeyError(f"{field}:{text!r}")

    def __contains__(self, term: tuple[str, bytes]) -> bool:
        try:
            self._find(*term)
        except KeyError:
            return False
        return True

    def indexed_field_names(self) -> Iterable[str]:
        """Return the names of the fields, sorted."""
        return self._names

    def terms(self) -> Iterator[tuple[str, bytes]]:
        """Yield field and text of all terms."""
        for field in self._names:
            for place in self._places(field):
                yield field, self._arrays.term(place)

    def terms_from(self, fieldname: str, prefix: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield field and text of all terms from `prefix` on, including later fields."""
        places = self._places(fieldname)
        for place in places[bisect_left(places, self._arrays.find_place(prefix)) :]:
            yield fieldname, self._arrays.term(place)
        if fieldname in self._names:
            for field in self._names[self._names.index(fieldname) + 1 :]:
                for place in self._places(field):
                    yield field, self._arrays.term(place)

    def items(self) -> Iterator[tuple[tuple[str, bytes], TermInfo]]:
        """Return an iterator over all terms and their `TermInfo`."""
        return ((term, self.term_info(*term)) for term in self.terms())

    def items_from(
        self, fieldname: str, prefix: bytes
    ) -> Iterator[tuple[tuple[str, bytes], TermInfo]]:
        """Return an iterator over the terms from `prefix` on and their `TermInfo`."""
        return ((term, self.term_info(*term)) for term in self.terms_from(fieldname, prefix))

    def _postings(self, field: str, place: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the documents with a term in a field, and its count in each."""
        sections, codes = self._arrays.postings(place)
        counts = self._arrays.counts()[codes, self._arrays.fields.index(field)]
        has_it = counts > 0
        return sections[has_it], counts[has_it]

    def _lengths(self, field: str) -> memoryview:
        """Return the number of words of each document in a field."""
        return self._arrays.file.numbers(f"{field}_length")

    def term_info(self, fieldname: str, text: bytes) -> TermInfo:
        """Return a term's statistics.

        Raises:
            KeyError: the field does not have the term.
        """
        ids, weights = self._postings(fieldname, self._find(fieldname, text))
        lengths = np.asarray(self._lengths(fieldname))[ids]
        shortest, longest = max(1, int(lengths.min())), int(lengths.max())
        max_weight, first, last = float(weights.max()), int(ids[0]), int(ids[-1])
        weight = float(weights.sum(dtype=np.int64))
        return TermInfo(weight, len(ids), shortest, longest, max_weight, first, last)

    def matcher(self, fieldname: str, text: bytes, format_: Any, scorer: Any = None) -> Any:
        """Return a matcher over a term's postings.

        Raises:
            TermNotFound: the field does not have the term.
        """
        try:
            place = self._find(fieldname, text)
        except KeyError as error:
            raise TermNotFound(f"No term {fieldname}:{text!r}") from error
        ids, weights = self._postings(fieldname, place)
        rank, field = int(self._arrays["rank"][place]), self._arrays.fields.index(fieldname)
        return PostingMatcher(
            ids.tolist(),
            weights.tolist(),
            self._lengths(fieldname),
            partial(self._read_value, field, rank, format_),
            (fieldname, text),
            format_,
            scorer,
        )

    def _read_value(self, field: int, rank: int, format_: Any, document: int) -> bytes:
        """Return the positions of a term in a document, encoded by the field's format."""
        positions = np.flatnonzero(self._sequence(document)[field] == rank)
        value: bytes = format_.encode(positions.tolist())
        return value

    def cursor(self, fieldname: str, fieldobj: Any) -> FieldTerms:
        """Return a cursor on the first term of a field."""
        return FieldTerms(self, self._arrays, self._places(fieldname), fieldname, fieldobj)


def _read_sequence(arrays: SegmentArrays, document: int) -> list[NDArray[np.uint32]]:
    """Return the ranks of a document's words in order, one array for each field."""
    starts = arrays.file.numbers("sequence_start")
    ranks = unpack_numbers(arrays["sequence"][starts[document] : starts[document + 1]])
    parts = np.split(ranks, np.flatnonzero(ranks == SEPARATOR))
    return [part[part != SEPARATOR] for part in parts]


class FieldTerms(base.FieldCursor):  # type: ignore[misc]
    """A cursor on the terms of a field, decoded by the field."""

    def __init__(
        self, terms: SegmentTerms, arrays: SegmentArrays, places: list[int], name: str, field: Any
    ) -> None:
        self._terms = terms
        self._arrays = arrays
        self._places = places
        self._name = name
        self._field = field
        self._at = 0

    def first(self) -> Any:
        """Go to the first term and return it."""
        self._at = 0
        return self.text()

    def find(self, term: str | bytes) -> Any:
        """Go to a term, or to the next one if it is absent, and return it."""
        text = term if isinstance(term, bytes) else self._field.to_bytes(term)
        self._at = bisect_left(self._places, self._arrays.find_place(text))
        return self.text()

    def next(self) -> Any:
        """Go to the next term and return it."""
        self._at += 1
        return self.text()

    def is_valid(self) -> bool:
        """Return whether there is a term at the position."""
        return self._at < len(self._places)

    def text(self) -> Any:
        """Return the term, None after the last."""
        return self._field.from_bytes(self._bytes()) if self.is_valid() else None

    term = text

    def _bytes(self) -> bytes:
        return self._arrays.term(self._places[self._at])

    def term_info(self) -> TermInfo | None:
        """Return the term's statistics, None after the last."""
        return self._terms.term_info(self._name, self._bytes()) if self.is_valid() else None


# The lengths and columns of a segment's documents, as Whoosh reads them.


class SegmentDocuments(base.PerDocumentReader):  # type: ignore[misc]
    """The documents of a segment."""

    def __init__(self, arrays: SegmentArrays) -> None:
        self._arrays = arrays
        self._columns: dict[str, bytes] = {}

    def doc_count(self) -> int:
        """Return the number of documents."""
        return self._arrays.size

    doc_count_all = doc_count

    def has_deletions(self) -> bool:
        """Return False, because no document is deleted."""
        return False

    def is_deleted(self, docnum: int) -> bool:
        """Return False, because no document is deleted."""
        return False

    def deleted_docs(self) -> Iterable[int]:
        """Return no documents."""
        return ()

    def supports_columns(self) -> bool:
        """Return True, because there are columns."""
        return True

    def has_column(self, fieldname: str) -> bool:
        """Return whether a field is a column."""
        return fieldname in self.list_columns()

    def list_columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return (*NUMBER_COLUMNS, "labels")

    def column_reader(self, fieldname: str, column: Any) -> Any:
        """Return the reader of a field's column.

        Raises:
            KeyError: the field has no column.
        """
        if fieldname not in self._columns:
            self._columns[fieldname] = self._encode_column(fieldname, column)
        data = self._columns[fieldname]
        return column.reader(BufferFile(data), 0, len(data), self._arrays.size)

    def _encode_column(self, name: str, column: Any) -> bytes:
        """Return the documents' values, encoded by Whoosh's writer of the column."""
        file = StructFile(BytesIO())
        writer = column.writer(file)
        values = self._list_labels() if name == "labels" else self._arrays[name].tolist()
        for document, value in enumerate(values):
            writer.add(document, value)
        writer.finish(self._arrays.size)
        data: bytes = file.file.getvalue()
        return data

    def _list_labels(self) -> list[bytes]:
        """Return each document's labels, 32 bits each, the lowest byte first."""
        data = self._arrays["labels"].astype("<u4").tobytes()
        starts = (self._arrays["labels_start"].astype("i8") * 4).tolist()
        return [data[start:end] for start, end in pairwise(starts)]

    def doc_field_length(self, docnum: int, fieldname: str, default: int = 0) -> int:
        """Return the number of words in a document's field, the default if 0 or not counted."""
        lengths = self._lengths(fieldname)
        return lengths[docnum] or default if lengths else default

    def field_length(self, fieldname: str) -> int:
        """Return the number of words that a field has in all documents."""
        return sum(self._lengths(fieldname))

    def min_field_length(self, fieldname: str) -> int:
        """Return the smallest number of words that a field has in a document."""
        return min(self._lengths(fieldname), default=0)

    def max_field_length(self, fieldname: str) -> int:
        """Return the largest number of words that a field has in a document."""
        return max(self._lengths(fieldname), default=0)

    def _lengths(self, field: str) -> Sequence[int]:
        """Return the number of words by document, empty if the field's are not counted."""
        name = f"{field}_length"
        return self._arrays.file.numbers(name) if name in self._arrays.file else ()

    def stored_fields(self, docnum: int) -> dict[str, Any]:
        """Return no fields, because none are stored."""
        return {}


# The fields and columns of the index, as Whoosh knows them.

_RUN = re.compile(r"\S+")


class TermTokenizer(Tokenizer):  # type: ignore[misc]
    """A tokenizer that splits queries into index terms as sections are split."""

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
        """Yield the tokens of a text; each has the span of the word between blanks."""
        token = Token(positions, chars, removestops, mode, **options)
        terms = ((run, term) for run in _RUN.finditer(value) for term in term_sequence(run[0]))
        for position, (run, term) in enumerate(terms, start_pos):
            token.text, token.original, token.boost = term, term, 1.0
            token.pos, token.stopped = position, False
            token.startchar, token.endchar = (start_char + offset for offset in run.span())
            yield token


def make_schema() -> Schema:
    """Return the schema: three fields of terms, columns of numbers, and labels as bytes.

    A section's labels are 32 bits each, the lowest byte first. No field is stored.
    """
    fields: dict[str, Any] = {name: TEXT(analyzer=TermTokenizer()) for name in FIELDS}
    fields |= {name: COLUMN(NumericColumn("I")) for name in NUMBER_COLUMNS}
    return Schema(**fields, labels=COLUMN(VarBytesColumn()))
