"""Whoosh segments written from whole arrays: plain Whoosh 3 segments that any Whoosh reads.

What differs from `add_document`: terms arrive counted, each posting list is one uncompressed block
without positions, and its numbers are pickled arrays instead of tuples. Like `segments`, this
touches what is not public in Whoosh.
"""

from __future__ import annotations

import operator
import sys
from array import array
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pickle import dumps
from struct import Struct
from typing import Any

from whoosh.codec.whoosh3 import (
    WHOOSH3_HEADER_MAGIC,
    W3Codec,
    W3Segment,
    W3TermInfo,
)
from whoosh.system import pack_int, pack_long, pack_ushort
from whoosh.util.numeric import length_to_byte
from whoosh.writing import SegmentWriter

from vaultmem.storage.index.batch import (
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


class BatchWriter(SegmentWriter):  # type: ignore[misc]
    """Whoosh's own segment writer, given a whole batch instead of documents one by one."""

    def __init__(
        self,
        index: Any,
        batch: SegmentBatch,
        swap: Callable[[], AbstractContextManager[None]],
        store: Callable[[str, SegmentBatch], None],
        done: Callable[[int, list[str]], None],
        **options: Any,
    ) -> None:
        """Begin to write.

        `swap` gives what is held while the segments change places, `store` is called with the
        new segment's name before they do, `done` with generation and names after.
        """
        super().__init__(index, codec=_PlainCodec(compression=0), compound=False, **options)
        self.batch = batch
        self._swap = swap
        self._store = store
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
        """Commit the batch as one segment next to those whose ids are in `keep`."""
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
            postings = self.batch.postings[name].by_term()
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
        self._store(self.newsegment.segment_id(), self.batch)


def _encode_postings(packed: array[int], offset: int) -> tuple[bytes, bytes]:
    """Return a term's only block, which will be at an offset, and its entry for the term index.

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
