"""Whoosh segments written and read as whole arrays; everything of Whoosh's that is not public API.

Written are plain Whoosh 3 segments that any Whoosh reads. What differs from `add_document`:
terms arrive counted, each posting list is one uncompressed block without positions, and its
numbers are pickled arrays instead of tuples. Reading takes a block's arrays as they are, and
falls back on Whoosh's public matchers wherever a posting list looks otherwise.
"""

from __future__ import annotations

import operator
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import accumulate
from pickle import dumps
from struct import Struct
from typing import Any

from whoosh.codec.whoosh3 import (
    WHOOSH3_HEADER_MAGIC,
    W3Codec,
    W3LeafMatcher,
    W3Segment,
    W3TermInfo,
)
from whoosh.columns import NumericColumn, VarBytesColumn
from whoosh.fields import COLUMN, TEXT, Schema
from whoosh.filedb.filestore import FileStorage
from whoosh.reading import SegmentReader, TermNotFound
from whoosh.system import pack_int, pack_long, pack_ushort
from whoosh.util.numeric import length_to_byte
from whoosh.writing import SegmentWriter

from vaultmem.storage.segment_batch import (
    BESIDE,
    BYTES_COLUMNS,
    COUNT_BITS,
    MAX_COUNT,
    NUMBER_COLUMNS,
    TERM_FIELDS,
    SegmentBatch,
)

#: The sizes of a key and its value, as Whoosh's hash files have them.
_KEY_SIZES = Struct("!ii")

_ONE = length_to_byte(1)


def make_schema() -> Schema:
    """Return the schema: three fields of terms, columns of numbers and of bytes, nothing stored."""
    fields: dict[str, Any] = {
        name: TEXT(phrase=False, stored=False, analyzer=_SplitAnalyzer()) for name in TERM_FIELDS
    }
    fields |= {name: COLUMN(NumericColumn("I")) for name in NUMBER_COLUMNS}
    fields |= {name: COLUMN(VarBytesColumn()) for name in BYTES_COLUMNS}
    return Schema(**fields)


def _SplitAnalyzer() -> Any:  # noqa: N802
    from whoosh.analysis import SpaceSeparatedTokenizer

    return SpaceSeparatedTokenizer()


def absorb_segment(
    batch: SegmentBatch, reader: Any, dropped: set[int], beside: Callable[[str, int], bytes]
) -> None:
    """Add to a batch what a segment holds, leaving out the sections of dropped documents.

    `beside` gives what Whoosh's segments do not have: by name and section.
    """
    numbers = {name: read_column(reader, name) for name in NUMBER_COLUMNS}
    kept: list[int] = []
    renumbered: list[int] = []
    for old, document in enumerate(numbers["document"]):
        renumbered.append(-1 if document in dropped else len(batch) + len(kept))
        if document not in dropped:
            kept.append(old)
    for name, column in numbers.items():
        batch.numbers[name].extend(column[old] for old in kept)
    for name in BYTES_COLUMNS:
        values = read_bytes(reader, name)
        batch.bytes[name].extend(values[old] for old in kept)
    for name in BESIDE:
        batch.beside[name].extend(beside(name, old) for old in kept)
    for field, term, ids, counts in iter_postings(reader):
        entry = batch.postings[field][term]
        for old, count in zip(ids, counts, strict=True):
            if (new := renumbered[old]) >= 0:
                entry.append((new << COUNT_BITS) + int(count))


class BatchWriter(SegmentWriter):  # type: ignore[misc]
    """Whoosh's own segment writer, given a whole batch instead of documents one by one."""

    def __init__(
        self,
        index: Any,
        batch: SegmentBatch,
        swap: Callable[[], AbstractContextManager[None]],
        beside: Callable[[str, SegmentBatch], None],
        done: Callable[[int, list[str]], None],
        **options: Any,
    ) -> None:
        """Begin to write.

        `swap` gives what is held while the segments change places, `beside` is called with the
        new segment's name before they do, `done` with generation and names after.
        """
        super().__init__(index, codec=_PlainCodec(compression=0), compound=False, **options)
        self.batch = batch
        self._swap = swap
        self._beside = beside
        self._done = done
        for name in NUMBER_COLUMNS:
            self._write_numbers(name, batch.numbers[name])
        for name in BYTES_COLUMNS:
            column = self._create_column(name)
            for number, value in enumerate(batch.bytes[name]):
                column.add(number, value)
        self.docnum = self.perdocwriter._doccount = len(batch)
        self._added = len(batch) > 0

    def _create_column(self, name: str) -> Any:
        self.perdocwriter._create_column(name, self.schema[name].column_type)
        return self.perdocwriter._get_column(name)

    def _write_numbers(self, name: str, numbers: array[int]) -> None:
        column = self._create_column(name)
        swapped = array("I", numbers)
        if sys.byteorder == "little":
            swapped.byteswap()  # Columns are big-endian.
        column._dbfile.write(swapped.tobytes())
        column._count = len(numbers)

    def replace_segments(self, keep: Iterable[str]) -> None:
        """Commit the batch as one segment beside those whose ids are in `keep`."""
        names = set(keep)
        self.commit(mergetype=lambda _, segments: [s for s in segments if s.segid in names])

    def _commit_toc(self, segments: Any) -> None:
        with self._swap():
            super()._commit_toc(segments)
            self._done(self.generation, [segment.segment_id() for segment in segments])

    def _flush_segment(self) -> None:
        self.perdocwriter.close()
        writer = self.fieldwriter
        for name in TERM_FIELDS:
            postings = self.batch.postings[name]
            writer.start_field(name, self.schema[name])
            field_id = pack_ushort(writer._fieldid)
            offset = writer._postfile.tell()
            blocks: list[bytes] = []
            entries: list[tuple[bytes, bytes]] = []
            for key, term in sorted((term.encode(), term) for term in postings):
                if packed := postings[term]:
                    block, entry = _encode_postings(packed, offset)
                    blocks.append(block)
                    entries.append((field_id + key, entry))
                    offset += len(block)
            writer._postfile.write(b"".join(blocks))
            _add_entries(writer._tindex, entries)
            writer.finish_field()
        writer.close()
        self._beside(self.newsegment.segment_id(), self.batch)


def _encode_postings(packed: array[int], offset: int) -> tuple[bytes, bytes]:
    """Return a term's only block, which will stand at an offset, and its entry for the term index.

    Steps and counts are pickled as tuples when few and as arrays when many: an array costs
    60 bytes more and is then read without making a Python number of each element.
    """
    ids = [posting >> COUNT_BITS for posting in packed]
    counts = [posting & MAX_COUNT for posting in packed]
    first, last, most = ids[0], ids[-1], max(counts)
    steps = [first, *map(operator.sub, ids[1:], ids)]
    few = len(ids) < 16
    weights = None if most == 1 else tuple(map(float, counts)) if few else array("f", counts)
    data = dumps((tuple(steps) if few else array("I", steps), weights, None), 2)
    info = dumps((len(ids), last, float(most), 0, 0, 0), 2)
    block = WHOOSH3_HEADER_MAGIC + pack_int(-len(info) - len(data)) + info + data
    # As `W3TermInfo.to_bytes`: the postings are not in the entry, the shortest and longest field
    # count one term, and then where the block is.
    facts = W3TermInfo._struct.pack(0, sum(counts), len(ids), _ONE, _ONE, most, first, last)
    return block, facts + pack_long(offset) + pack_int(len(block))


def _add_entries(table: Any, entries: list[tuple[bytes, bytes]]) -> None:
    """Add entries in the order of their keys, as the table's own `add` does one by one."""
    position = table.dbfile.tell()
    parts: list[bytes] = []
    for key, value in entries:
        table.index.append(position)
        hashed = table.hashfn(key)
        table.buckets[hashed & 255].append((hashed, position))
        part = _KEY_SIZES.pack(len(key), len(value)) + key + value
        parts.append(part)
        position += len(part)
        table.lastkey = key
    table.dbfile.write(b"".join(parts))


class _PlainCodec(W3Codec):  # type: ignore[misc]
    """Whoosh's codec without compression; its segments name Whoosh's own class."""

    def new_segment(self, storage: Any, indexname: str) -> Any:
        return W3Segment(W3Codec(), indexname)


def read_column(reader: Any, name: str) -> array[int]:
    """Return one number for each section of a segment's reader.

    Raises:
        FileNotFoundError: the column's file is gone; Whoosh would say zero for each.
    """
    if not reader.has_column(name):
        raise FileNotFoundError(f"{name}: no such column in this segment")
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


def read_bytes(reader: Any, name: str) -> list[bytes]:
    """Return one text of bytes for each section of a segment's reader.

    Raises:
        FileNotFoundError: the column's file is gone.
    """
    if not reader.has_column(name):
        raise FileNotFoundError(f"{name}: no such column in this segment")
    column = reader.column_reader(name, VarBytesColumn(), translate=False)
    return [bytes(column[number]) for number in range(reader.doc_count_all())]


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


class IndexFiles(FileStorage):  # type: ignore[misc]
    """The index's folder; it knows what was opened, for where opening the rest fails."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._opened: list[Any] = []

    def open_file(self, name: str, **options: Any) -> Any:
        """Open a file of the index."""
        file = super().open_file(name, **options)
        self._opened.append(file)
        return file

    def close_all(self) -> None:
        """Close what is open still."""
        for file in self._opened:
            if not file.is_closed:
                file.close()


def open_segments(info: Any, files: Any) -> list[tuple[Any, Any]]:
    """Return the segments that a table of contents lists, each with its reader."""
    return [
        (segment, SegmentReader(files, info.schema, segment, info.generation))
        for segment in info.segments
    ]
