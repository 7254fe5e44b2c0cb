"""Read and analyse notes, with helper processes if there are many.

Analysis is most of the work of a full index run, and Python uses one core per process. A helper
runs `serve`: it reads jobs from standard input and writes chunks to standard output. It ends with
its parent, because its input ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.indexing.rows import NoteRows, list_rows
from vaultmem.core.indexing.section_texts import SectionTexts, analyse_note
from vaultmem.core.notes.note import UnreadableNoteError
from vaultmem.core.text.blob import blob_id
from vaultmem.errors import NoteNotFoundError
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.scan_files import read_obsidian
from vaultmem.storage.tokenizer import get_tokenizer_name, use_tokenizer

if TYPE_CHECKING:
    import subprocess
    from concurrent.futures import Future

    from vaultmem.core.indexing.section_texts import AnalysedNote
    from vaultmem.core.indexing.term_arrays import TermArrays, TermCounter
    from vaultmem.core.notes.obsidian import DailyNotes

#: Below this number, the process reads alone: starting a helper takes as long.
MIN_PARALLEL_JOBS = 600

#: Most notes in a chunk, and about the most bytes of their files.
_CHUNK = 200
_CHUNK_BYTES = 512 * 1024

_MAX_HELPERS = 3

#: Chunks per helper that are read or queued ahead.
_CHUNKS_PER_HELPER = 3


class ReadJob(NamedTuple):
    """A note to read: its blob id and size if known, and its bytes if not in a file.

    With `as_it_is`, an invalid note is indexed too. `full` is its text before compaction, None if
    not looked up.
    """

    path: str
    blob: str = ""
    size: int = 0
    data: bytes | None = None
    as_it_is: bool = False
    full: bytes | None = None


class ReadResult(NamedTuple):
    """The result of a job: a note, or the unchanged blob id, or the problem.

    All fields are empty if the file is gone. `is_invalid` marks an invalid note, whose replacement
    the caller chooses.
    """

    note: NoteRows | None
    blob: str
    problem: str
    is_invalid: bool = False


class Chunk(NamedTuple):
    """The results of some jobs, in order, and the terms of all sections.

    There are no terms if the index is written later.
    """

    readings: list[ReadResult]
    terms: TermArrays | None


class ChunkReader:
    """Reads notes of one vault, and counts their terms unless the index is written later."""

    def __init__(self, root: Path, *, counts_terms: bool = True) -> None:
        self._root = root
        self._counter = _make_counter() if counts_terms else None
        self._daily = read_obsidian(root).daily

    def read(self, jobs: Sequence[ReadJob]) -> Chunk:
        """Return the results of some jobs."""
        readings: list[ReadResult] = []
        texts: list[SectionTexts] = []
        for job in jobs:
            note, blob, problem = _read_note(self._root, job, self._daily)
            if note is not None and note.is_invalid and not job.as_it_is:
                readings.append(ReadResult(None, blob, note.record.problem, is_invalid=True))
                continue
            if note is not None:
                texts += note.texts
            readings.append(ReadResult(note and list_rows(note), blob, problem))
        terms = None if self._counter is None else self._counter.count(texts)
        return Chunk(readings, terms)


def _make_counter() -> TermCounter:
    from vaultmem.core.indexing.term_arrays import TermCounter  # numpy is slow to import.

    return TermCounter()


def _read_note(root: Path, job: ReadJob, daily: DailyNotes) -> tuple[AnalysedNote | None, str, str]:
    try:
        path = PurePosixPath(job.path)
        data = read_file(root, path) if job.data is None else job.data
        if job.blob and blob_id(data) == job.blob:
            return None, job.blob, ""
        note = analyse_note(path, data, job.full or b"", daily)
    except NoteNotFoundError:
        return None, "", ""
    except UnsafeFileError as error:
        return None, "", str(error).removeprefix(f"{job.path}: ")
    except UnreadableNoteError as error:
        return None, blob_id(data), str(error)
    return note, note.record.blob, ""


def read_notes(
    root: Path, jobs: Sequence[ReadJob], *, counts_terms: bool = True
) -> Iterator[tuple[Sequence[ReadJob], Chunk]]:
    """Yield all jobs in order, some at a time, with their results."""
    chunks = list(_split(jobs))
    helpers = min(_MAX_HELPERS, (os.cpu_count() or 1) - 1, len(chunks) // 2)
    if len(jobs) < MIN_PARALLEL_JOBS or helpers < 1:
        reader = ChunkReader(root, counts_terms=counts_terms)
        yield from ((chunk, reader.read(chunk)) for chunk in chunks)
    else:
        yield from _read_with_helpers(root, chunks, helpers)


def _split(jobs: Sequence[ReadJob]) -> Iterator[Sequence[ReadJob]]:
    start = size = 0
    for number, job in enumerate(jobs):
        if number - start == _CHUNK or size > _CHUNK_BYTES:
            yield jobs[start:number]
            start, size = number, 0
        size += job.size
    if start < len(jobs):
        yield jobs[start:]


def _read_with_helpers(
    root: Path, chunks: Sequence[Sequence[ReadJob]], helpers: int
) -> Iterator[tuple[Sequence[ReadJob], Chunk]]:
    """Yield each chunk with its result; this process reads too, instead of waiting."""
    from concurrent.futures import Future, ThreadPoolExecutor
    from queue import SimpleQueue

    reader, idle = ChunkReader(root), SimpleQueue[_Helper]()

    def ask(chunk: Sequence[ReadJob]) -> Chunk | None:
        helper = idle.get()
        try:
            return helper.read(chunk)
        finally:
            idle.put(helper)

    with contextlib.ExitStack() as stack:
        pool = ThreadPoolExecutor(helpers)
        stack.callback(pool.shutdown, cancel_futures=True)
        for _ in range(helpers):
            idle.put(stack.enter_context(_Helper(root)))
        # Helpers work while this process reads or writes: each chunk they finish is replaced.
        submissions = ((chunk, pool.submit(ask, chunk)) for chunk in chunks)
        queued = deque(islice(submissions, helpers * _CHUNKS_PER_HELPER))
        while queued:
            chunk, future = queued.popleft()
            queued.extend(islice(submissions, 1))
            while not future.done() and (place := _roll_back(queued)) is not None:
                queued.extend(islice(submissions, 1))
                own_future: Future[Chunk | None] = Future()
                own_future.set_result(reader.read(queued[place][0]))
                queued[place] = (queued[place][0], own_future)
            yield chunk, future.result() or reader.read(chunk)


def _roll_back(queued: Sequence[tuple[Sequence[ReadJob], Future[Chunk | None]]]) -> int | None:
    """Return the index of the first chunk that is still queued, and cancel it; None if none."""
    return next((place for place, (_, future) in enumerate(queued) if future.cancel()), None)


class _Helper:
    """A process that reads notes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Helper:
        import subprocess

        # -P: the current folder can be a vault with a folder called `vaultmem`.
        command = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"]
        arguments = [os.fspath(self._root), get_tokenizer_name()]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [*command, *arguments], stdin=pipe, stdout=pipe, stderr=nowhere
            )
        return self

    def __exit__(self, *_: object) -> None:
        import subprocess

        if self._process is None:
            return
        with contextlib.suppress(OSError), self._process:  # Its exit closes the pipes.
            if self._process.stdin is not None:
                self._process.stdin.close()
            try:
                self._process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def read(self, chunk: Sequence[ReadJob]) -> Chunk | None:
        """Return the results of some jobs, None if the process fails."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return None
        try:
            pickle.dump(chunk, self._process.stdin)
            self._process.stdin.flush()
            result = pickle.load(self._process.stdout)  # noqa: S301 - from our own process.
        except Exception:  # noqa: BLE001 - it was killed, so its output can be anything.
            self._process.kill()
            return None
        return result if isinstance(result, Chunk) else None


def serve() -> None:
    """Read jobs until the input ends: the helper's side of the pipes."""
    gc.disable()  # As in the parent: no reference cycles here.
    use_tokenizer(sys.argv[2])
    reader = ChunkReader(Path(sys.argv[1]))
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        while True:
            jobs = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our parent.
            pickle.dump(reader.read(jobs), sys.stdout.buffer)
            sys.stdout.buffer.flush()
