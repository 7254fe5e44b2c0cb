"""Read and analyse many notes, with the help of other processes where there are many.

Analysing is most of the work of a full index, and Python does it on one core a process. A helper
is this module run as a program: it reads jobs from standard input, writes chunks to standard
output, and ends when its parent does, because then its input ends.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import IO, TYPE_CHECKING

from vaultmem.services.reading.chunk import Chunk, ChunkReader, Job, decode_chunk, encode_chunk
from vaultmem.storage.tokenizer import name_tokenizer, use_tokenizer

if TYPE_CHECKING:
    import subprocess

#: Fewer notes than this are read by the process itself: starting a helper takes as long.
MANY = 600

#: Notes in a chunk at most, and about the bytes of their files.
_CHUNK = 200
_CHUNK_BYTES = 512 * 1024

_MAX_HELPERS = 3

#: Chunks that a helper has at once, and the bytes of results that wait while this process reads
#: too: a helper whose pipe is full stands still.
_AHEAD = 3
_PIPE = 1024 * 1024
_SET_PIPE_SIZE = 1031  # Linux's F_SETPIPE_SZ, which `fcntl` does not name everywhere.

#: So many chunks are kept at most that were read before their turn.
_MAX_WAITING = 4

_SIZE = Struct("=Q")


def read_notes(root: Path, jobs: Sequence[Job]) -> Iterator[tuple[Sequence[Job], Chunk]]:
    """Yield all jobs in their order, some at a time, with what came of them."""
    chunks = list(_divide(jobs))
    helpers = min(_MAX_HELPERS, (os.cpu_count() or 1) - 1, len(chunks) // 2)
    reader = ChunkReader(root)
    if len(jobs) < MANY or helpers < 1:
        for chunk in chunks:
            yield chunk, reader.read(chunk)
        return
    with contextlib.ExitStack() as stack:
        pool = [stack.enter_context(_Helper(root, reader)) for _ in range(helpers)]
        # Chunks with bytes fill the pipes: no second one while a result may wait to be taken.
        ahead = _AHEAD if jobs[0].data is None else 1
        yield from _share_out(reader, pool, chunks, ahead)


def _divide(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    start = size = 0
    for number, job in enumerate(jobs):
        if number - start == _CHUNK or size > _CHUNK_BYTES:
            yield jobs[start:number]
            start, size = number, 0
        size += job.size
    if start < len(jobs):
        yield jobs[start:]


def _share_out(
    reader: ChunkReader, pool: Sequence[_Helper], chunks: Sequence[Sequence[Job]], ahead: int
) -> Iterator[tuple[Sequence[Job], Chunk]]:
    """Yield each chunk with what was read; who would have to wait for a helper reads the next."""
    unsent = iter(range(len(chunks)))
    owners: dict[int, _Helper] = {}
    finished: dict[int, Chunk] = {}

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
                finished[mine] = reader.read(chunks[mine])
        yield chunk, finished.pop(number)


class _Helper:
    """Another process that reads notes; where it fails, this one does its work."""

    def __init__(self, root: Path, reader: ChunkReader) -> None:
        self._root = root
        self._reader = reader
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
            _send(self._process.stdin, marshal.dumps([tuple(job) for job in chunk]))
        except OSError:
            self._give_up()

    def is_ready(self) -> bool:
        """Tell whether there is something to receive, or never will be."""
        import selectors

        if self._process is None or self._process.stdout is None:
            return True
        with selectors.DefaultSelector() as selector:  # A pool has more files open than `select`.
            selector.register(self._process.stdout, selectors.EVENT_READ)
            return bool(selector.select(0))

    def receive(self, chunk: Sequence[Job]) -> Chunk:
        """Return what it read of the chunk that was sent first."""
        if self._process is not None and self._process.stdout is not None:
            try:
                return decode_chunk(_receive(self._process.stdout))
            except (OSError, EOFError, ValueError):
                self._give_up()
        return self._reader.read(chunk)

    def _give_up(self) -> None:
        self.__exit__()
        self._process = None


def _send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(_SIZE.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    """Return what was sent.

    Raises:
        EOFError: the other end is closed.
    """
    size = pipe.read(_SIZE.size)
    if len(size) < _SIZE.size:
        raise EOFError
    return pipe.read(_SIZE.unpack(size)[0])


def serve(root: Path, jobs: IO[bytes], results: IO[bytes]) -> None:
    """Read jobs until there are no more: the helper's side of the pipes."""
    gc.disable()  # As its parent does meanwhile: what is made here has no reference cycles.
    reader = ChunkReader(root)
    with contextlib.suppress(EOFError):
        while True:
            chunk = [Job(*job) for job in marshal.loads(_receive(jobs))]  # noqa: S302 - our parent's.
            _send(results, encode_chunk(reader.read(chunk)))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        use_tokenizer(sys.argv[2])
        serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
