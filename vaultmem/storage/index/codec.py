"""The Whoosh codec that reads an index's segments of arrays, and the index's schema.

Positions are not stored with postings: they follow from a document's sequence, and are looked up
when a matcher is asked for them. A term that has no place in the sequence has no positions.
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
    """What a table of contents says of a segment; instances are pickled there.

    No document of a segment is ever deleted: it is left out of the next merge.
    """

    def __init__(self, indexname: str, size: int) -> None:
        super().__init__(indexname)
        self._size = size

    def codec(self) -> ArrayCodec:
        """Return what reads the segment."""
        return ArrayCodec()

    def file_name(self) -> str:
        """Return the name of the segment's only file."""
        return str(self.make_filename(SUFFIX))

    def doc_count_all(self) -> int:
        """Return the number of documents."""
        return self._size

    def deleted_count(self) -> int:
        """Return that no document is deleted."""
        return 0

    def deleted_docs(self) -> Iterable[int]:
        """Return no documents."""
        return ()

    def is_deleted(self, docnum: int) -> bool:
        """Tell that a document is not deleted."""
        return False


class ArrayCodec(base.Codec):  # type: ignore[misc]
    """Reads segments of arrays; what writes them is `segment_encoding`, many sections at once."""

    def terms_reader(self, storage: Any, segment: ArraySegment) -> SegmentTerms:
        """Return what reads terms and postings.

        Raises:
            DamagedFileError: the segment's file is not as it was written.
        """
        return SegmentTerms(_open_arrays(storage, segment))

    def per_document_reader(self, storage: Any, segment: ArraySegment) -> SegmentDocuments:
        """Return what reads what each document has."""
        return SegmentDocuments(_open_arrays(storage, segment))


def _open_arrays(storage: Any, segment: ArraySegment) -> SegmentArrays:
    """Open a segment's file.

    Raises:
        DamagedFileError: it was cut short, or is of another version.
    """
    return SegmentArrays.open(Path(storage.folder) / segment.file_name())


# The postings of one term as a matcher of Whoosh's.

#: So many postings are left out at once where none of them can be among the best.
_BLOCK = 128


class PostingMatcher(LeafMatcher):  # type: ignore[misc]
    """Documents in their order, each with the count of a term; values are made when asked for."""

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
        """Take postings; `lengths` are those of all documents in the field."""
        self._ids = ids
        self._weights = weights
        self._lengths = lengths
        self._read_value = read_value
        self._term = term
        self.format = format_
        self.scorer = scorer
        self._at = 0

    def is_active(self) -> bool:
        """Tell whether there is a posting here."""
        return self._at < len(self._ids)

    def reset(self) -> None:
        """Go to the first posting."""
        self._at = 0

    def copy(self) -> PostingMatcher:
        """Return another that stands where this one does."""
        return copy(self)

    def id(self) -> int:
        """Return the posting's document; behind the last that of the last, as AndNot asks there."""
        return self._ids[min(self._at, len(self._ids) - 1)]

    def weight(self) -> float:
        """Return how often the document has the term."""
        return float(self._weights[self._at])

    def value(self) -> bytes:
        """Return the posting's value as the field's format has it."""
        return self._read_value(self._ids[self._at])

    def next(self) -> bool:
        """Go to the next posting; tell whether a block of postings begins there."""
        if not self.is_active():
            raise ReadTooFar
        self._at += 1
        return self._at % _BLOCK == 0 or not self.is_active()

    def skip_to(self, id: int) -> None:
        """Go to the first posting from here on that is of this document or a later one."""
        if not self.is_active():
            raise ReadTooFar
        self._at = bisect_left(self._ids, id, lo=self._at)

    def skip_to_quality(self, minquality: float) -> int:
        """Leave out blocks in which no posting has more than a quality; return how many."""
        skipped = 0
        while self.is_active() and self.block_quality() <= minquality:
            self._at = self._block().stop
            skipped += 1
        return skipped

    def _block(self) -> slice:
        first = self._at - self._at % _BLOCK
        return slice(first, first + _BLOCK)

    def _block_lengths(self) -> list[int]:
        """Return lengths of the block's documents, no shorter than scorers take them."""
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


#: So many documents' sequences are kept at hand.
_KEPT = 4096


class SegmentTerms(base.TermsReader):  # type: ignore[misc]
    """The terms of a segment, field after field in the order of their names."""

    def __init__(self, arrays: SegmentArrays) -> None:
        """Take a segment's arrays.

        Raises:
            DamagedFileError: a byte of the file is not as it was written.
        """
        if not arrays.file.is_whole():
            raise DamagedFileError
        self._arrays = arrays
        self._names = sorted(arrays.fields)
        self._places = lru_cache(None)(self._find_places)
        self._sequence = lru_cache(_KEPT)(partial(_read_sequence, arrays))

    def _find_places(self, field: str) -> list[int]:
        """Return the places of a field's terms in the order of all."""
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
        """Return the fields that have terms."""
        return self._names

    def terms(self) -> Iterator[tuple[str, bytes]]:
        """Yield field and text of all terms."""
        for field in self._names:
            for place in self._places(field):
                yield field, self._arrays.term(place)

    def terms_from(self, fieldname: str, prefix: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield field and text of all terms from one on, those of later fields too."""
        places = self._places(fieldname)
        for place in places[bisect_left(places, self._arrays.find_place(prefix)) :]:
            yield fieldname, self._arrays.term(place)
        if fieldname in self._names:
            for field in self._names[self._names.index(fieldname) + 1 :]:
                for place in self._places(field):
                    yield field, self._arrays.term(place)

    def items(self) -> Iterator[tuple[tuple[str, bytes], TermInfo]]:
        """Yield all terms, each with its facts."""
        return ((term, self.term_info(*term)) for term in self.terms())

    def items_from(
        self, fieldname: str, prefix: bytes
    ) -> Iterator[tuple[tuple[str, bytes], TermInfo]]:
        """Yield all terms from one on, each with its facts."""
        return ((term, self.term_info(*term)) for term in self.terms_from(fieldname, prefix))

    def _postings(self, field: str, place: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the documents that have a term in a field, and how often."""
        sections, codes = self._arrays.postings(place)
        counts = self._arrays.counts()[codes, self._arrays.fields.index(field)]
        has_it = counts > 0
        return sections[has_it], counts[has_it]

    def _lengths(self, field: str) -> memoryview:
        """Return how many words each document has in a field."""
        return self._arrays.file.numbers(f"{field}_length")

    def term_info(self, fieldname: str, text: bytes) -> TermInfo:
        """Return a term's facts.

        Raises:
            KeyError: the field does not have the term.
        """
        ids, weights = self._postings(fieldname, self._find(fieldname, text))
        lengths = np.asarray(self._lengths(fieldname))[ids]
        shortest, longest = max(1, int(lengths.min())), int(lengths.max())
        most, first, last = float(weights.max()), int(ids[0]), int(ids[-1])
        weight = float(weights.sum(dtype=np.int64))
        return TermInfo(weight, len(ids), shortest, longest, most, first, last)

    def matcher(self, fieldname: str, text: bytes, format_: Any, scorer: Any = None) -> Any:
        """Return a term's postings.

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
        """Return a posting's value: the places of the term, as the field's format has them."""
        positions = np.flatnonzero(self._sequence(document)[field] == rank)
        value: bytes = format_.encode(positions.tolist())
        return value

    def cursor(self, fieldname: str, fieldobj: Any) -> FieldTerms:
        """Return a cursor on the first term of a field."""
        return FieldTerms(self, self._arrays, self._places(fieldname), fieldname, fieldobj)


def _read_sequence(arrays: SegmentArrays, document: int) -> list[NDArray[np.uint32]]:
    """Return for each field of a document the ranks of its words in their order."""
    starts = arrays.file.numbers("sequence_start")
    ranks = unpack_numbers(arrays["sequence"][starts[document] : starts[document + 1]])
    parts = np.split(ranks, np.flatnonzero(ranks == SEPARATOR))
    return [part[part != SEPARATOR] for part in parts]


class FieldTerms(base.FieldCursor):  # type: ignore[misc]
    """A cursor on the terms of a field, which `text` gives as the field reads them."""

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
        """Go to the first term, and return it."""
        self._at = 0
        return self.text()

    def find(self, term: str | bytes) -> Any:
        """Go to a term, or to the first behind where it would be, and return it."""
        text = term if isinstance(term, bytes) else self._field.to_bytes(term)
        self._at = bisect_left(self._places, self._arrays.find_place(text))
        return self.text()

    def next(self) -> Any:
        """Go to the next term, and return it."""
        self._at += 1
        return self.text()

    def is_valid(self) -> bool:
        """Tell whether there is a term here."""
        return self._at < len(self._places)

    def text(self) -> Any:
        """Return the term, None behind the last."""
        return self._field.from_bytes(self._bytes()) if self.is_valid() else None

    term = text

    def _bytes(self) -> bytes:
        return self._arrays.term(self._places[self._at])

    def term_info(self) -> TermInfo | None:
        """Return the term's facts, None behind the last."""
        return self._terms.term_info(self._name, self._bytes()) if self.is_valid() else None


# What each document of a segment of arrays has, as Whoosh reads it: lengths and columns.


class SegmentDocuments(base.PerDocumentReader):  # type: ignore[misc]
    """The documents of a segment."""

    def __init__(self, arrays: SegmentArrays) -> None:
        self._arrays = arrays
        self._columns: dict[str, bytes] = {}

    def doc_count(self) -> int:
        """Return how many documents there are; none is deleted."""
        return self._arrays.size

    doc_count_all = doc_count

    def has_deletions(self) -> bool:
        """Tell that no document is deleted."""
        return False

    def is_deleted(self, docnum: int) -> bool:
        """Tell that a document is not deleted."""
        return False

    def deleted_docs(self) -> Iterable[int]:
        """Return no documents."""
        return ()

    def supports_columns(self) -> bool:
        """Tell that there are columns."""
        return True

    def has_column(self, fieldname: str) -> bool:
        """Tell whether a field is a column."""
        return fieldname in self.list_columns()

    def list_columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return (*NUMBER_COLUMNS, "labels")

    def column_reader(self, fieldname: str, column: Any) -> Any:
        """Return the reader of a field's column.

        Raises:
            KeyError: the field has none.
        """
        if fieldname not in self._columns:
            self._columns[fieldname] = self._encode_column(fieldname, column)
        data = self._columns[fieldname]
        return column.reader(BufferFile(data), 0, len(data), self._arrays.size)

    def _encode_column(self, name: str, column: Any) -> bytes:
        """Return the bytes that the column's own writer makes of the documents' values."""
        file = StructFile(BytesIO())
        writer = column.writer(file)
        values = self._list_labels() if name == "labels" else self._arrays[name].tolist()
        for document, value in enumerate(values):
            writer.add(document, value)
        writer.finish(self._arrays.size)
        data: bytes = file.file.getvalue()
        return data

    def _list_labels(self) -> list[bytes]:
        """Return each document's labels, 32 bits each, the lowest first."""
        data = self._arrays["labels"].astype("<u4").tobytes()
        starts = (self._arrays["labels_start"].astype("i8") * 4).tolist()
        return [data[start:end] for start, end in pairwise(starts)]

    def doc_field_length(self, docnum: int, fieldname: str, default: int = 0) -> int:
        """Return how many words a field of a document has, the default if none."""
        lengths = self._lengths(fieldname)
        return lengths[docnum] or default if lengths else default

    def field_length(self, fieldname: str) -> int:
        """Return how many words a field has in all documents."""
        return sum(self._lengths(fieldname))

    def min_field_length(self, fieldname: str) -> int:
        """Return how many words a field has where it has the fewest."""
        return min(self._lengths(fieldname), default=0)

    def max_field_length(self, fieldname: str) -> int:
        """Return how many words a field has where it has the most."""
        return max(self._lengths(fieldname), default=0)

    def _lengths(self, field: str) -> Sequence[int]:
        """Return the field's words by document; none where they are not counted."""
        name = f"{field}_length"
        return self._arrays.file.numbers(name) if name in self._arrays.file else ()

    def stored_fields(self, docnum: int) -> dict[str, Any]:
        """Return that nothing is stored of a document."""
        return {}


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
