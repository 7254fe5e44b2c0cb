"""Segment files: named arrays in one file, read as a whole or in part.

Files are not mapped: a mapped page of a truncated file kills the process that reads it. A file
contains the arrays, each aligned to 8 bytes, in this machine's byte order; a JSON header with the
name, type, offset and length of each; and a tail of 16 bytes: the header's offset, the CRC-32 of
all before the tail, and a magic number.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import finalize
from zlib import crc32

from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import DamagedError
from vaultmem.storage.atomic import write_atomically

if TYPE_CHECKING:
    from numpy.typing import NDArray


_FOOTER = struct.Struct("=QII")
_MAGIC = 0x766D6172  # "vmar"


#: Bytes read at once for the checksum.
_BLOCK = 1 << 20


class DamagedFileError(DamagedError):
    """A file is lost, truncated, changed, or of another version."""

    def __init__(self) -> None:
        super().__init__("the index was damaged and is built again; run the command again")


class ArrayFile:
    """The arrays of one file; numpy is imported when it is first needed."""

    def __init__(self, descriptor: int, version: str) -> None:
        """Read the header from a descriptor, which must stay open.

        Raises:
            DamagedFileError: the file is not a complete file of this version.
        """
        self._descriptor = descriptor
        #: Size and time (ns) of the file when it was opened.
        self.mark = self._find_mark()
        self._size = self.mark[0] - _FOOTER.size
        try:
            head_offset, self._crc, magic = _FOOTER.unpack(self._read(self._size, _FOOTER.size))
            if magic != _MAGIC:
                raise ValueError
            head = json.loads(self._read(head_offset, self._size - head_offset))
            if head["version"] != f"{version} {sys.byteorder}":
                raise ValueError
            self.facts: dict[str, Any] = head["facts"]
            self._places: dict[str, tuple[str, int, int]] = head["arrays"]
            for kind, offset, count in self._places.values():
                if not 0 <= offset <= offset + count * _SIZES[kind] <= head_offset:
                    raise ValueError
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFileError from error
        self._cache: dict[str, memoryview[int]] = {}

    @classmethod
    def open(cls, file: Path, version: str) -> ArrayFile:
        """Open a file.

        Raises:
            FileNotFoundError: the file does not exist.
            DamagedFileError: the file is truncated, or of another version.
        """
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            array_file = cls(descriptor, version)
        except BaseException:
            os.close(descriptor)
            raise
        finalize(array_file, os.close, descriptor)
        return array_file

    def _find_mark(self) -> tuple[int, int]:
        """Return the file's size and modification time (ns)."""
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def is_as_opened(self) -> bool:
        """Return whether the open file is unwritten since; its path can be removed or replaced."""
        return self._find_mark() == self.mark

    def is_whole(self) -> bool:
        """Return whether the checksum is correct."""
        check = 0
        for start in range(0, self._size, _BLOCK):
            check = crc32(self._read(start, min(_BLOCK, self._size - start)), check)
        return bool(check == self._crc)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def names(self) -> Iterable[str]:
        """Return the names of all arrays."""
        return self._places

    def length(self, name: str) -> int:
        """Return the number of numbers in an array."""
        return self._places[name][2]

    def numbers(self, name: str) -> memoryview[int]:
        """Return an array of numbers without numpy, cached."""
        array = self._cache.get(name)
        if array is None:
            array = self._cache[name] = self.read(name, 0, self.length(name))
        return array

    def read(self, name: str, start: int, end: int) -> memoryview[int]:
        """Return the numbers of an array from `start` to `end`.

        Raises:
            DamagedFileError: the file is truncated.
        """
        kind, offset, _ = self._places[name]
        size = _SIZES[kind]
        data = self._read(offset + start * size, (end - start) * size)
        return memoryview(data).cast(_CODES[kind])

    def _read(self, offset: int, size: int) -> bytes:
        if not 0 <= offset <= offset + size <= self.mark[0]:
            raise DamagedFileError
        if hasattr(os, "pread"):
            data = os.pread(self._descriptor, size, offset)
        else:
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            data = os.read(self._descriptor, size)
        if len(data) != size:
            raise DamagedFileError
        return data

    def bytes(self, name: str, start: int, end: int) -> bytes:
        """Return the bytes of an array from `start` to `end` (see `read`)."""
        return self._read(self._places[name][1] + start, end - start)

    def __getitem__(self, name: str) -> NDArray[Any]:
        import numpy as np

        return np.asarray(self.numbers(name))


#: The types of numbers, as numpy and as memoryview name them.
_CODES: dict[str, Literal["B", "H", "I", "Q"]] = {"u1": "B", "u2": "H", "u4": "I", "u8": "Q"}

#: The size of each type in bytes.
_SIZES = {"u1": 1, "u2": 2, "u4": 4, "u8": 8}


def encode_arrays(
    arrays: Mapping[str, NDArray[Any] | bytes], facts: Mapping[str, Any], version: str
) -> list[bytes]:
    """Return the bytes of a file, in consecutive parts; arrays must be of unsigned numbers."""
    places: dict[str, tuple[str, int, int]] = {}
    parts: list[bytes] = []
    offset = 0
    for name, numbers in arrays.items():
        data = numbers if isinstance(numbers, bytes) else numbers.tobytes()
        kind = "u1" if isinstance(numbers, bytes) else f"u{numbers.itemsize}"
        places[name] = (kind, offset, len(data) // _SIZES[kind])
        parts.append(data + bytes(-len(data) % 8))
        offset += len(parts[-1])
    head = {"version": f"{version} {sys.byteorder}", "facts": facts, "arrays": places}
    parts.append(json.dumps(head).encode())
    check = 0
    for part in parts:
        check = crc32(part, check)
    return [*parts, _FOOTER.pack(offset, check, _MAGIC)]


def narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers (0 or more) in the smallest type that holds the largest, up to 4 bytes."""
    import numpy as np

    largest = int(numbers.max(initial=0))
    kind = np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32
    return numbers.astype(kind)


# A segment of the index: one file of arrays.
#
# One value for each section: document, ordinal, state, created, updated and the length of each
# field. Several for section n, from <name>_start[n] to [n + 1]: labels; and sequence, the ranks of
# the terms of all fields in order, packed, with a 0 between two fields.
#
# One for each term, in the order of its UTF-8 (in `terms` from terms_start[t]): rank, its number
# in sequences, 1 for the most frequent; and fields, a bit for each field with the term. In another
# order: hashes, the CRC-32 of all terms, ascending; and hashed, the term of each.
# Several for each term, from postings_start[t] to [t + 1]: section, ascending; and code, the row of
# `counts` with the posting's count in each field. For a code of 255, rare_place contains the number
# of the posting, and rare_code its real code.

SUFFIX = ".arrays"

VERSION = "vaultmem-segment-1"

#: Most sections in a segment. A write holds them in memory (about 2 kB each); an interruption
#: loses them.
MAX_SIZE = 32_768

#: The code of all counts too rare for a code of one byte.
RARE = 255

#: The number between two fields of a sequence.
SEPARATOR = 0


class SegmentArrays:
    """The arrays of one segment."""

    def __init__(self, file: ArrayFile) -> None:
        """Read the arrays that each look-up needs.

        Raises:
            DamagedFileError: an array or fact is missing.
        """
        self.file = file
        try:
            self.size = int(file.facts["size"])
            self.fields: tuple[str, ...] = tuple(file.facts["fields"])
            #: The number of terms.
            self.terms = file.length("terms_start") - 1
            # Read now and as a whole: a memory map would load page by page.
            self._starts = file.read("terms_start", 0, self.terms + 1)
            self._postings = file.read("postings_start", 0, self.terms + 1)
            self._hashes = file.read("hashes", 0, self.terms)
            self._hashed = file.read("hashed", 0, self.terms)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFileError from error

    @classmethod
    def open(cls, file: Path) -> SegmentArrays:
        """Open a segment's file.

        Raises:
            FileNotFoundError: the file does not exist.
            DamagedFileError: the file is truncated, or of another version.
        """
        return cls(ArrayFile.open(file, VERSION))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.file[name]

    def term(self, place: int) -> bytes:
        """Return the UTF-8 of the term at a place in the order of all terms."""
        return self.file.bytes("terms", self._starts[place], self._starts[place + 1])

    def find_place(self, term: bytes) -> int:
        """Return the place of a term, or of the next one if it is absent."""
        return bisect_left(range(self.terms), term, key=self.term)

    def list_terms(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the terms with a prefix, in order."""
        terms = map(self.term, range(self.find_place(prefix), self.terms))
        return takewhile(lambda term: term.startswith(prefix), terms)

    def find_term(self, term: bytes) -> int:
        """Return the place of a term, -1 if it is absent."""
        checksum = crc32(term)
        number = bisect_left(self._hashes, checksum)
        while number < len(self._hashes) and self._hashes[number] == checksum:
            place: int = self._hashed[number]
            if self.term(place) == term:
                return place
            number += 1
        return -1

    @property
    def codes(self) -> int:
        """The number of codes (rows of `counts`)."""
        return len(self.file.numbers("counts")) // len(self.fields)

    def postings(self, place: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the sections with a term in any field, and the codes of its counts."""
        import numpy as np

        start, end = self._postings[place : place + 2]
        sections = np.asarray(self.file.read("section", start, end))
        code: NDArray[Any] = np.asarray(self.file.read("code", start, end))
        rare = self.file.numbers("rare_place")
        first, last = bisect_left(rare, start), bisect_left(rare, end)
        if first < last:
            code = code.astype(self["rare_code"].dtype)
            code[self["rare_place"][first:last] - start] = self["rare_code"][first:last]
        return sections, code

    def count_sections(self, place: int) -> int:
        """Return the number of sections with a term in any field."""
        return int(self._postings[place + 1] - self._postings[place])

    def list_sections(self, place: int) -> Sequence[int]:
        """Return the sections with a term in any field, without numpy."""
        return self.file.read("section", *self._postings[place : place + 2])

    def rank(self, place: int) -> int:
        """Return a term's rank, 0 if its place is -1."""
        return self.file.read("rank", place, place + 1)[0] if place >= 0 else 0

    @cached_property
    def _sequences(self) -> memoryview[int]:
        return self.file.read("sequence_start", 0, self.size + 1)

    def sequences(self, sections: Iterable[int]) -> list[bytes]:
        """Return the packed sequence of each section."""
        starts, read = self._sequences, self.file.bytes
        return [read("sequence", starts[n], starts[n + 1]) for n in sections]

    def counts(self) -> NDArray[Any]:
        """Return the counts of each code (shape: codes, fields)."""
        return self["counts"].reshape(-1, len(self.fields))


# The segments of the index's newest table of contents, in a file that is read without Whoosh.

#: Whoosh's file name of a table of contents; the number is the generation.
_CONTENTS = compile_later(r"_MAIN_([0-9]+)\.toc")

_NAME = "segments.json"


class SegmentList(NamedTuple):
    """The files of a generation's segments.

    `marks` are their sizes and modification times (ns) when written; empty if the list comes from
    Whoosh's table of contents.
    """

    generation: int
    files: tuple[str, ...]
    marks: tuple[tuple[int, int], ...] = ()


def read_list(folder: Path, index_format: str) -> SegmentList | None:
    """Return the stored list, None if it is not for the newest table of contents and format."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        matches = map(_CONTENTS.fullmatch, os.listdir(folder))
        newest = max((int(match[1]) for match in matches if match), default=-1)
        content = json.loads((folder / _NAME).read_bytes())
        if content["generation"] == newest and content["index"] == _describe(folder, newest):
            is_ours = content["index"][0] == index_format
            marks = tuple((int(size), int(time)) for size, time in content["marks"])
            return SegmentList(newest, tuple(content["files"]), marks) if is_ours else None
    return None


def write_list(folder: Path, index_format: str, segment_list: SegmentList) -> None:
    """Store a list with the marks of its files and of its table of contents."""
    description = _describe(folder, segment_list.generation)
    if description[0] == index_format:
        marks = [_mark_file(folder / name) for name in segment_list.files]
        text = json.dumps({**segment_list._asdict(), "marks": marks, "index": description})
        write_atomically(folder / _NAME, text.encode(), durable=False)


def describe_files(folder: Path, segment_list: SegmentList) -> str:
    """Return a text that changes with the generation, name, size or time of any file.

    Raises:
        FileNotFoundError: a file is lost.
    """
    marks = [
        "{} {} {}".format(name, *_mark_file(folder / name)) for name in sorted(segment_list.files)
    ]
    return f"{segment_list.generation}:{','.join(marks)}"


def _mark_file(file: Path) -> tuple[int, int]:
    """Return a file's size and modification time (ns)."""
    status = os.stat(file)
    return status.st_size, status.st_mtime_ns


def folder_time(folder: Path) -> int:
    """Return a folder's modification time (ns since the epoch), 0 if it does not exist."""
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return 0


def _describe(folder: Path, generation: int) -> list[object]:
    """Return the index's format, and the size and time (ns) of its table of contents."""
    status = os.stat(folder / f"_MAIN_{generation}.toc")
    return [(folder / "format").read_text(), status.st_size, status.st_mtime_ns]
