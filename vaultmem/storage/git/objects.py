"""Read objects of a repository, through one git process that stays until it is closed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vaultmem.errors import NoteNotFoundError

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
            pipe.stdin.write("".join(f"{name}\n" for name in chunk).encode())
            pipe.stdin.flush()
            # All of a chunk is read before any is given away: a caller may stop half-way.
            found = [self._receive(pipe) for _ in chunk]
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
        if len(head) < 3 or not head[-1].isdigit():  # "... missing", or git has ended.
            return None
        data = pipe.stdout.read(int(head[-1]))
        pipe.stdout.read(1)
        return head[-2], data
