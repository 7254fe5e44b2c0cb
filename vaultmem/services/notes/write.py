"""Write a new note whose text somebody else made up, just as it is."""

from __future__ import annotations

import time
from pathlib import PurePosixPath

from vaultmem.core.blob import blob_id
from vaultmem.core.paths import check_new_name, is_note_path
from vaultmem.core.secrets import find_secrets
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.branching.move import undo_move
from vaultmem.services.branching.write_branch import commit_on_branch
from vaultmem.services.committing.divide import Event
from vaultmem.services.finding.look import find_branch
from vaultmem.services.sync import sync_paths
from vaultmem.storage.files import MAX_FILE_BYTES, create_file
from vaultmem.vault import Vault


def write_note(vault: Vault, path: PurePosixPath, text: str) -> str:
    """Create a note with exactly this text and return its blob id; durable and indexed.

    Raises:
        ConflictError: a file of that name exists.
        RefusedError: an unsafe name, larger than 1 MiB, or it looks like a credential.
    """
    check_new_name(path)
    if not is_note_path(path):
        raise RefusedError(f"{path}: not the name of a note; notes end in .md")
    check_text(vault, path, text)
    data = text.encode("utf-8")
    if branch := find_branch(vault):
        return _write_on_branch(vault, branch, path, data)
    with vault.lock():
        undo_move(vault)
        vault.journal.record(str(path), blob_id(data), vault.author, time.time())
        create_file(vault.root, path, data)
        sync_paths(vault, [path])
    return blob_id(data)


def check_text(vault: Vault, path: PurePosixPath, text: str) -> None:
    """Allow a text to become a note's.

    Raises:
        RefusedError: larger than 1 MiB, not text, or it looks like a credential.
    """
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise RefusedError(f"{path}: the text is not UTF-8; nothing was written") from None
    if "\0" in text:
        raise RefusedError(f"{path}: the text has NUL characters; nothing was written")
    if size > MAX_FILE_BYTES:
        raise RefusedError(f"{path}: a note holds {MAX_FILE_BYTES:,} bytes at most; divide it")
    for found in () if vault.config.allows_secrets(str(path)) else find_secrets(text):
        raise RefusedError(
            f"{path}: line {found.line} looks like a credential ({found.rule}); "
            "remember where it is kept, not the value"
        )


def _write_on_branch(vault: Vault, branch: str, path: PurePosixPath, data: bytes) -> str:
    def create(seen: Vault) -> dict[str, bytes | None]:
        if str(path) in seen.view.blobs():
            raise ConflictError(f"{path}: exists already on {branch}")
        return {str(path): data}

    event = Event("write", f"write: {path}", vault.author, intent="observe")
    commit_on_branch(vault, branch, event, create)
    return blob_id(data)
