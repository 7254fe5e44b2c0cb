"""Another process that writes a part of the notes: rendering keeps one core busy by itself."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.notes.record import NoteRecord
from vaultmem.environment import open_named_vault
from vaultmem.errors import VaultError
from vaultmem.services.reading.look import look_at
from vaultmem.vault import Vault
from vaultmem.web.export.contents import Contents
from vaultmem.web.export.note_pages import NoteWriter

#: Notes that a process takes on at once; with fewer in all than `_MANY`, one process is done
#: before another one has begun.
_CHUNK, _MANY = 50, 400

_MAX_HELPERS = 3

#: The folder of what says which chunks are taken.
_TAKEN = ".taken"


class Shared(NamedTuple):
    """Notes that several processes write: each takes the next that nobody has."""

    writer: NoteWriter
    records: Sequence[NoteRecord]
    folder: Path

    def write(self, backwards: bool = False) -> Iterator[int]:
        """Write the notes that nobody else does; yield how many of all are done, or begun."""
        starts = range(0, len(self.records), _CHUNK)
        for start in reversed(starts) if backwards else starts:
            if self._take(start):
                self.writer.write(self.records[start : start + _CHUNK])
                yield min(len(self.records), _CHUNK * len(os.listdir(self.folder / _TAKEN)))

    def _take(self, start: int) -> bool:
        try:
            (self.folder / _TAKEN / str(start)).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@contextlib.contextmanager
def share_notes(
    vault: Vault, contents: Contents, folder: Path
) -> Iterator[Callable[[], Iterator[int]]]:
    """Let others begin to write the notes, and give what writes those that are left.

    It waits for the others at its end, and yields how many notes are done, or begun. Where the
    `with` is left before, they are killed.
    """
    (folder / _TAKEN).mkdir()
    many = len(contents.records)
    helpers = min(_MAX_HELPERS, (os.cpu_count() or 1) - 1) if many >= _MANY else 0
    started = [_start(vault, contents, folder) for _ in range(helpers)]
    shared = Shared(NoteWriter(vault, contents, folder), contents.records, folder)

    def write() -> Iterator[int]:
        yield from shared.write()
        ends = [process.wait() for process in started]
        if any(ends):  # Who was killed may have left undone what it took.
            shutil.rmtree(folder / _TAKEN)
            (folder / _TAKEN).mkdir()
            yield from shared.write()
        shutil.rmtree(folder / _TAKEN)

    try:
        yield write
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _start(vault: Vault, contents: Contents, folder: Path) -> subprocess.Popen[bytes]:
    job = (os.fspath(vault.root), vault.ref, contents, os.fspath(folder))
    # -P: the current folder may be a vault that has a folder called `vaultmem`.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    if process.stdin is not None:  # It stays open: where it ends, so does the helper.
        with contextlib.suppress(OSError):
            process.stdin.write(pickle.dumps(job))
            process.stdin.flush()
    return process


def _help() -> None:
    root, ref, contents, folder = pickle.load(sys.stdin.buffer)  # noqa: S301 - our parent's.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    vault = open_named_vault(root, ref=ref)
    if contents.commit:
        vault = look_at(vault, contents.commit)
    writer = NoteWriter(vault, contents, Path(folder))
    for _ in Shared(writer, contents.records, Path(folder)).write(backwards=True):
        pass


def _end_with_parent() -> None:
    # Not by `sys.stdin`: Python could not end while a thread holds its lock.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look for cycles rarely in a `with`: each text is thousands of small values without any."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt), collecting_rarely():
        try:
            _help()
        except (VaultError, OSError):
            sys.exit(1)
