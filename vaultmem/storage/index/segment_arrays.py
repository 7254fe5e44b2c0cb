"""A segment as flat arrays in one file next to it, mapped into memory and read by numpy.

A cache of what the segment holds, and of its sections' texts and records: where the file is
missing or cut short, it is made again from the segment, without these. A file is a line of JSON
that names the arrays, and then the arrays, as 32 bit numbers of this machine's byte order:

    one a section      document, ordinal, <field>_length, state, created, updated
    many a section     sequence, labels; text and place in UTF-8; those of section n from
                       <name>_start[n] to [n + 1]
    terms              their UTF-8 in sorted order, those of term t from terms_start[t]; hashes,
                       their CRC-32 in sorted order, and hashed, whose each is
    many a term        section (numbers), count (packed, see `core.finding.ranking`); from
                       postings_start[t]
"""

from __future__ import annotations

import json
import mmap
import os
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from vaultmem.core.indexing.place import PLACE_FORMAT
from vaultmem.storage.index.batch import BYTES_COLUMNS, STORED, SegmentBatch, merge_postings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SUFFIX = ".arrays"

_FORMAT = f"vaultmem-arrays-5-{sys.byteorder} {PLACE_FORMAT}"
_HEAD_BYTES = 2048

#: The arrays of single bytes.
_BYTES = frozenset({"terms", *STORED})


class DamagedArraysError(Exception):
    """A file that is not what was written; it is made again (never raised past the index)."""


class SegmentArrays:
    """The arrays of one segment; numpy is imported when the first of them is asked for."""

    def __init__(self, data: mmap.mmap | bytes) -> None:
        """Take a file's bytes.

        Raises:
            DamagedArraysError: they are not those of a whole file.
        """
        try:
            head = json.loads(bytes(data[:_HEAD_BYTES]))
            if head["format"] != _FORMAT or head["size"] != len(data):
                raise ValueError
            self._data = data
            self._crc = head["crc"]
            self._places: dict[str, tuple[int, int]] = head["arrays"]
            self._starts = self.numbers("terms_start")
            self._postings = self.numbers("postings_start")
            self._hashes = self.numbers("hashes")
            self._hashed = self.numbers("hashed")
            self._stored = {
                name: (self.numbers(f"{name}_start"), self._places[name][0]) for name in STORED
            }
            self._first_term = self._places["terms"][0]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedArraysError from error
        self._arrays: dict[str, NDArray[np.uint32]] = {}
        self.size = self._places["document"][1]

    @classmethod
    def open(cls, file: Path) -> SegmentArrays:
        """Map a file.

        Raises:
            FileNotFoundError: there is none.
            DamagedArraysError: it was cut short, or is of another version.
        """
        descriptor = os.open(file, os.O_RDONLY)
        try:
            return cls(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        except ValueError as error:  # An empty file.
            raise DamagedArraysError from error
        finally:
            os.close(descriptor)

    def is_whole(self) -> bool:
        """Tell whether each byte is as it was written."""
        body = memoryview(self._data)[_HEAD_BYTES:]
        return bool(crc32(json.dumps(self._places).encode(), crc32(body)) == self._crc)

    def numbers(self, name: str) -> memoryview:
        """Return an array of numbers without numpy."""
        offset, count = self._places[name]
        return memoryview(self._data)[offset : offset + 4 * count].cast("I")

    def __getitem__(self, name: str) -> NDArray[np.uint32]:
        known = self._arrays.get(name)
        if known is not None:
            return known
        import numpy as np

        offset, count = self._places[name]
        self._arrays[name] = np.frombuffer(self._data, np.uint32, count, offset)
        return self._arrays[name]

    def gather(
        self, name: str, sections: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return "sequence" or "labels" of some sections, joined, and how many each has."""
        import numpy as np

        starts, everything = self[f"{name}_start"], self[name]
        first, last = starts[sections].astype(np.int64), starts[sections + 1].astype(np.int64)
        spans = zip(first.tolist(), last.tolist(), strict=True)
        return np.concatenate([everything[start:end] for start, end in spans]), last - first

    def stored(self, name: str, section: int) -> bytes:
        """Return "text" (UTF-8) or "place" of a section, empty if it is not at hand."""
        starts, offset = self._stored[name]
        return self._data[offset + starts[section] : offset + starts[section + 1]]

    def find(self, term: str) -> tuple[NDArray[np.uint32], NDArray[np.uint32]] | None:
        """Return the sections that have a term and its packed counts, None if none has."""
        span = self._find_span(term)
        return None if span is None else (self["section"][span], self["count"][span])

    def find_sections(self, term: str) -> memoryview | None:
        """Return the sections that have a term without numpy, None if none has."""
        span = self._find_span(term)
        return None if span is None else self.numbers("section")[span]

    def _find_span(self, term: str) -> slice | None:
        key = term.encode("utf-8", "surrogatepass")
        hashed = crc32(key)
        place = bisect_left(self._hashes, hashed)
        while place < len(self._hashes) and self._hashes[place] == hashed:
            number = self._hashed[place]
            if self._term(number) == key:
                return slice(self._postings[number], self._postings[number + 1])
            place += 1
        return None

    def names(self) -> bytes:
        """Return the UTF-8 of all terms; "terms_start" says where each begins."""
        offset, count = self._places["terms"]
        return self._data[offset : offset + count]

    def _term(self, number: int) -> bytes:
        base, starts = self._first_term, self._starts
        return self._data[base + starts[number] : base + starts[number + 1]]


def encode_batch(batch: SegmentBatch) -> list[bytes]:
    """Return a batch as the bytes of a file, in parts that follow one another."""
    places: dict[str, tuple[int, int]] = {}
    parts = [b""]
    offset = _HEAD_BYTES
    check = 0
    for name, numbers in _list_arrays(batch):
        data = numbers if isinstance(numbers, bytes) else numbers.tobytes()
        places[name] = (offset, len(data) if name in _BYTES else len(data) // 4)
        data += bytes(-len(data) % 8)
        check = crc32(data, check)
        parts.append(data)
        offset += len(data)
    crc = crc32(json.dumps(places).encode(), check)
    head = {"format": _FORMAT, "size": offset, "crc": crc, "arrays": places}
    parts[0] = json.dumps(head).encode().ljust(_HEAD_BYTES)
    return parts


def _list_arrays(batch: SegmentBatch) -> Iterator[tuple[str, array[int] | bytes]]:
    yield from batch.numbers.items()
    yield from _encode_postings(batch).items()
    for name in BYTES_COLUMNS:
        values = batch.bytes[name]
        yield f"{name}_start", _starts(len(value) // 4 for value in values)
        yield name, b"".join(values)
    for name in STORED:
        yield f"{name}_start", _starts(map(len, batch.stored[name]))
        yield name, b"".join(batch.stored[name])


def _encode_postings(batch: SegmentBatch) -> dict[str, array[int] | bytes]:
    keys, sizes, sections, counts = merge_postings(batch.by_term())
    hashes = sorted((crc32(key), number) for number, key in enumerate(keys))
    return {
        "hashes": array("I", [hashed for hashed, _ in hashes]),
        "hashed": array("I", [number for _, number in hashes]),
        "terms_start": _starts(map(len, keys)),
        "terms": b"".join(keys),
        "postings_start": _starts(sizes),
        "section": sections,
        "count": counts,
    }


def _starts(sizes: Iterable[int]) -> array[int]:
    """Return where each of several pieces begins, and where the last one ends."""
    total = 0
    starts = array("I", [0])
    for size in sizes:
        total += size
        starts.append(total)
    return starts
