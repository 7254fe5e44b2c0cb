"""Whoosh segments written and read as whole arrays; everything of Whoosh's that is not public API.

Written are plain Whoosh 3 segments that any Whoosh reads. What differs from `add_document`:
terms arrive counted, each posting list is one uncompressed block without positions, and its
numbers are pickled arrays instead of tuples. Reading takes a block's arrays as they are, and
falls back on Whoosh's public matchers wherever a posting list looks otherwise.
"""

from __future__ import annotations

import operator
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pickle import dumps
from typing import Any

from whoosh.codec.whoosh3 import (
    WHOOSH3_HEADER_MAGIC,
    W3Codec,
    W3LeafMatcher,
    W3Segment,
    W3TermInfo,
)
from whoosh.columns import NumericColumn
from whoosh.fields import COLUMN, TEXT, Schema
from whoosh.reading import TermNotFound
from whoosh.system import pack_int, pack_ushort
from whoosh.writing import SegmentWriter

#: The fields that have terms; each section has a count of its terms in `<field>_length`.
TERM_FIELDS = ("body", "tags", "title")

#: Numbers of each section: its document's id, its ordinal there, and its lengths in terms.
NUMBER_COLUMNS = ("document", "ordinal", "body_length", "tags_length", "title_length")

#: A posting is packed in one number: the section's number and 16 bits of count.
_COUNT_BITS = 16
_MAX_COUNT = (1 << _COUNT_BITS) - 1


def make_schema() -> Schema:
    """Return the schema: three fields of terms, five columns of numbers, nothing stored."""
    fields: dict[str, Any] = {
        name: TEXT(phrase=False, stored=False, analyzer=_SplitAnalyzer()) for name in TERM_FIELDS
    }
    fields |= {name: COLUMN(NumericColumn("I")) for name in NUMBER_COLUMNS}
    return Schema(**fields)


def _SplitAnalyzer() -> Any:  # noqa: N802
    from whoosh.analysis import SpaceSeparatedTokenizer

    return SpaceSeparatedTokenizer()


class SegmentBatch:
    """Sections collected in memory, to be written as one segment."""

    def __init__(self) -> None:
        self.numbers: dict[str, array[int]] = {name: array("I") for name in NUMBER_COLUMNS}
        self.postings: dict[str, defaultdict[str, list[int]]] = {
            name: defaultdict(list) for name in TERM_FIELDS
        }

    def __len__(self) -> int:
        return len(self.numbers["document"])

    def add(self, document: int, ordinal: int, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Add a section: `counts` gives for each field how often each term stands there."""
        base = len(self) << _COUNT_BITS
        self.numbers["document"].append(document)
        self.numbers["ordinal"].append(ordinal)
        for name in TERM_FIELDS:
            terms = counts[name]
            self.numbers[f"{name}_length"].append(sum(terms.values()))
            entries = map(self.postings[name].__getitem__, terms)
            for entry, count in zip(entries, terms.values(), strict=True):
                entry.append(base + (count if count < _MAX_COUNT else _MAX_COUNT))

    def absorb(self, reader: Any, dropped: set[int]) -> None:
        """Add what another segment holds, leaving out the sections of dropped documents."""
        columns = {name: read_column(reader, name) for name in NUMBER_COLUMNS}
        renumbered: list[int] = []
        for old, document in enumerate(columns["document"]):
            renumbered.append(-1 if document in dropped else len(self))
            if document not in dropped:
                for name, column in columns.items():
                    self.numbers[name].append(column[old])
        for field, term, ids, counts in iter_postings(reader):
            entry = self.postings[field][term]
            for old, count in zip(ids, counts, strict=True):
                if (new := renumbered[old]) >= 0:
                    entry.append((new << _COUNT_BITS) + int(count))


class BatchWriter(SegmentWriter):  # type: ignore[misc]
    """Whoosh's own segment writer, given a whole batch instead of documents one by one."""

    def __init__(self, index: Any, batch: SegmentBatch, **options: Any) -> None:
        super().__init__(index, codec=_PlainCodec(compression=0), compound=False, **options)
        self.batch = batch
        columns = {name: self.schema[name].column_type for name in NUMBER_COLUMNS}
        writer = self.perdocwriter
        for number, values in enumerate(zip(*batch.numbers.values(), strict=True)):
            writer.start_doc(number)
            for (name, column), value in zip(columns.items(), values, strict=True):
                writer.add_column_value(name, column, value)
            writer.finish_doc()
        self.docnum = len(batch)
        self._added = len(batch) > 0

    def replace_segments(self, keep: Iterable[str]) -> None:
        """Commit the batch as one segment beside those whose ids are in `keep`."""
        names = set(keep)
        self.commit(mergetype=lambda _, segments: [s for s in segments if s.segid in names])

    def _flush_segment(self) -> None:
        self.perdocwriter.close()
        writer = self.fieldwriter
        for name in TERM_FIELDS:
            postings = self.batch.postings[name]
            writer.start_field(name, self.schema[name])
            field_id = pack_ushort(writer._fieldid)
            for key, term in sorted((term.encode(), term) for term in postings):
                if packed := postings[term]:
                    writer._tindex.add(field_id + key, _write_postings(writer._postfile, packed))
            writer.finish_field()
        writer.close()


def _write_postings(file: Any, packed: list[int]) -> bytes:
    """Write a term's only block and return its entry for the term index.

    Steps and counts are pickled as tuples when few and as arrays when many: an array costs
    60 bytes more and is then read without making a Python number of each element.
    """
    ids = [posting >> _COUNT_BITS for posting in packed]
    counts = [posting & _MAX_COUNT for posting in packed]
    steps = [ids[0], *map(operator.sub, ids[1:], ids)]
    most = max(counts)
    few = len(ids) < 16
    weights = None if most == 1 else tuple(map(float, counts)) if few else array("f", counts)
    data = dumps((tuple(steps) if few else array("I", steps), weights, None), 2)
    info = dumps((len(ids), ids[-1], float(most), 0, 0, 0), 2)
    offset = file.tell()
    file.write(WHOOSH3_HEADER_MAGIC + pack_int(-len(info) - len(data)) + info + data)
    entry = W3TermInfo(float(sum(counts)), len(ids), 1, 1, float(most), ids[0], ids[-1])
    entry.set_extent(offset, file.tell() - offset)
    return entry.to_bytes()  # type: ignore[no-any-return]


class _PlainCodec(W3Codec):  # type: ignore[misc]
    """Whoosh's codec without compression; its segments name Whoosh's own class."""

    def new_segment(self, storage: Any, indexname: str) -> Any:
        return W3Segment(W3Codec(), indexname)


def read_column(reader: Any, name: str) -> array[int]:
    """Return one number for each section of a segment's reader."""
    values = array("I")
    count = reader.doc_count_all()
    column = reader.column_reader(name, NumericColumn("I"), translate=False)
    try:
        stored = min(column._count, count)
        values.frombytes(column._dbfile.get(column._basepos, stored * 4))
        values.byteswap()  # Columns are big-endian; so would be a big-endian machine's arrays.
        values.extend([0] * (count - len(values)))
    except (AttributeError, TypeError, ValueError):
        values = array("I", (column[number] for number in range(count)))
    return values


def read_postings(reader: Any, field: str, term: str) -> tuple[Any, Any] | None:
    """Return a term's section numbers and counts as two sequences, None if it has none.

    The section numbers are steps: each is the difference to the one before.
    """
    try:
        matcher = reader.postings(field, term.encode())
    except TermNotFound:
        return None
    return _read_matcher(matcher)


def _read_matcher(matcher: Any) -> tuple[Any, Any]:
    if type(matcher) is W3LeafMatcher and matcher._lastblock:
        matcher._read_data()
        ids, counts, _ = matcher._data
        return ids, [1.0] * len(ids) if counts is None else _spread(counts, len(ids))
    return _read_slowly(matcher)


def _spread(counts: Any, length: int) -> Any:
    return [counts] * length if isinstance(counts, float) else counts


def _read_slowly(matcher: Any) -> tuple[list[int], list[float]]:
    """Read with public calls only; the section numbers as steps, like the fast way."""
    steps: list[int] = []
    counts: list[float] = []
    before = 0
    while matcher.is_active():
        number = matcher.id()
        steps.append(number - before)
        counts.append(matcher.weight())
        before = number
        matcher.next()
    return steps, counts


def iter_postings(reader: Any) -> Iterator[tuple[str, str, list[int], Any]]:
    """Yield field, term, section numbers and counts of all postings of a segment."""
    terms = reader._terms
    for (field, key), info in terms.items():
        form = reader.schema[field].format
        steps, counts = _read_matcher(terms._codec.postings_reader(terms._postfile, info, form))
        yield field, key.decode(), list(accumulate(steps)), counts
