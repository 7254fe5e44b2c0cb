"""The texts of notes by path and blob, and the full texts of compacted notes.

A text is read from its file if that still has these bytes, otherwise from git. Only git has full
texts; the index has their terms.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.canvas import decode_note
from vaultmem.core.notes.comments import has_hidden, hide_unseen, strip_hidden
from vaultmem.core.notes.record import NOTE_FIELDS, NoteRecord, SectionRecord
from vaultmem.core.text.blob import blob_id
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.storage.files import MAX_FILE_BYTES, UnsafeFileError, read_file, read_known
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.indexing.rows import NoteRows
    from vaultmem.core.notes.note import Note
    from vaultmem.services.views.chunk import ReadJob, ReadResult
    from vaultmem.storage.git.objects import ObjectReader

_FULL_TEXT = NOTE_FIELDS.index("full_text")


def read_text(vault: Vault, path: str, blob: str) -> str | None:
    """Return a note's text, None if neither its file nor git has these bytes.

    Raises:
        VaultError: git fails in a view of a commit. A folder is read without git.
    """
    try:
        return _file_text(vault.root, path, blob)
    except (NoteNotFoundError, UnsafeFileError):
        pass  # It changed.
    with contextlib.suppress(VaultError if vault.view.is_work_tree else NoteNotFoundError):
        return _blob_text(vault.history.objects, blob, path)
    return None


def read_section(vault: Vault, record: NoteRecord, section: SectionRecord) -> str | None:
    """Return the visible text of a section.

    None if its note has changed and its bytes were not committed.
    """
    text = read_text(vault, record.path, record.blob)
    if text is None:
        return None
    if _is_plain(record.blob, text):
        return text[section.start : section.end].strip()
    return strip_hidden(_view_at(text)[section.start : section.end]).strip()


def read_sections(
    vault: Vault, places: Iterable[tuple[NoteRecord, SectionRecord]]
) -> list[tuple[NoteRecord, SectionRecord, str]]:
    """Return sections with their text; notes that changed since the sync are left out."""
    rows = ((record, section, read_section(vault, record, section)) for record, section in places)
    return [(record, section, text) for record, section, text in rows if text is not None]


#: Notes without hidden text, by blob id, so that the next query need not search them.
_plain: set[str] = set()
_MAX_CACHED_BLOBS = 50_000


def _is_plain(blob: str, text: str) -> bool:
    if blob not in _plain:
        if has_hidden(text):
            return False
        if len(_plain) >= _MAX_CACHED_BLOBS:
            _plain.clear()
        _plain.add(blob)
    return True


@lru_cache(maxsize=512)
def _view_at(text: str) -> str:
    from vaultmem.core.notes.frontmatter import read_frontmatter

    return hide_unseen(text, read_frontmatter(text).body).text


@lru_cache(maxsize=512)
def _file_text(root: Path, path: str, blob: str) -> str:
    data = read_known(root, path, blob)
    if data is not None:
        return decode_note(path, data).text
    data = read_file(root, PurePosixPath(path))
    if blob_id(data) != blob:
        raise NoteNotFoundError(f"{path}: changed since the last sync")
    return decode_note(path, data).text


@lru_cache(maxsize=512)
def _blob_text(objects: ObjectReader, blob: str, path: str) -> str:
    _, data = objects.read(blob)
    return decode_note(path, data).text


def find_full_texts(
    vault: Vault, jobs: Sequence[ReadJob], readings: Sequence[ReadResult]
) -> dict[int, ReadJob]:
    """Return, by position, the jobs of new compacted notes, each with its full text."""
    notes: dict[int, NoteRows] = {}
    for place, reading in enumerate(readings):
        if reading.note is not None and reading.note.values[_FULL_TEXT]:
            notes[place] = reading.note
    documents = vault.manifest.find_documents(note[:2] for note in notes.values()) if notes else {}
    full_jobs: dict[int, ReadJob] = {}
    for place, note in notes.items():
        full_data = (
            b"" if note[:2] in documents else read_full_bytes(vault, note.values[_FULL_TEXT])
        )
        data = _read_again(vault, jobs[place], note.blob) if full_data else None
        if data is not None:
            full_jobs[place] = jobs[place]._replace(blob="", data=data, full=full_data)
    return full_jobs


def read_full(vault: Vault, note: Note) -> Note:
    """Return a note as before compaction, or itself if not compacted.

    Raises:
        NoteNotFoundError: git lacks that text, or it cannot be shown.
    """
    return read_full_note(vault, note.path, note.full_text) if note.full_text else note


def read_full_note(vault: Vault, path: PurePosixPath, full_text: str) -> Note:
    """Return the note that a `full_text` names.

    Raises:
        NoteNotFoundError: as for `read_full`.
    """
    from vaultmem.core.notes.note import parse_readable_note

    note = parse_readable_note(path, read_full_bytes(vault, full_text))
    if note is None or not note.text or note.state is NoteState.QUARANTINED:
        raise NoteNotFoundError(
            f"{path}: its full text is not here ({full_text}); a shallow clone may lack "
            "it: `git fetch --unshallow`"
        )
    return note


def read_full_bytes(vault: Vault, full_text: str) -> bytes:
    """Return the bytes that a `full_text` names, b"" if git lacks them."""
    name = full_text.partition("@")[0]
    with contextlib.suppress(VaultError, ImportError):  # No git, or missing objects.
        kind, data = vault.history.objects.read(name)
        if kind == "blob" and len(data) <= MAX_FILE_BYTES and blob_id(data).startswith(name):
            return data
    return b""


def _read_again(vault: Vault, job: ReadJob, blob: str) -> bytes | None:
    """Return a job's bytes, None if they have changed: the next run reads them."""
    try:
        data = read_file(vault.root, PurePosixPath(job.path)) if job.data is None else job.data
    except (NoteNotFoundError, RefusedError, UnsafeFileError):
        return None
    return data if blob_id(data) == blob else None
