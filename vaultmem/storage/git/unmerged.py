"""Which files git's index has in conflict, read without starting git.

A merge, a rebase or `git stash pop` leaves them there; after the last, nothing else tells of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_HEAD = struct.Struct(">4sII")
#: Of an entry: times, device, mode, owner, size and id stand before the flags, the name behind.
_FLAGS, _FLAGS_AT, _NAME_AT = struct.Struct(">H"), 60, 62
_STAGE, _EXTENDED, _LENGTH = 0x3000, 0x4000, 0xFFF


def read_unmerged(git: Path) -> frozenset[str]:
    """Return the paths that the index of a git folder has in conflict, as seen from its work tree.

    There are none where there is no index, or one that cannot be read: git itself tells of that.
    """
    try:
        data = (git / "index").read_bytes()
        signature, version, count = _HEAD.unpack_from(data)
        if signature != b"DIRC" or version not in {2, 3, 4}:
            return frozenset()
        walk = _walk_compressed(data, count) if version == 4 else _walk(data, count)
        return frozenset(name.decode("utf-8", "surrogateescape") for name in walk)
    except (OSError, ValueError, IndexError, struct.error):
        return frozenset()


def _walk(data: bytes, count: int) -> Iterator[bytes]:
    """Yield the names in conflict. Source: gitformat-index(5), versions 2 and 3."""
    at = _HEAD.size
    for _ in range(count):
        (flags,) = _FLAGS.unpack_from(data, at + _FLAGS_AT)
        start = at + _NAME_AT + (2 if flags & _EXTENDED else 0)
        length = flags & _LENGTH
        end = data.index(0, start) if length == _LENGTH else start + length
        if flags & _STAGE:
            yield data[start:end]
        at += (end - at + 8) & ~7


def _walk_compressed(data: bytes, count: int) -> Iterator[bytes]:
    """Yield the names in conflict where each is given by what it shares with the one before."""
    at, name = _HEAD.size, b""
    for _ in range(count):
        (flags,) = _FLAGS.unpack_from(data, at + _FLAGS_AT)
        at += _NAME_AT + (2 if flags & _EXTENDED else 0)
        dropped = data[at] & 0x7F
        while data[at] & 0x80:
            at += 1
            dropped = ((dropped + 1) << 7) + (data[at] & 0x7F)
        end = data.index(0, at + 1)
        name = name[: len(name) - dropped] + data[at + 1 : end]
        if flags & _STAGE:
            yield name
        at = end + 1
