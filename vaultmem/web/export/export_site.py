"""Export a vault's pages as files that need no server.

And where that goes: what is there, and how a new one takes its place.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import vaultmem
from vaultmem.core.notes.record import NoteRecord
from vaultmem.environment import open_named_vault
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.views.open_view import look_at
from vaultmem.storage.atomic import exchange_files
from vaultmem.storage.lock import find_process
from vaultmem.vault import Vault
from vaultmem.web.export.export_places import Contents, gather_contents
from vaultmem.web.export.exported_pages import ListWriter, NoteWriter, write_file, write_terms

# Another process that writes a part of the notes: rendering keeps one core busy by itself.

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


#: What says that a folder is an export, and all else that one has.
MARK = ".vaultmem-export"
_OWN = {
    *(MARK, "index.html", "search.html", "time.html", "sessions.html"),
    *("note", "file", "list", "session", "search", "static"),
}


class Exported(NamedTuple):
    """What was exported and where to, and how long it took (seconds).

    `left_out` are the notes that are quarantined, `pages` all pages besides the notes'.
    """

    folder: str
    notes: int
    left_out: int
    pictures: int
    pages: int
    commit: str
    seconds: float


def export_html(vault: Vault, folder: Path, progress: Callable[[int, int], None]) -> Exported:
    """Write what the vault shows, which must be in sync, as pages into a folder.

    It is empty, or an earlier export, whose place the new one takes at the end.

    Raises:
        RefusedError: the folder has something else in it, or is the vault's.
    """
    begun = time.monotonic()
    folder = folder.resolve()
    check_folder(folder, vault.root.resolve())
    contents = gather_contents(vault)
    many = len(contents.records)
    with prepare_folder(folder) as fresh:
        with collecting_rarely(), share_notes(vault, contents, fresh) as write_notes:
            pages = ListWriter(vault, contents, fresh).write()
            write_terms(vault, contents.records, fresh)
            for done in write_notes():
                progress(min(done, many - 1), many)
        progress(many, many)
        pictures = sum(1 for each in fresh.glob("file/*/*"))
        mark = {"vaultmem": vaultmem.__version__, "notes": many, "commit": contents.frame.commit}
        write_file(fresh, MARK, json.dumps(mark).encode())
    left_out = len(vault.view.documents()) - many
    seconds = round(time.monotonic() - begun, 2)
    commit = contents.commit or contents.frame.commit
    return Exported(os.fspath(folder), many, left_out, pictures, pages, commit, seconds)


def check_folder(folder: Path, root: Path) -> None:
    """Make sure that an export may go to a folder.

    Raises:
        RefusedError: it has other files, or is in the vault, or the vault in it.
    """
    if folder == root or root in folder.parents or folder in root.parents:
        raise RefusedError(f"{folder}: that is the vault's; name a folder outside of it")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RefusedError(f"{folder}: that is a file; name a folder")
    names = set(os.listdir(folder))
    others = sorted(name for name in names - _OWN if not _is_page(name))
    if names and (MARK not in names or others):
        told = f"has {others[0]}, which no export has" if others else "is not an export"
        raise RefusedError(f"{folder}: {told}; name a folder that is empty or not there")


def _is_page(name: str) -> bool:
    return name.startswith("notes") and name.endswith(".html")


@contextlib.contextmanager
def prepare_folder(folder: Path) -> Iterator[Path]:
    """Give a new folder for the time of a `with`; behind it, it takes the other one's place.

    If the `with` is left by an error, the other one stays as it is, and the new one goes.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    fresh = _beside(folder, "new", os.getpid())
    fresh.mkdir()
    try:
        yield fresh
        with _undisturbed():
            _replace(folder, fresh)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _replace(folder: Path, fresh: Path) -> None:
    """Put the new folder in the other one's place, in one step where the system can."""
    if not folder.exists():
        os.rename(fresh, folder)
        return
    with contextlib.suppress(OSError):
        exchange_files(fresh, folder)
        return
    old = _beside(folder, "old", os.getpid())
    try:
        os.rename(folder, old)
    except OSError as error:
        raise RefusedError(
            f"{folder}: cannot be replaced ({error.strerror}); name a folder in it"
        ) from None
    os.rename(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)


def _beside(folder: Path, what: str, pid: int | str) -> Path:
    return folder.with_name(f".{folder.name}.vaultmem-{what}-{pid}")


def _sweep(folder: Path) -> None:
    """Remove what killed exports left; of one killed between two renames, put the old one back."""
    for what in ("old", "new"):
        prefix = _beside(folder, what, "").name
        for name in os.listdir(folder.parent):
            pid = name.removeprefix(prefix)
            if name == pid or not pid.isdecimal() or find_process(int(pid)) is not None:
                continue
            if what == "old" and not folder.exists():
                os.rename(folder.with_name(name), folder)
            else:
                shutil.rmtree(folder.with_name(name), ignore_errors=True)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let nobody end the process by a signal for the time of a `with`, which is short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
