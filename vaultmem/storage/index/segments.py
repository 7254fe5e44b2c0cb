"""Segment files: named arrays in one file, read as a whole or in part.

Nothing is mapped: who looks at a mapped page of a file that was cut short is ended by the system.
The arrays stand one after another, each from a multiple of eight bytes on, in this machine's byte
order. Behind them stands a JSON text that says what each is called, its kind of number, where it
begins and how many it has; and behind that, in 16 bytes, where the text begins and the CRC-32 of
all that stands before.
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


_TAIL = struct.Struct("=QII")
_MAGIC = 0x766D6172  # "vmar"


#: Bytes that are read at once to be checked.
_BLOCK = 1 << 20


class DamagedFileError(DamagedError):
    """A file that is not what was written: lost, cut short, changed, or of another version."""

    def __init__(self) -> None:
        super().__init__("the index was damaged and is built again; run the command again")


class ArrayFile:
    """The arrays of one file; numpy is imported when the first of them is asked for."""

    def __init__(self, descriptor: int, version: str) -> None:
        """Take a file's descriptor, which stays open as long as this.

        Raises:
            DamagedFileError: it is not a whole file of this version.
        """
        self._descriptor = descriptor
        #: Size and time (ns) of the file when it was opened.
        self.mark = self._find_mark()
        self._size = self.mark[0] - _TAIL.size
        try:
            place, self._crc, magic = _TAIL.unpack(self._read(self._size, _TAIL.size))
            if magic != _MAGIC:
                raise ValueError
            head = json.loads(self._read(place, self._size - place))
            if head["version"] != f"{version} {sys.byteorder}":
                raise ValueError
            self.facts: dict[str, Any] = head["facts"]
            self._places: dict[str, tuple[str, int, int]] = head["arrays"]
            for kind, offset, count in self._places.values():
                if not 0 <= offset <= offset + count * _SIZES[kind] <= place:
                    raise ValueError
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFileError from error
        self._kept: dict[str, memoryview[int]] = {}

    @classmethod
    def open(cls, file: Path, version: str) -> ArrayFile:
        """Open a file.

        Raises:
            FileNotFoundError: there is none.
            DamagedFileError: it was cut short, or is of another version.
        """
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            found = cls(descriptor, version)
        except BaseException:
            os.close(descriptor)
            raise
        finalize(found, os.close, descriptor)
        return found

    def _find_mark(self) -> tuple[int, int]:
        """Return the file's size and the time of its last change (ns)."""
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def is_as_opened(self) -> bool:
        """Tell whether nobody wrote to the file since; it may have been removed or replaced."""
        return self._find_mark() == self.mark

    def is_whole(self) -> bool:
        """Tell whether each byte is as it was written."""
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
        """Return how many numbers an array has."""
        return self._places[name][2]

    def numbers(self, name: str) -> memoryview[int]:
        """Return an array of numbers without numpy; it is kept for the next time."""
        known = self._kept.get(name)
        if known is None:
            known = self._kept[name] = self.read(name, 0, self.length(name))
        return known

    def read(self, name: str, start: int, end: int) -> memoryview[int]:
        """Return some of an array of numbers.

        Raises:
            DamagedFileError: the file was cut short.
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
        """Return some of an array of bytes, as `read` does."""
        return self._read(self._places[name][1] + start, end - start)

    def __getitem__(self, name: str) -> NDArray[Any]:
        import numpy as np

        return np.asarray(self.numbers(name))


#: The kinds of numbers as numpy and as memoryview name them.
_CODES: dict[str, Literal["B", "H", "I", "Q"]] = {"u1": "B", "u2": "H", "u4": "I", "u8": "Q"}

#: The bytes that one of each takes.
_SIZES = {"u1": 1, "u2": 2, "u4": 4, "u8": 8}


def encode_arrays(
    arrays: Mapping[str, NDArray[Any] | bytes], facts: Mapping[str, Any], version: str
) -> list[bytes]:
    """Return the bytes of a file, in parts that follow one another; arrays of unsigned numbers."""
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
    return [*parts, _TAIL.pack(offset, check, _MAGIC)]


def narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in as few bytes each as the largest of them takes."""
    import numpy as np

    largest = int(numbers.max(initial=0))
    kind = np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.uint32
    return numbers.astype(kind)


# A segment of the index: one file of arrays.
#
# One a section: document, ordinal, state, created, updated and the length of each field. Many a
# section, those of section n from <name>_start[n] to [n + 1]: labels, and sequence, the ranks of
# the terms of all fields in their order, packed, with a 0 between two fields.
#
# One a term, in the order of its UTF-8, which is in `terms` from terms_start[t] on: rank, its
# number in sequences, 1 for the most frequent; fields, a bit for each in which it stands; and, in
# an order of their own, hashes, the CRC-32 of all terms, ascending, and hashed, whose each is.
# Many a term, from postings_start[t] to [t + 1]: section, in ascending order, and code, the row
# of `counts` that has the posting's count in each field. A code of 255 is in rare_code, beside
# its place among all in rare_place.

SUFFIX = ".arrays"

VERSION = "vaultmem-segment-1"

#: Sections in a segment at most: what is held in memory while it is written, some 2 kB for each,
#: and what an interruption loses.
MAX_SIZE = 32_768

#: The code that stands for all counts too rare for one of their own.
RARE = 255

#: Parts of a sequence end in it.
SEPARATOR = 0


class SegmentArrays:
    """The arrays of one segment."""

    def __init__(self, file: ArrayFile) -> None:
        """Take a file.

        Raises:
            DamagedFileError: it does not have what each segment has.
        """
        self.file = file
        try:
            self.size = int(file.facts["size"])
            self.fields: tuple[str, ...] = tuple(file.facts["fields"])
            #: The number of terms.
            self.terms = file.length("terms_start") - 1
            # What each look-up needs is read once, and at once: by maps, pages come one by one.
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
            FileNotFoundError: there is none.
            DamagedFileError: it was cut short, or is of another version.
        """
        return cls(ArrayFile.open(file, VERSION))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.file[name]

    def term(self, place: int) -> bytes:
        """Return a term's UTF-8 by its place in the order of all."""
        return self.file.bytes("terms", self._starts[place], self._starts[place + 1])

    def find_place(self, term: bytes) -> int:
        """Return the place of a term, or of the first behind where it would be."""
        return bisect_left(range(self.terms), term, key=self.term)

    def list_terms(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the terms that begin with some bytes, in order."""
        terms = map(self.term, range(self.find_place(prefix), self.terms))
        return takewhile(lambda term: term.startswith(prefix), terms)

    def find_term(self, term: bytes) -> int:
        """Return the place of a term, -1 if there is none."""
        hashed = crc32(term)
        number = bisect_left(self._hashes, hashed)
        while number < len(self._hashes) and self._hashes[number] == hashed:
            place: int = self._hashed[number]
            if self.term(place) == term:
                return place
            number += 1
        return -1

    @property
    def codes(self) -> int:
        """The number of codes of counts."""
        return len(self.file.numbers("counts")) // len(self.fields)

    def postings(self, place: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the sections that have a term anywhere, and the codes of its counts."""
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
        """Return how many sections have a term anywhere."""
        return int(self._postings[place + 1] - self._postings[place])

    def list_sections(self, place: int) -> Sequence[int]:
        """Return the sections that have a term anywhere, without numpy."""
        return self.file.read("section", *self._postings[place : place + 2])

    def rank(self, place: int) -> int:
        """Return a term's rank, 0 if its place is -1."""
        return self.file.read("rank", place, place + 1)[0] if place >= 0 else 0

    @cached_property
    def _sequences(self) -> memoryview[int]:
        return self.file.read("sequence_start", 0, self.size + 1)

    def sequences(self, sections: Iterable[int]) -> list[bytes]:
        """Return the sequences of sections, each packed."""
        starts, read = self._sequences, self.file.bytes
        return [read("sequence", starts[n], starts[n + 1]) for n in sections]

    def counts(self) -> NDArray[Any]:
        """Return the counts that codes stand for (shape: codes, fields)."""
        return self["counts"].reshape(-1, len(self.fields))


# What the index's newest table of contents lists, in a file that is read without Whoosh.

#: Whoosh's own name for a table of contents: its number is the generation.
_CONTENTS = compile_later(r"_MAIN_([0-9]+)\.toc")

_NAME = "segments.json"


class SegmentList(NamedTuple):
    """The files of a generation's segments.

    `marks` are their sizes and times (ns) as they were written; there are none where only Whoosh's
    table of contents says which files there are.
    """

    generation: int
    files: tuple[str, ...]
    marks: tuple[tuple[int, int], ...] = ()


def read_list(folder: Path, index_format: str) -> SegmentList | None:
    """Return what was written for the newest table of contents, None if it is not the same."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = map(_CONTENTS.fullmatch, os.listdir(folder))
        newest = max((int(match[1]) for match in found if match), default=-1)
        known = json.loads((folder / _NAME).read_bytes())
        if known["generation"] == newest and known["index"] == _describe(folder, newest):
            is_ours = known["index"][0] == index_format
            marks = tuple((int(size), int(time)) for size, time in known["marks"])
            return SegmentList(newest, tuple(known["files"]), marks) if is_ours else None
    return None


def write_list(folder: Path, index_format: str, listed: SegmentList) -> None:
    """Write down what a table of contents lists, and how its files are."""
    described = _describe(folder, listed.generation)
    if described[0] == index_format:
        marks = [_mark_file(folder / name) for name in listed.files]
        text = json.dumps({**listed._asdict(), "marks": marks, "index": described})
        write_atomically(folder / _NAME, text.encode(), durable=False)


def describe_files(folder: Path, listed: SegmentList) -> str:
    """Return a text that differs whenever one of the files is not the one that was written.

    Raises:
        FileNotFoundError: one is lost.
    """
    marks = ["{} {} {}".format(name, *_mark_file(folder / name)) for name in sorted(listed.files)]
    return f"{listed.generation}:{','.join(marks)}"


def _mark_file(file: Path) -> tuple[int, int]:
    """Return a file's size and the time of its last change (ns)."""
    status = os.stat(file)
    return status.st_size, status.st_mtime_ns


def folder_time(folder: Path) -> int:
    """Return when a file last came into a folder or went (ns since the epoch), 0 if unknown."""
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return 0


def _describe(folder: Path, generation: int) -> list[object]:
    """Return the index's format, and what tells that its table of contents is undamaged."""
    status = os.stat(folder / f"_MAIN_{generation}.toc")
    return [(folder / "format").read_text(), status.st_size, status.st_mtime_ns]
