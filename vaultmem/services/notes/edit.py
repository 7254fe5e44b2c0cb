"""Change a property of a note; its other bytes stay as somebody wrote them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import PurePosixPath

from vaultmem.core.blob import blob_id
from vaultmem.core.lifecycle import parse_kind, parse_state
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.notes.properties import PropertyValue, remove_property, set_property
from vaultmem.core.secrets import find_secrets
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.branching.move import undo_move
from vaultmem.services.branching.write_branch import commit_on_branch
from vaultmem.services.committing.commit import commit_earlier
from vaultmem.services.committing.divide import Event
from vaultmem.services.finding.look import find_branch
from vaultmem.services.notes.read import read_note
from vaultmem.services.sync import sync_paths
from vaultmem.storage.files import replace_file
from vaultmem.vault import Vault

_ATTEMPTS = 5


def edit_note(vault: Vault, path: PurePosixPath, change: Callable[[Note], str]) -> str:
    """Replace a note's text by `change(note)` and return the new blob id.

    A save by somebody else in between is kept: the change is made again on their text. On a
    branch that is not checked out, the change is a commit there.

    Raises:
        ConflictError: they kept saving; the note is theirs.
        RefusedError: the change cannot be made on this text.
    """
    if branch := find_branch(vault):
        return _edit_on_branch(vault, branch, path, change)
    with vault.lock():
        undo_move(vault)
        for attempt in range(_ATTEMPTS):
            note = read_note(vault, path)
            data = change(note).encode("utf-8")
            blob = blob_id(data)
            if blob == note.blob:
                return blob
            _keep_pinned(vault, note, data)
            commit_earlier(vault, {str(path): note.blob})
            vault.journal.record(str(path), blob, vault.author, time.time())
            try:
                replace_file(vault.root, path, note.blob, data)
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            sync_paths(vault, [path])
            return blob
    raise AssertionError("unreachable")


def _keep_pinned(vault: Vault, note: Note, data: bytes) -> None:
    """Let nobody but a person unpin a note: what is pinned, machines do not move."""
    if note.pinned and not vault.is_person and not parse_note(note.path, data).pinned:
        raise RefusedError(f"{note.path}: pinned, and only a person unpins it")


def _edit_on_branch(
    vault: Vault, branch: str, path: PurePosixPath, change: Callable[[Note], str]
) -> str:
    blobs = []

    def edit(seen: Vault) -> dict[str, bytes | None]:
        note = read_note(seen, path)
        data = change(note).encode("utf-8")
        _keep_pinned(vault, note, data)
        blobs.append(blob_id(data))
        return {str(path): data}

    event = Event("write", f"write: {path}", vault.author, intent="refine")
    commit_on_branch(vault, branch, event, edit)
    return blobs[-1]


def set_note_property(
    vault: Vault, path: PurePosixPath, name: str, value: PropertyValue | None
) -> str:
    """Set a property, or remove it where the value is None; return the new blob id."""
    if name == "kind" and isinstance(value, str):
        value = parse_kind(value).value
    if name == "state" and isinstance(value, str):
        value = parse_state(value).value
    if isinstance(value, str) and find_secrets(value):
        raise RefusedError(f'the value of "{name}" looks like a credential; nothing was written')
    if value is None:
        return edit_note(vault, path, lambda note: remove_property(note.text, name))
    return edit_note(vault, path, lambda note: set_property(note.text, name, value))


def change_tags(
    vault: Vault, path: PurePosixPath, add: tuple[str, ...], remove: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """Add tags to and remove tags from a note's `tags`; return its new blob id and all tags."""
    texts = []

    def change(note: Note) -> str:
        texts.append(_change_tags(note, add, remove))
        return texts[-1]

    blob = edit_note(vault, path, change)
    return blob, parse_note(path, texts[-1].encode("utf-8")).tags


def _change_tags(note: Note, add: tuple[str, ...], remove: tuple[str, ...]) -> str:
    prop = note.matter.get("tags")
    old = prop.value if prop is not None else ()
    tags = old if isinstance(old, tuple) else tuple(filter(None, map(str.strip, old.split(","))))
    gone = {tag.lstrip("#").casefold() for tag in remove}
    kept = [tag for tag in tags if tag.lstrip("#").casefold() not in gone]
    have = {tag.lstrip("#").casefold() for tag in kept}
    kept += [tag.lstrip("#") for tag in add if tag.lstrip("#").casefold() not in have]
    return note.text if tuple(kept) == tags else set_property(note.text, "tags", tuple(kept))
