"""Read terms, postings and documents of a segment through Whoosh.

Positions are not stored with postings: they follow from a document's sequence, and are looked up
when a matcher is asked for them. A term that has no place in the sequence has no positions.
"""

from __future__ import annotations

import pickle
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import lru_cache, partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from whoosh.codec import base
from whoosh.filedb.structfile import BufferFile, StructFile
from whoosh.formats import Frequency, Positions
from whoosh.matching import LeafMatcher, ReadTooFar
from whoosh.reading import TermInfo, TermNotFound
from whoosh.system import pack_uint

from vaultmem.core.indexing.packing import unpack_numbers
from vaultmem.storage.index.batch import NUMBER_COLUMNS
from vaultmem.storage.index.segments import (
    SEPARATOR,
    VERSION,
    ArrayFile,
    DamagedFileError,
    SegmentArrays,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The postings of one term as a matcher of Whoosh's.

#: So many postings are left out at once where none of them can be among the best.
_BLOCK = 128


class PostingMatcher(LeafMatcher):  # type: ignore[misc]
    """Documents in their order, each with the count of a term; values are made when asked for."""

    def __init__(
        self,
        ids: list[int],
        weights: list[int],
        lengths: memoryview | None,
        read_value: Callable[[int, int], bytes],
        term: tuple[str, bytes],
        format_: Any,
        scorer: Any,
    ) -> None:
        """Take postings; `lengths` are those of all documents, None if the field has none."""
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
        return self._read_value(self._ids[self._at], self._weights[self._at])

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
        if self._lengths is None:
            return [1]
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


def open_arrays(storage: Any, name: str) -> SegmentArrays:
    """Open a segment's file in any of Whoosh's storages.

    Raises:
        DamagedFileError: it was cut short, or is of another version.
    """
    if folder := getattr(storage, "folder", ""):
        return SegmentArrays.open(Path(folder) / name)
    with storage.open_file(name) as file:
        data = file.get(0, storage.file_length(name))
    return SegmentArrays(ArrayFile(bytes(data), VERSION))


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

    def _lengths(self, field: str) -> memoryview | None:
        """Return how many words each document has in a field, None if these are not counted."""
        name = f"{field}_length"
        return self._arrays.file.numbers(name) if name in self._arrays.file else None

    def term_info(self, fieldname: str, text: bytes) -> TermInfo:
        """Return a term's facts.

        Raises:
            KeyError: the field does not have the term.
        """
        ids, weights = self._postings(fieldname, self._find(fieldname, text))
        shortest = longest = 0
        if (lengths := self._lengths(fieldname)) is not None:
            found = np.asarray(lengths)[ids]
            shortest, longest = max(1, int(found.min())), int(found.max())
        most, first, last = float(weights.max()), int(ids[0]), int(ids[-1])
        weight = float(weights.sum(dtype=np.int64))
        return TermInfo(weight, len(ids), shortest, longest, most, first, last)

    def frequency(self, fieldname: str, text: bytes) -> float:
        """Return how often a term is in all documents."""
        return float(self._postings(fieldname, self._find(fieldname, text))[1].sum(dtype=np.int64))

    def doc_frequency(self, fieldname: str, text: bytes) -> int:
        """Return how many documents have a term."""
        return len(self._postings(fieldname, self._find(fieldname, text))[0])

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

    def _read_value(self, field: int, rank: int, format_: Any, document: int, count: int) -> bytes:
        """Return a posting's value as its field's format has it."""
        value = b""
        if isinstance(format_, Positions):
            ranks, positions = self._sequence(document)[field]
            value = format_.encode(positions[ranks == rank].tolist())
        elif isinstance(format_, Frequency):
            value = pack_uint(int(count / format_.field_boost))
        return value

    def cursor(self, fieldname: str, fieldobj: Any) -> FieldTerms:
        """Return a cursor on the first term of a field."""
        return FieldTerms(self, self._arrays, self._places(fieldname), fieldname, fieldobj)


def _read_sequence(
    arrays: SegmentArrays, document: int
) -> list[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    """Return for each field of a document the ranks of its words, and where these stand."""
    starts = arrays.file.numbers("sequence_start")
    ranks = unpack_numbers(arrays["sequence"][starts[document] : starts[document + 1]])
    parts = np.split(ranks, np.flatnonzero(ranks == SEPARATOR))
    return [_place_words(part[part != SEPARATOR], arrays.terms) for part in parts]


def _place_words(
    ranks: NDArray[np.uint32], many: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the ranks of words, and where each stands; marks say where it is not the next place.

    See `segment_arrays` for marks; `many` is the number of terms.
    """
    is_word = ranks <= many
    words = ranks[is_word]
    steps = np.ones(len(words), np.int64)
    steps[is_word.cumsum()[~is_word]] = ranks[~is_word].astype(np.int64) - many - 1
    return words, steps.cumsum() - 1


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


# What each document of a segment of arrays has, as Whoosh reads it: lengths, columns, fields.

#: The array of a column's bytes; no field's name has a blank, so none is the name of another array.
COLUMN_NAME = "column {}"


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
        return COLUMN_NAME.format(fieldname) in file or (is_ours and fieldname in file)

    def list_columns(self) -> Iterator[str]:
        """Yield the fields that have a column here."""
        beginning = COLUMN_NAME.format("")
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
        written = COLUMN_NAME.format(name)
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
