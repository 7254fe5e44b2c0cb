"""The text of a note by path and blob: from its file while it has these bytes, else from git."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.blob import blob_id
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.errors import NoteNotFoundError
from vaultmem.storage.files import UnsafeFileError, read_file, read_known
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.storage.git.objects import ObjectReader


def read_text(vault: Vault, path: str, blob: str) -> str | None:
    """Return a note's text, None if it changed since the sync.

    What a commit holds is read from git where the file has other bytes by now.
    """
    try:
        return _file_text(vault.root, path, blob)
    except (NoteNotFoundError, UnsafeFileError):
        if vault.view.is_work_tree:
            return None
    try:
        return _blob_text(vault.history.objects, blob)
    except NoteNotFoundError:  # A note of the work tree, in a view of several.
        return None


def read_sections(
    vault: Vault, places: Iterable[tuple[NoteRecord, SectionRecord]]
) -> list[tuple[NoteRecord, SectionRecord, str]]:
    """Return sections with their text; a note that changed since the sync is left out."""
    found = []
    for record, section in places:
        text = read_text(vault, record.path, record.blob)
        if text is not None:
            found.append((record, section, text[section.start : section.end].strip()))
    return found


@lru_cache(maxsize=512)
def _file_text(root: Path, path: str, blob: str) -> str:
    data = read_known(root, path, blob)
    if data is not None:
        return data.decode("utf-8", "replace")
    data = read_file(root, PurePosixPath(path))
    if blob_id(data) != blob:
        raise NoteNotFoundError(f"{path}: changed since the last sync")
    return data.decode("utf-8", "replace")


@lru_cache(maxsize=512)
def _blob_text(objects: ObjectReader, blob: str) -> str:
    _, data = objects.read(blob)
    return data.decode("utf-8", "replace")
