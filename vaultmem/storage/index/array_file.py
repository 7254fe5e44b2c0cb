"""Named arrays in one file, read where they stand, as a whole or in part.

Nothing is mapped: who looks at a mapped page of a file that was cut short is ended by the system.
The arrays stand one after another, each from a multiple of eight bytes on, in this machine's byte
order. Behind them stands a JSON text that says what each is called, its kind of number, where it
begins and how many it has; and behind that, in 16 bytes, where the text begins and the CRC-32 of
all that stands before.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import finalize
from zlib import crc32

from vaultmem.errors import DamagedError

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

    def __init__(self, data: bytes | int, version: str) -> None:
        """Take a file's bytes, or its descriptor, which stays open as long as this.

        Raises:
            DamagedFileError: they are not those of a whole file of this version.
        """
        self._data = data
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
        if isinstance(self._data, bytes):
            return len(self._data), 0
        status = os.fstat(self._data)
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
        if isinstance(self._data, bytes):
            data = self._data[offset : offset + size]
        elif hasattr(os, "pread"):
            data = os.pread(self._data, size, offset)
        else:
            os.lseek(self._data, offset, os.SEEK_SET)
            data = os.read(self._data, size)
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
