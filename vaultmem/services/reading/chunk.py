"""Some notes, read and analysed: what a helper process hands over, as plain values and arrays."""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vaultmem.core.blob import blob_id
from vaultmem.core.indexing.analysis import analyse_note
from vaultmem.core.indexing.rows import NoteRows, list_rows
from vaultmem.core.indexing.section_texts import SectionTexts
from vaultmem.core.indexing.term_arrays import TermArrays, TermCounter
from vaultmem.core.notes.note import UnreadableNoteError
from vaultmem.errors import NoteNotFoundError
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.obsidian_settings import read_obsidian

if TYPE_CHECKING:
    from vaultmem.core.indexing.analysis import AnalysedNote
    from vaultmem.core.obsidian.settings import DailyNotes

#: Of marshal: the last version without references. What is read was written by the same Python.
_VERSION = 2


class Job(NamedTuple):
    """A note to read: its blob id and size if known, and its bytes if they are no file's.

    With `as_it_is`, it is taken in even if it cannot be taken at its word. `full` is the text that
    it had before it was shortened, None while nobody has looked for that.
    """

    path: str
    blob: str = ""
    size: int = 0
    data: bytes | None = None
    as_it_is: bool = False
    full: bytes | None = None


class Reading(NamedTuple):
    """What came of a job: a note; the known blob id if it is that; or why it cannot be read.

    `problem` is empty, and so is all else, where there is nothing any more. One `in_doubt` is text,
    but not certain of itself: what counts instead is for others to say.
    """

    note: NoteRows | None
    blob: str
    problem: str
    in_doubt: bool = False


class Chunk(NamedTuple):
    """What came of some jobs, in their order, and the terms of the sections of all notes."""

    readings: list[Reading]
    terms: TermArrays


class ChunkReader:
    """Reads notes of one vault."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._counter = TermCounter()
        self._daily = read_obsidian(root).daily

    def read(self, jobs: Sequence[Job]) -> Chunk:
        """Return what came of some jobs."""
        readings: list[Reading] = []
        texts: list[SectionTexts] = []
        for job in jobs:
            note, blob, problem = _read_note(self._root, job, self._daily)
            if note is not None and note.in_doubt and not job.as_it_is:
                readings.append(Reading(None, blob, note.record.problem, in_doubt=True))
                continue
            if note is not None:
                texts += note.texts
            readings.append(Reading(note and list_rows(note), blob, problem))
        return Chunk(readings, self._counter.count(texts))


def _read_note(root: Path, job: Job, daily: DailyNotes) -> tuple[AnalysedNote | None, str, str]:
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


def encode_chunk(chunk: Chunk) -> bytes:
    """Return a chunk as bytes."""
    readings = [(note and tuple(note), *others) for note, *others in chunk.readings]
    terms, *arrays = chunk.terms
    buffers = [(each.dtype.str, each.tobytes()) for each in arrays]
    return marshal.dumps((readings, terms, buffers), _VERSION)


def decode_chunk(data: bytes) -> Chunk:
    """Return the chunk that was encoded."""
    readings, terms, buffers = marshal.loads(data)  # noqa: S302 - from our own helper process.
    term, section, packed, sequence, lengths = (np.frombuffer(each, k) for k, each in buffers)
    return Chunk(
        [Reading(note and NoteRows(*note), *others) for note, *others in readings],
        TermArrays(terms, term, section, packed, sequence, lengths.reshape(-1, 3)),
    )
