"""The text of a note by path and blob: from its file while it has these bytes, else from git."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.blob import blob_id
from vaultmem.core.notes.canvas import decode_note
from vaultmem.core.notes.hidden import drop_unseen, has_unseen, hide_unseen
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.storage.files import UnsafeFileError, read_file, read_known
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.storage.git.objects import ObjectReader


def read_text(vault: Vault, path: str, blob: str) -> str | None:
    """Return a note's text, None if neither its file nor git has these bytes any more.

    Raises:
        VaultError: git cannot be asked, and a commit is looked at. A folder is read without git.
    """
    try:
        return _file_text(vault.root, path, blob)
    except (NoteNotFoundError, UnsafeFileError):
        pass  # It has changed.
    with contextlib.suppress(VaultError if vault.view.is_work_tree else NoteNotFoundError):
        return _blob_text(vault.history.objects, blob, path)
    return None


def read_section(vault: Vault, record: NoteRecord, section: SectionRecord) -> str | None:
    """Return what people see of a section.

    None if its note has changed and its bytes were in no commit.
    """
    text = read_text(vault, record.path, record.blob)
    if text is None:
        return None
    if _is_plain(record.blob, text):
        return text[section.start : section.end].strip()
    return drop_unseen(_see(text)[section.start : section.end]).strip()


def read_sections(
    vault: Vault, places: Iterable[tuple[NoteRecord, SectionRecord]]
) -> list[tuple[NoteRecord, SectionRecord, str]]:
    """Return sections with their text; a note that changed since the sync is left out."""
    found = ((record, section, read_section(vault, record, section)) for record, section in places)
    return [(record, section, text) for record, section, text in found if text is not None]


#: Notes in which nothing is hidden, by blob id: not to be looked through for the next question.
_plain: set[str] = set()
_KEPT_PLAIN = 50_000


def _is_plain(blob: str, text: str) -> bool:
    if blob not in _plain:
        if has_unseen(text):
            return False
        if len(_plain) >= _KEPT_PLAIN:
            _plain.clear()
        _plain.add(blob)
    return True


@lru_cache(maxsize=512)
def _see(text: str) -> str:
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
