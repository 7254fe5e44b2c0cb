"""New objects on their way into a repository, all through one git process.

A pack: "PACK", version 2 and the number of objects; each object as kind and size (seven bits a
byte, the first with four) and its zlib stream; the sha1 of all that. Source: gitformat-pack(5).
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vaultmem.storage.git.runner import GitRunner

_KINDS = {"commit": 1, "tree": 2, "blob": 3}

#: From this many objects on they stay one pack file; git's own limit for what it receives.
_UNPACK_LIMIT = 100


class ObjectPack:
    """Blobs, trees and commits that are to be stored together."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[str, bytes]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, kind: str, data: bytes) -> str:
        """Add a blob, tree or commit and return its id."""
        name = object_id(kind, data)
        self._objects.setdefault(name, (kind, data))
        return name

    def write(self, git: GitRunner) -> None:
        """Store all of them, durably; an object that the repository has stays as it is."""
        if not self._objects:
            return
        few = len(self._objects) < _UNPACK_LIMIT
        command = ("unpack-objects", "-q") if few else ("index-pack", "--stdin")
        git.run(*command, stdin=self._format())
        self._objects.clear()

    def _format(self) -> bytes:
        parts = [b"PACK", struct.pack(">II", 2, len(self._objects))]
        for kind, data in self._objects.values():
            parts.append(_format_head(_KINDS[kind], len(data)))
            parts.append(zlib.compress(data))
        body = b"".join(parts)
        return body + hashlib.sha1(body, usedforsecurity=False).digest()


def object_id(kind: str, data: bytes) -> str:
    """Return git's name for an object, 40 hex digits."""
    head = b"%s %d\0" % (kind.encode(), len(data))
    return hashlib.sha1(head + data, usedforsecurity=False).hexdigest()


def _format_head(kind: int, size: int) -> bytes:
    head = bytearray()
    byte, size = kind << 4 | size & 0x0F, size >> 4
    while size:
        head.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    head.append(byte)
    return bytes(head)
