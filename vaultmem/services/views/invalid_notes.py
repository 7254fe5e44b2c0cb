"""Choose the version that replaces an invalid note, for all callers.

A note is invalid if its properties cannot be read, or it has conflict markers. Its last readable
version in HEAD's history then counts, with that state, kind and trust. It never gets more rights
than the invalid text states, or than were known before. Without such a version, the text is found
as `unreadable`; with conflict markers, it is not found at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.lifecycle import (
    HIDDEN_STATES,
    OWNER_KINDS,
    NoteState,
    is_more_restricted,
    most_restricted,
)
from vaultmem.core.notes.conflict import find_conflict
from vaultmem.core.notes.frontmatter import read_state_lines
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note, parse_readable_note
from vaultmem.core.notes.problems import IN_DOUBT, RESTRICTED
from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.views import KnownFile
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.services.views.chunk import Chunk, ReadJob
    from vaultmem.services.views.read_index import Batch

#: Most earlier versions of a note to try.
_MAX_EARLIER = 64

_EARLIER_COUNTS = "the last text that could be read counts"
_NOTHING_COUNTS = "it is not found"
_AS_IT_IS = "it counts as unreadable"


class EffectiveVersion(NamedTuple):
    """The document that counts at a path in a view (None: no document), and a message."""

    document: int | None
    problem: str


class _Counting(NamedTuple):
    """The note that counts (None: no note, or the known one), and a message.

    `data` are its bytes, None for the bytes that were checked.
    """

    note: Note | None
    problem: str
    data: bytes | None = None
    keeps_known: bool = False


def settle(
    vault: Vault,
    commit: str,
    batch: Batch,
    jobs: Sequence[ReadJob],
    chunk: Chunk,
    before: Mapping[str, KnownFile],
) -> dict[str, EffectiveVersion]:
    """Choose and index the version that counts for each invalid note of a chunk, by path.

    `commit` is the one whose history is searched, "" for none; `before` is the known file at each
    path.
    """
    pairs = zip(jobs, chunk.readings, strict=True)
    if not (invalid_jobs := [job for job, reading in pairs if reading.is_invalid]):
        return {}
    candidates = [before[job.path].document for job in invalid_jobs if job.path in before]
    numbers = [number for number in candidates if number is not None]
    records = {record.path: record for record in vault.view.records_of(numbers).values()}
    from vaultmem.services.views.chunk import ChunkReader, ReadJob

    read_jobs: list[ReadJob] = []
    results: dict[str, EffectiveVersion] = {}
    for job in invalid_jobs:
        version = _find_counting(vault, commit, job, records.get(job.path))
        if version.data is None:
            record = records[job.path] if version.keeps_known else None
            results[job.path] = EffectiveVersion(record and record.document, version.problem)
            continue
        size = len(version.data)
        read_jobs.append(ReadJob(job.path, size=size, data=version.data, as_it_is=True))
        results[job.path] = EffectiveVersion(None, version.problem)
    documents = batch.add(read_jobs, ChunkReader(vault.root).read(read_jobs))
    for job, document in zip(read_jobs, documents, strict=True):
        results[job.path] = results[job.path]._replace(document=document)
    return results


def read_counting(vault: Vault, note: Note) -> Note | None:
    """Return the note that counts in place of a folder's note: itself if it is valid.

    Its `problem` is why it is replaced or invalid. None means that nothing of it can be shown.
    """
    if not note.problem and not find_conflict(note.text):
        return note
    records = vault.view.records("d.path = ?", [str(note.path)])
    head = vault.head()
    version = _choose(vault, head.commit if head else "", note, records[0] if records else None)
    return version.note and version.note._replace(problem=version.problem)


def _find_counting(vault: Vault, commit: str, job: ReadJob, record: NoteRecord | None) -> _Counting:
    """Return the version that counts at a path, with its bytes."""
    try:
        path = PurePosixPath(job.path)
        data = read_file(vault.root, path) if job.data is None else job.data
        version = _choose(vault, commit, parse_note(path, data), record)
    except (NoteNotFoundError, UnsafeFileError, UnreadableNoteError) as error:
        return _Counting(None, str(error))  # It changed; the next run reads it.
    is_own = version.note is not None and version.data is None
    return version._replace(data=data) if is_own else version


def _choose(vault: Vault, commit: str, note: Note, record: NoteRecord | None) -> _Counting:
    """Return the version that counts for a note, with the most restricted known state."""
    conflict = find_conflict(note.text, note.fences)
    if not note.problem:
        if str(note.path) not in _find_unmerged(vault):
            return _Counting(note, "")
        conflict = find_conflict(note.text)
    problem = note.problem or conflict
    known_state = (
        NoteState(record.state) if record and record.state in HIDDEN_STATES else NoteState.ACTIVE
    )
    states = map(NoteState, read_state_lines(note.text, note.frontmatter))
    limit = most_restricted(NoteState.ACTIVE, known_state, *states)
    earlier_note, data = _read_last(vault, commit, str(note.path), record)
    if earlier_note and _may_count(earlier_note, limit):
        return _Counting(earlier_note, f"{problem}{IN_DOUBT}{_EARLIER_COUNTS}", data)
    if is_more_restricted(known_state, note.state):
        return _Counting(None, f"{problem}{IN_DOUBT}{RESTRICTED}{known_state}", keeps_known=True)
    if conflict:
        return _Counting(None, f"{problem}{IN_DOUBT}{_NOTHING_COUNTS}")
    return _Counting(note, f"{problem}{IN_DOUBT}{_AS_IT_IS}")


def _may_count(earlier_note: Note, limit: NoteState) -> bool:
    """Return whether an earlier version can count: it must not have more rights than known now."""
    if not is_more_restricted(limit, earlier_note.state):
        return True
    return limit not in HIDDEN_STATES and earlier_note.kind not in OWNER_KINDS


def _read_last(
    vault: Vault, commit: str, path: str, record: NoteRecord | None
) -> tuple[Note | None, bytes]:
    """Return the last readable version of a note in a commit's history, with its bytes.

    The history is walked only once, and only if the commit itself has the note.
    """
    try:
        for name in _list_texts(vault, commit, path, record) if commit else ():
            data = vault.history.objects.read(name)[1]
            note = parse_readable_note(path, data)
            if note and not note.problem:
                return note, data
    except (VaultError, ImportError):  # No git, or missing objects.
        pass
    return None, b""


def _list_texts(vault: Vault, commit: str, path: str, record: NoteRecord | None) -> Iterator[str]:
    """Yield git's names of a note's versions, newest first."""
    yield f"{commit}:{vault.history.prefix}{path}"
    if record is None or record.state != NoteState.UNREADABLE:
        yield from _list_earlier(vault, commit, path)


def _list_earlier(vault: Vault, commit: str, path: str) -> list[str]:
    """Return the blob ids of a note's versions, newest first.

    A second call suggests many more: then all paths are read at once, because each call walks the
    whole history.
    """
    from vaultmem.storage.git.trees import list_blobs

    cached_commit, all_blobs = vault.state.kept.get("earlier", ("", None))
    if cached_commit != commit:
        vault.state.kept["earlier"] = (commit, None)
        return list_blobs(vault.history, commit, path).get(path, [])[:_MAX_EARLIER]
    if all_blobs is None:
        all_blobs = list_blobs(vault.history, commit)
        vault.state.kept["earlier"] = (commit, all_blobs)
    blobs: list[str] = all_blobs.get(path, [])
    return blobs[:_MAX_EARLIER]


def _find_unmerged(vault: Vault) -> frozenset[str]:
    try:
        return vault.history.unmerged() if vault.head() else frozenset()
    except (VaultError, ImportError):
        return frozenset()
