"""Whoosh segments, read as whole arrays, and which of them are merged with a batch.

With `segment_writer`, this is where all stands that is not public in Whoosh. Reading takes a
block's arrays as they are, and falls back on Whoosh's public matchers wherever a posting list
looks otherwise.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any

from whoosh.codec.whoosh3 import (
    W3LeafMatcher,
)
from whoosh.columns import NumericColumn, VarBytesColumn
from whoosh.fields import COLUMN, TEXT, Schema
from whoosh.filedb.filestore import FileStorage
from whoosh.reading import SegmentReader

from vaultmem.storage.index.batch import (
    BYTES_COLUMNS,
    COUNT_BITS,
    NUMBER_COLUMNS,
    STORED,
    TERM_FIELDS,
    SegmentBatch,
)

#: Segments up to this many sections are always merged with the next batch.
SMALL_SEGMENT = 16

#: This many segments of about the same size are merged into one.
MERGE_FACTOR = 4

#: Sections in a merged segment at most: while it is written it takes 8 kB of memory for each.
MAX_MERGED = 65_536


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


def choose_merge(readers: Iterable[tuple[Any, Any]], incoming: int, dropped: set[int]) -> set[str]:
    """Return the ids of segments to merge with the batch, by size and share of dead."""
    chosen: set[str] = set()
    tiers: dict[int, list[tuple[int, str]]] = {}
    for segment, reader in readers:
        documents = read_column(reader, "document")
        dead = sum(document in dropped for document in documents) if dropped else 0
        size = len(documents) - dead
        if size <= SMALL_SEGMENT or dead > len(documents) // 4:
            chosen.add(segment.segid)
            incoming += size
        else:
            tiers.setdefault(size.bit_length() // 2, []).append((size, segment.segid))
    room = MAX_MERGED - incoming
    for tier in sorted(tiers):
        same = tier <= incoming.bit_length() // 2
        if len(tiers[tier]) + same > MERGE_FACTOR:
            fitting = _take_fitting(tiers[tier], room)
            if len(fitting) + same > 1:
                chosen.update(name for _, name in fitting)
                room -= sum(size for size, _ in fitting)
    return chosen


def _take_fitting(segments: Iterable[tuple[int, str]], room: int) -> list[tuple[int, str]]:
    """Return the smallest segments (size, id), as many as there is room for."""
    fitting: list[tuple[int, str]] = []
    for size, name in sorted(segments):
        room -= size
        if room < 0:
            break
        fitting.append((size, name))
    return fitting


def absorb_segment(
    batch: SegmentBatch, reader: Any, dropped: set[int], stored: Callable[[str, int], bytes]
) -> None:
    """Add to a batch what a segment holds, leaving out the sections of dropped documents.

    `stored` gives what Whoosh's segments do not have: by name and section.
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
    for name in STORED:
        batch.stored[name].extend(stored(name, old) for old in kept)
    for field, term, ids, counts in iter_postings(reader):
        found = zip(map(renumbered.__getitem__, ids), counts, strict=True)
        packed = [(new << COUNT_BITS) + int(count) for new, count in found if new >= 0]
        batch.postings[field].extend(term, packed)


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
