"""How much the objects of a pack unpack to, counted before git unpacks any of them.

Each entry of a pack states its size. A pack is read only until the sum is over a limit, so a few
bytes that unpack to gigabytes cost nothing. The format is git's `gitformat-pack`.
"""

from __future__ import annotations

import zlib
from mmap import mmap
from typing import NamedTuple

#: Types of entries that are a difference to another object.
_OFS_DELTA, _REF_DELTA = 6, 7

#: Bytes of an entry that are read at once, and bytes that come out of them at once.
_FIRST, _MORE, _OUT = 4 * 1024, 256 * 1024, 1024 * 1024

#: Bytes that can hold the two sizes with which a difference begins.
_SIZES = 20

_DAMAGED = "its pack is damaged"


class PackLimits(NamedTuple):
    """Objects in a pack at most, their bytes, and the bytes of those made from differences."""

    objects: int
    size: int
    delta_size: int


class _DamagedPackError(Exception):
    """A pack that git would not unpack either."""


def find_excess(data: bytes | mmap, start: int, limits: PackLimits) -> str:
    """Return why a pack that begins at `start` is not to be unpacked, "" if nothing is wrong."""
    pack = memoryview(data)
    try:
        return _find_excess(pack, start, limits)
    except (IndexError, zlib.error, _DamagedPackError):
        return _DAMAGED
    finally:
        pack.release()


def _find_excess(pack: memoryview, start: int, limits: PackLimits) -> str:
    if len(pack) < start + 12 or bytes(pack[start : start + 4]) != b"PACK":
        return _DAMAGED
    count = int.from_bytes(pack[start + 8 : start + 12], "big")
    if count > limits.objects:
        return f"it has more than {limits.objects:,} objects"
    at, size, delta_size = start + 12, 0, 0
    for _ in range(count):
        kind, own, at = _read_head(pack, at)
        size += own
        if size > limits.size:
            return f"its objects hold more than {limits.size:,} bytes together"
        begin, at = _inflate(pack, at, own)
        if kind in (_OFS_DELTA, _REF_DELTA):
            _, after = _read_number(begin, 0)
            delta_size += _read_number(begin, after)[0]
            if delta_size > limits.delta_size:
                return f"its objects become more than {limits.delta_size:,} bytes"
    return ""


def _read_head(pack: memoryview, at: int) -> tuple[int, int, int]:
    """Return the type of an entry, the size it states, and where its compressed bytes begin."""
    first = pack[at]
    kind, size, shift, at = first >> 4 & 7, first & 15, 4, at + 1
    if first & 0x80:
        rest, at = _read_number(pack, at)
        size |= rest << shift
    if kind == _OFS_DELTA:
        while pack[at] & 0x80:
            at += 1
        at += 1
    return kind, size, at + 20 * (kind == _REF_DELTA)


def _read_number(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return a number of 7 bits a byte, lowest first, and where it ends."""
    number, shift = 0, 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return number, at
        if shift > 63:
            raise _DamagedPackError


def _inflate(pack: memoryview, at: int, size: int) -> tuple[bytes, int]:
    """Return the first bytes of an entry, and where its compressed bytes end.

    Raises:
        _DamagedPackError: it does not have the size that it states.
    """
    inflater, begin, had, window = zlib.decompressobj(), b"", 0, _FIRST
    while not inflater.eof:
        given = pack[at : at + window]
        if not given:
            raise _DamagedPackError
        rest: bytes | memoryview = given
        while rest and not inflater.eof:
            out = inflater.decompress(rest, _OUT)
            begin, had = (begin + out[:_SIZES])[:_SIZES], had + len(out)
            if had > size:
                raise _DamagedPackError
            rest = inflater.unconsumed_tail
        at, window = at + len(given), _MORE
    if had != size:
        raise _DamagedPackError
    return begin, at - len(inflater.unused_data)
