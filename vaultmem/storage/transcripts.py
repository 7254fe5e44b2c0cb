"""Transcripts of sessions: `transcripts/<id>.jsonl`, local, append-only, and bounded.

An append is one write of whole lines. What a crash cut short is one broken line, which is passed
over; a file that has grown too large loses its oldest lines, and a line that tells their digest
takes their place.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from vaultmem.core.paths import TRANSCRIPTS
from vaultmem.core.sessions.turns import (
    MAX_PART,
    Line,
    Tally,
    decode_line,
    encode_dropped,
    encode_line,
    tally_of,
)
from vaultmem.errors import ConflictError, FaultError, NoteNotFoundError, RefusedError
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.files import create_file

#: A line's bytes at most: each character six bytes as an escape, and its other fields.
_MAX_LINE = MAX_PART * 6 + 4_096

_BLOCK = 256 * 1024


class Transcripts:
    """The transcripts of one vault; a file may hold `limit` bytes."""

    def __init__(self, root: Path, limit: int) -> None:
        self._root = root
        self._limit = max(limit, 4 * _MAX_LINE)

    def exists(self, session: str) -> bool:
        """Tell whether a session has a transcript."""
        return self._file(session).is_file()

    def size(self, session: str) -> int:
        """Return the bytes of a transcript, 0 if there is none."""
        try:
            return self._file(session).lstat().st_size
        except OSError:
            return 0

    def last_added(self) -> dict[str, float]:
        """Return when something was last added to each transcript, in seconds since the epoch."""
        try:
            with os.scandir(self._root / TRANSCRIPTS) as files:
                found = {each.name: each.stat(follow_symlinks=False) for each in files}
        except OSError:
            return {}
        return {
            name.removesuffix(".jsonl"): known.st_mtime
            for name, known in found.items()
            if name.endswith(".jsonl") and stat.S_ISREG(known.st_mode)
        }

    def append(self, session: str, lines: Iterable[Line]) -> None:
        """Add lines; they are durable when this returns.

        Raises:
            RefusedError: folder or file is a link, or no regular file.
            VaultError: the disk did not take them.
        """
        data = b"".join(map(encode_line, lines))
        if not data:
            return
        if not self.exists(session):
            try:
                create_file(self._root, PurePosixPath(TRANSCRIPTS, f"{session}.jsonl"), data)
                return
            except ConflictError:
                pass
        try:
            self._write(session, data)
        except OSError as error:
            raise FaultError(
                f"{TRANSCRIPTS}/{session}.jsonl: could not be written: {error.strerror}"
            ) from error
        if self.size(session) > self._limit:
            self._shorten(session)

    def tally(self, session: str) -> Tally:
        """Return the tally of a transcript after its last whole line."""
        last = next(self.read_back(session), None)
        return Tally() if last is None else tally_of(last)

    def read(self, session: str) -> Iterator[Line | Tally]:
        """Yield the lines of a transcript from its beginning; broken ones are passed over."""
        try:
            descriptor = self._open(session, os.O_RDONLY)
        except NoteNotFoundError:
            return
        with os.fdopen(descriptor, "rb") as file:
            while data := file.readline(_MAX_LINE):
                found = decode_line(data)
                if found is not None:
                    yield found

    def read_back(self, session: str) -> Iterator[Line | Tally]:
        """Yield the lines of a transcript from its end; it may be left at any time."""
        try:
            descriptor = self._open(session, os.O_RDONLY)
        except NoteNotFoundError:
            return
        with os.fdopen(descriptor, "rb") as file:
            place, rest = file.seek(0, os.SEEK_END), b""
            while place > 0:
                size = min(_BLOCK, place)
                place = file.seek(place - size)
                lines = (file.read(size) + rest).split(b"\n")
                rest = lines.pop(0)[-_MAX_LINE:]
                for data in reversed(lines):
                    found = decode_line(data)
                    if found is not None:
                        yield found
            found = decode_line(rest)
            if found is not None:
                yield found

    def _file(self, session: str) -> Path:
        return self._root / TRANSCRIPTS / f"{session}.jsonl"

    def _open(self, session: str, flags: int) -> int:
        """Open a transcript; neither it nor its folder may be a link.

        Raises:
            NoteNotFoundError: there is none.
            RefusedError: it is no regular file in a folder of the vault.
        """
        file = self._file(session)
        try:
            if stat.S_ISLNK(file.parent.lstat().st_mode):
                raise RefusedError(f"{TRANSCRIPTS}: a link, not a folder of the vault; remove it")
            extra = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            descriptor = os.open(file, flags | extra | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            raise NoteNotFoundError(f"{session}: it has no transcript") from None
        except OSError as error:
            raise RefusedError(f"{TRANSCRIPTS}/{file.name}: not used ({error.strerror})") from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise RefusedError(f"{TRANSCRIPTS}/{file.name}: it is not a regular file; remove it")
        return descriptor

    def _write(self, session: str, data: bytes) -> None:
        descriptor = self._open(session, os.O_RDWR | os.O_APPEND)
        try:
            if os.lseek(descriptor, 0, os.SEEK_END):
                os.lseek(descriptor, -1, os.SEEK_END)
            if os.read(descriptor, 1) not in {b"", b"\n"}:
                data = b"\n" + data  # A crash cut the last line short.
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _shorten(self, session: str) -> None:
        """Drop the oldest lines until half of the limit is free, and keep their digest."""
        file = self._file(session)
        dropped, place = self._find_cut(session)
        try:
            with open(file, "rb") as old:
                old.seek(place)
                kept = iter(lambda: old.read(_BLOCK), b"")
                write_atomically(file, itertools.chain([encode_dropped(dropped)], kept))
        except OSError as error:
            raise FaultError(
                f"{TRANSCRIPTS}/{file.name}: could not be shortened: {error.strerror}"
            ) from error

    def _find_cut(self, session: str) -> tuple[Tally, int]:
        """Return what is to be dropped, and where the first line stands that stays."""
        dropped, place = Tally(), 0
        surplus = self.size(session) - self._limit // 2
        with os.fdopen(self._open(session, os.O_RDONLY), "rb") as file:
            while place < surplus and (data := file.readline(_MAX_LINE)):
                place += len(data)
                found = decode_line(data)
                dropped = dropped if found is None else tally_of(found)
        return dropped, place
