"""Read and analyse many notes, with the help of other processes where there are many.

Analysing is most of the work of a full index, and Python does it on one core a process. A helper
is this module run as a program: it reads jobs from standard input, writes results to standard
output, and ends when its parent does, because then its input ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.errors import NoteNotFoundError
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.tokenizer import name_tokenizer, use_tokenizer

if TYPE_CHECKING:
    import subprocess

    from vaultmem.core.indexing.analysis import AnalysedNote

#: Fewer notes than this are read by the process itself: starting a helper takes as long.
MANY = 600

_CHUNK = 50
_MAX_HELPERS = 3

#: Chunks that a helper has at once, and the bytes of results that wait while this process reads
#: too: a helper whose pipe is full stands still.
_AHEAD = 4
_PIPE = 1024 * 1024
_SET_PIPE_SIZE = 1031  # Linux's F_SETPIPE_SZ, which `fcntl` does not name everywhere.

#: So many chunks are kept at most that were read before their turn.
_MAX_WAITING = 8


class Job(NamedTuple):
    """A note to read: its blob id if that is known, and its bytes if they are no file's."""

    path: str
    blob: str = ""
    data: bytes | None = None


#: A note; its blob id where that is the known one; or why it cannot be read ("" if it is gone).
Outcome = tuple["AnalysedNote | None", str, str]


def read_notes(root: Path, jobs: Sequence[Job]) -> Iterator[tuple[str, Outcome]]:
    """Yield the path of each job with what was read."""
    chunks = [jobs[start : start + _CHUNK] for start in range(0, len(jobs), _CHUNK)]
    helpers = min(_MAX_HELPERS, (os.cpu_count() or 1) - 1, len(chunks) // 2)
    if len(jobs) < MANY or helpers < 1:
        for job in jobs:
            yield job.path, _read_note(root, job)
        return
    with contextlib.ExitStack() as stack:
        pool = [stack.enter_context(_Helper(root)) for _ in range(helpers)]
        # Chunks with bytes fill the pipes: no second one while a result may wait to be taken.
        ahead = _AHEAD if jobs[0].data is None else 1
        for chunk, outcomes in _share_out(root, pool, chunks, ahead):
            yield from zip((job.path for job in chunk), outcomes, strict=True)


def _share_out(
    root: Path, pool: Sequence[_Helper], chunks: Sequence[Sequence[Job]], ahead: int
) -> Iterator[tuple[Sequence[Job], list[Outcome]]]:
    """Yield each chunk with what was read; who would have to wait for a helper reads the next."""
    unsent = iter(range(len(chunks)))
    owners: dict[int, _Helper] = {}
    finished: dict[int, list[Outcome]] = {}

    def send(helper: _Helper) -> None:
        if (number := next(unsent, None)) is not None:
            owners[number] = helper
            helper.send(chunks[number])

    for helper in [*pool] * ahead:
        send(helper)
    for number, chunk in enumerate(chunks):
        while number not in finished:
            helper = owners[number]
            if helper.is_ready() or len(finished) == _MAX_WAITING:
                mine = None
            else:
                mine = next(unsent, None)
            if mine is None:
                finished[number] = helper.receive(chunk)
                send(helper)
            else:
                finished[mine] = [_read_note(root, job) for job in chunks[mine]]
        yield chunk, finished.pop(number)


def _read_note(root: Path, job: Job) -> Outcome:
    from vaultmem.core.indexing.analysis import analyse_note
    from vaultmem.core.notes.note import UnreadableNoteError

    try:
        path = PurePosixPath(job.path)
        data = read_file(root, path) if job.data is None else job.data
        if job.blob and blob_id(data) == job.blob:
            return None, job.blob, ""
        note = analyse_note(path, data)
    except NoteNotFoundError:
        return None, "", ""
    except UnsafeFileError as error:
        return None, "", str(error).removeprefix(f"{job.path}: ")
    except UnreadableNoteError as error:
        return None, blob_id(data), str(error)
    return note, note.record.blob, ""


class _Helper:
    """Another process that reads notes; where it fails, this one does its work."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Helper:
        import subprocess

        # -P: the current folder may be a vault that has a folder called `vaultmem`.
        command = [sys.executable, "-P", "-m", __name__, os.fspath(self._root), name_tokenizer()]
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            if sys.platform == "linux" and self._process.stdout is not None:
                import fcntl

                fcntl.fcntl(self._process.stdout, _SET_PIPE_SIZE, _PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        import subprocess

        if self._process is None:
            return
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        self._process.kill()
        self._process.wait()

    def send(self, chunk: Sequence[Job]) -> None:
        """Give it some paths to read."""
        if self._process is None or self._process.stdin is None:
            return
        try:
            pickle.dump(chunk, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except OSError:
            self._give_up()

    def is_ready(self) -> bool:
        """Tell whether there is something to receive, or never will be."""
        import select

        if self._process is None or self._process.stdout is None:
            return True
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def receive(self, chunk: Sequence[Job]) -> list[Outcome]:
        """Return what it read of the chunk that was sent first."""
        if self._process is not None and self._process.stdout is not None:
            try:
                return pickle.load(self._process.stdout)  # type: ignore[no-any-return]  # noqa: S301
            except (OSError, EOFError, pickle.UnpicklingError):
                self._give_up()
        return [_read_note(self._root, job) for job in chunk]

    def _give_up(self) -> None:
        self.__exit__()
        self._process = None


def serve(root: Path, jobs: IO[bytes], results: IO[Any]) -> None:
    """Read jobs until there are no more: the helper's side of the pipes."""
    while True:
        try:
            chunk = pickle.load(jobs)  # noqa: S301 - from our own parent process.
        except EOFError:
            return
        outcomes = [_read_note(root, job) for job in chunk]
        pickle.dump(outcomes, results, pickle.HIGHEST_PROTOCOL)
        results.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        use_tokenizer(sys.argv[2])
        serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
