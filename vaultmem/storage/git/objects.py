"""Objects of a repository, read through one git process and written through another."""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vaultmem.errors import FaultError, NoteNotFoundError

if TYPE_CHECKING:
    from vaultmem.storage.git.runner import GitRunner


#: Ids asked for before the first answer is read; their names fit any pipe's buffer.
_AHEAD = 500


class ObjectReader:
    """Reads blobs, trees and commits by id; `git cat-file --batch` runs from the first on."""

    def __init__(self, git: GitRunner) -> None:
        self._git = git
        self._process: Any = None

    def read(self, name: str) -> tuple[str, bytes]:
        """Return the kind (blob, tree, commit, tag) and content of one object.

        Raises:
            NoteNotFoundError: the repository has no such object (a shallow clone, perhaps).
        """
        return next(self.read_all([name]))

    def read_all(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield kind and content of each object, in order, each found by its id or expression.

        Raises:
            NoteNotFoundError: the repository lacks one of them.
        """
        wanted = list(names)
        if odd := [name for name in wanted if "\n" in name]:
            raise NoteNotFoundError(f"{odd[0]!r}: the repository does not have this object")
        for start in range(0, len(wanted), _AHEAD):
            chunk = wanted[start : start + _AHEAD]
            pipe = self._open()
            try:
                pipe.stdin.write(os.fsencode("".join(f"{name}\n" for name in chunk)))
                pipe.stdin.flush()
                # All of a chunk is read before any is given away: a caller may stop half-way.
                found = [self._receive(pipe) for _ in chunk]
            except (BrokenPipeError, EOFError):
                self.close()
                raise FaultError("git cat-file ended early; run the command again") from None
            for name, each in zip(chunk, found, strict=True):
                if each is None:
                    raise NoteNotFoundError(
                        f"{name[:12]}: the repository does not have this object"
                    )
                yield each

    def close(self) -> None:
        """End the process; it starts again on the next read."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(Exception):
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            stream.close()
        self._process = None

    def _open(self) -> Any:
        if self._process is None:
            self._process = self._git.start("cat-file", "--batch")
        return self._process

    def _receive(self, pipe: Any) -> tuple[str, bytes] | None:
        head = pipe.stdout.readline().decode("utf-8", "replace").split()
        if not head:
            raise EOFError
        if len(head) < 3 or not head[-1].isdigit():  # "... missing"
            return None
        data = pipe.stdout.read(int(head[-1]) + 1)
        if len(data) != int(head[-1]) + 1:
            raise EOFError
        return head[-2], data[:-1]


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
