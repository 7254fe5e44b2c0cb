"""Named arrays in one file: mapped into memory as a whole, or read in part where they stand.

The arrays stand one after another, each from a multiple of eight bytes on, in this machine's byte
order. Behind them stands a JSON text that says what each is called, its kind of number, where it
begins and how many it has; and behind that, in 16 bytes, where the text begins and the CRC-32 of
all that stands before.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import finalize
from zlib import crc32

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TAIL = struct.Struct("=QII")
_MAGIC = 0x766D6172  # "vmar"


class DamagedFileError(Exception):
    """A file that is not what was written: cut short, changed, or of another version."""


class ArrayFile:
    """The arrays of one file; numpy is imported when the first of them is asked for."""

    def __init__(self, data: mmap.mmap | bytes, version: str, descriptor: int = -1) -> None:
        """Take a file's bytes, and the open file where it can be read beside them.

        Raises:
            DamagedFileError: they are not those of a whole file of this version.
        """
        self._data = data
        self._descriptor = descriptor
        try:
            place, self._crc, magic = _TAIL.unpack(data[-_TAIL.size :])
            if magic != _MAGIC:
                raise ValueError
            head = json.loads(bytes(data[place : -_TAIL.size]))
            if head["version"] != f"{version} {sys.byteorder}":
                raise ValueError
            self.facts: dict[str, Any] = head["facts"]
            self._places: dict[str, tuple[str, int, int]] = head["arrays"]
        except (struct.error, ValueError, KeyError, TypeError) as error:
            raise DamagedFileError from error
        self._arrays: dict[str, NDArray[Any]] = {}
        self._views: dict[str, memoryview[int]] = {}

    @classmethod
    def open(cls, file: Path, version: str) -> ArrayFile:
        """Map a file.

        Raises:
            FileNotFoundError: there is none.
            DamagedFileError: it was cut short, or is of another version.
        """
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            data = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            found = cls(data, version, descriptor if hasattr(os, "pread") else -1)
        except (ValueError, DamagedFileError) as error:  # An empty file, or another's.
            os.close(descriptor)
            raise DamagedFileError from error
        finalize(found, os.close, descriptor)
        return found

    def is_whole(self) -> bool:
        """Tell whether each byte is as it was written."""
        return bool(crc32(memoryview(self._data)[: -_TAIL.size]) == self._crc)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def names(self) -> Iterable[str]:
        """Return the names of all arrays."""
        return self._places

    def length(self, name: str) -> int:
        """Return how many numbers an array has."""
        return self._places[name][2]

    def numbers(self, name: str) -> memoryview[int]:
        """Return an array of numbers without numpy."""
        known = self._views.get(name)
        if known is None:
            kind, offset, count = self._places[name]
            data = memoryview(self._data)[offset : offset + int(kind[1:]) * count]
            known = self._views[name] = data.cast(_CODES[kind])
        return known

    def read(self, name: str, start: int, end: int) -> memoryview[int]:
        """Return some of an array of numbers, without mapping what stands around it.

        A look at a mapped page brings in up to megabytes beside it, in each of many files.
        """
        kind, offset, _ = self._places[name]
        size = int(kind[1:])
        data = self._read(offset + start * size, (end - start) * size)
        return memoryview(data).cast(_CODES[kind])

    def _read(self, offset: int, size: int) -> bytes:
        if self._descriptor < 0:
            return self._data[offset : offset + size]
        return os.pread(self._descriptor, size, offset)

    def bytes(self, name: str, start: int, end: int) -> bytes:
        """Return some of an array of bytes, as `read` does."""
        return self._read(self._places[name][1] + start, end - start)

    def __getitem__(self, name: str) -> NDArray[Any]:
        known = self._arrays.get(name)
        if known is not None:
            return known
        import numpy as np

        kind, offset, count = self._places[name]
        self._arrays[name] = np.frombuffer(self._data, kind, count, offset)
        return self._arrays[name]


#: The kinds of numbers as numpy and as memoryview name them.
_CODES: dict[str, Literal["B", "H", "I", "Q"]] = {"u1": "B", "u2": "H", "u4": "I", "u8": "Q"}


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
        places[name] = (kind, offset, len(data) // int(kind[1:]))
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
