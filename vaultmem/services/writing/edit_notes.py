"""Write single notes: a new one, another property, other tags; what nobody asked for stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import PurePosixPath

from vaultmem.core.blob import blob_id
from vaultmem.core.lifecycle import parse_kind, parse_state
from vaultmem.core.notes.edit_properties import PropertyValue, remove_property, set_property
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.paths import check_new_name, is_note_path
from vaultmem.core.secrets import find_secrets
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.reading.look import find_branch
from vaultmem.services.reading.moves import undo_move
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.reading.sync import sync_paths
from vaultmem.services.writing.commit import commit_earlier
from vaultmem.services.writing.divide import Event
from vaultmem.services.writing.write_branch import commit_on_branch
from vaultmem.storage.files import MAX_FILE_BYTES, create_file, replace_file
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


#: The state changes on record, a pin is the owner's, and the others say whose words these are.
GUARDED = ("state", "pinned", "source", "agent", "session")


def check_rewrite(path: PurePosixPath, before: Note | None, text: str) -> None:
    """Allow an agent's new text of a note, `before` being the note that it replaces, if any.

    Raises:
        RefusedError: the text sets one of the guarded properties, or is none.
    """
    try:
        after = parse_note(path, text.encode("utf-8"))
    except (UnreadableNoteError, UnicodeEncodeError) as error:
        raise RefusedError(f"{path}: {error}") from None
    for name in GUARDED:
        old = before.matter.get(name) if before is not None else None
        new = after.matter.get(name)
        if (old and old.value) != (new and new.value):
            raise RefusedError(
                f'{path}: "{name}" is not set by rewriting a note; leave it as it is'
            )
