"""Handles of notes: the beginnings of blob ids that packs show, made and taken back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import PurePosixPath

from vaultmem.core.finding.hit import Hit, NoteKey
from vaultmem.core.packs.labels import MIN_HANDLE
from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.vault import Vault

#: Receipts that are searched for a handle that neither the notes nor git know.
_MAX_RECEIPTS = 200

_HANDLE = re.compile(rf"[0-9a-f]{{{MIN_HANDLE},40}}")


def is_handle(name: str) -> bool:
    """Tell whether a name can be a handle."""
    return bool(_HANDLE.fullmatch(name))


def name_notes(vault: Vault, hits: Iterable[Hit]) -> dict[NoteKey, str]:
    """Return for each hit's note the shortest handle that is its alone in the view."""
    notes = {hit.note: hit for hit in hits}
    blobs = {hit.record.document: hit.record.blob for hit in notes.values()}
    beginnings = {blob[:MIN_HANDLE] for blob in blobs.values()}
    alike: dict[str, set[str]] = {each: set() for each in beginnings}
    for _, blob in vault.view.find_blobs(beginnings, known=blobs):
        alike[blob[:MIN_HANDLE]].add(blob)
    return {
        note: _shorten(hit.record.blob, alike[hit.record.blob[:MIN_HANDLE]] - {hit.record.blob})
        for note, hit in notes.items()
    }


def _shorten(blob: str, others: Iterable[str]) -> str:
    others = list(others)
    length = MIN_HANDLE
    while any(other.startswith(blob[:length]) for other in others):
        length += 1
    return blob[:length]


def find_named(vault: Vault, handle: str) -> set[str]:
    """Return the paths of the notes in the view whose blob ids begin like this."""
    found = vault.view.find_blobs([handle[:MIN_HANDLE]])
    return {path for path, blob in found if blob.startswith(handle)}


def find_changed(vault: Vault, handle: str) -> PurePosixPath:
    """Return the path of the note that had such a blob id once.

    Raises:
        NoteNotFoundError: none is known to have had it, several had, or the note is gone.
    """
    found = _find_in_git(vault, handle) or _find_in_receipts(vault, handle)
    if len(found) > 1:
        raise NoteNotFoundError(f"{handle} was {', '.join(sorted(found)[:5])}; name one")
    for path in found:
        if path not in vault.view.blobs():
            raise NoteNotFoundError(
                f"{handle} was {path}, which is not there now; `vaultmem log {path}` has it"
            )
        return PurePosixPath(path)
    raise NoteNotFoundError(
        f"{handle}: no note has such a blob id, or is known to have had it; see `vaultmem list`"
    )


def _find_in_git(vault: Vault, handle: str) -> set[str]:
    """Return the paths that had such bytes, uncommitted ones of ours included."""
    found = set(vault.journal.find_written(handle))
    try:
        from vaultmem.storage.git.trees import list_blobs

        sources = [source.commit for source in vault.view.sources if source.commit]
        head = None if sources else vault.head()
        for commit in [*sources, *([head.commit] if head else [])]:
            known = list_blobs(vault.history, commit).items()
            found |= {path for path, blobs in known if any(b.startswith(handle) for b in blobs)}
    except (VaultError, ImportError):  # There is no git.
        pass
    return found


def _find_in_receipts(vault: Vault, handle: str) -> set[str]:
    """Return the paths that the newest packs with such a blob id showed it at."""
    from vaultmem.core.packs.receipt import parse_receipt

    for file in islice(vault.store.receipts.files(), _MAX_RECEIPTS):
        text = vault.store.receipts.read(str(file))
        if f'"{handle}' not in text:
            continue
        receipt = parse_receipt(text)
        shown = (*receipt.shown, *receipt.unshown)
        if found := {each.path for each in shown if each.blob.startswith(handle)}:
            return found
    return set()
