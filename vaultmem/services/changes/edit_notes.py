"""Write single notes: create one, set a property, change tags; everything else stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

from vaultmem.core.commit_message import format_files
from vaultmem.core.lifecycle import NoteState, parse_kind, parse_state
from vaultmem.core.notes.agent_changes import find_guarded, is_owners_file
from vaultmem.core.notes.canvas import is_canvas
from vaultmem.core.notes.edit_properties import (
    PropertyValue,
    list_items,
    mark_as_memory,
    remove_property,
    set_property,
)
from vaultmem.core.notes.frontmatter import PropertyReader
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.paths import check_new_name, is_note_path
from vaultmem.errors import RefusedError
from vaultmem.services.changes.change import Change, WriteResult
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.write import Edit, replace_text, write
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.vault import Vault


def edit_note(vault: Vault, path: PurePosixPath, edit: Edit, kind: str = "write") -> str:
    """Replace a note's text by `edit(note)` and return the new blob id.

    On a branch, `kind` begins the commit's subject.

    Raises:
        ConflictError, RefusedError: as for `edit_as`.
    """
    event = Event("write", format_files(kind, [str(path)]), vault.author, intent="refine")
    return blob_id(edit_as(vault, path, edit, lambda _: event).value)


def edit_as(
    vault: Vault, path: PurePosixPath, edit: Edit, format_event: Callable[[bytes], Event]
) -> WriteResult[bytes]:
    """Replace a note's text by `edit(note)` and return the new bytes.

    If another program saves the note meanwhile, the edit is repeated on its text. On another
    branch, the edit becomes a commit with `format_event` of the new bytes.

    Raises:
        ConflictError: the other program kept saving; the note is unchanged.
        RefusedError: the edit is not possible on this text.
    """

    def plan(change: Change) -> bytes:
        data = replace_text(change, change.read(path), edit)
        change.leave(format_event(data))
        return data

    return write(vault, plan)


def set_note_property(
    vault: Vault, path: PurePosixPath, name: str, value: PropertyValue | None
) -> str:
    """Set a property, or remove it for None; return the new blob id."""
    if name == "kind" and isinstance(value, str):
        value = parse_kind(value).value
    if name == "state" and isinstance(value, str):
        value = parse_state(value).value
    kind = ("pin" if value else "unpin") if name == "pinned" else "write"
    if value is None:
        return edit_note(vault, path, lambda note: remove_property(note.text, name), kind)

    def change(note: Note) -> str:
        text = set_property(note.text, name, value)
        return mark_as_memory(path, text, note.kind) if name == "state" else text

    return edit_note(vault, path, change, kind)


def change_tags(
    vault: Vault, path: PurePosixPath, add: tuple[str, ...], remove: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """Add tags to and remove tags from a note's `tags`; return its new blob id and all tags."""
    check_tags(tag.lstrip("#") for tag in add)
    texts = []

    def change(note: Note) -> str:
        texts.append(_change_tags(note, add, remove))
        return texts[-1]

    blob = edit_note(vault, path, change, "tag")
    return blob, parse_note(path, texts[-1].encode("utf-8")).tags


def _change_tags(note: Note, add: tuple[str, ...], remove: tuple[str, ...]) -> str:
    names = PropertyReader(note.frontmatter).names_like("tags", "tag")
    name = names[0] if names else "tags"
    tags = list_items(note, name)
    removed_tags = {tag.lstrip("#").casefold() for tag in remove}
    new_tags = [tag for tag in tags if tag.lstrip("#").casefold() not in removed_tags]
    known_tags = {tag.lstrip("#").casefold() for tag in new_tags}
    new_tags += [tag.lstrip("#") for tag in add if tag.lstrip("#").casefold() not in known_tags]
    return note.text if tuple(new_tags) == tags else set_property(note.text, name, tuple(new_tags))


def reject_hidden(vault: Vault, note: Note) -> None:
    """Check that an agent can change a note: not quarantined, and not invalid.

    Raises:
        RefusedError: only a person can change it.
    """
    if note.problem:
        vault.require_person(f"{note.path}: {note.problem}; a person has to fix it")
    if note.state == NoteState.QUARANTINED:
        vault.require_person(f"{note.path}: quarantined, so only a person changes it")


def write_note(vault: Vault, path: PurePosixPath, text: str) -> str:
    """Create a note with exactly this text and return its blob id; durable and indexed.

    Raises:
        ConflictError: a file of that name exists.
        RefusedError: the name is unsafe, or the text exceeds 1 MiB or looks like a credential.
    """
    check_new_name(path)
    if not is_note_path(path) or is_canvas(str(path)):
        raise RefusedError(f"{path}: not the name of a note; notes end in .md")
    check_text(path, text)
    data = text.encode("utf-8")

    def plan(change: Change) -> bytes:
        change.leave(Event("write", "", vault.author, intent="observe"))
        return change.put(path, data)

    return blob_id(write(vault, plan).value)


def check_tags(tags: Iterable[str]) -> None:
    """Check that texts can be tags.

    Raises:
        RefusedError: one of them cannot.
    """
    for tag in tags:
        if not tag.strip() or any(mark.isspace() or mark in "#,[]{}" for mark in tag):
            raise RefusedError(f"{json.dumps(tag)} is not a tag; use letters, digits, - _ and /")


def check_text(path: PurePosixPath, text: str) -> None:
    """Check that a text can become a note's.

    Raises:
        RefusedError: it is larger than 1 MiB, or not text.
    """
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise RefusedError(f"{path}: the text is not UTF-8; nothing was written") from None
    if "\0" in text:
        raise RefusedError(f"{path}: the text has NUL characters; nothing was written")
    if size > MAX_FILE_BYTES:
        raise RefusedError(f"{path}: a note holds {MAX_FILE_BYTES:,} bytes at most; divide it")


def check_rewrite(path: PurePosixPath, old_note: Note | None, text: str) -> None:
    """Check an agent's new text of a note; `old_note` is the replaced note, if any.

    Raises:
        RefusedError: the text sets a guarded property, or cannot be read as a note.
    """
    try:
        new_note = parse_note(path, text.encode("utf-8"))
    except (UnreadableNoteError, UnicodeEncodeError) as error:
        raise RefusedError(f"{path}: {error}") from None
    if old_note is None and is_owners_file(str(path)):
        raise RefusedError(f"{path}: pinned by its name; a person creates it")
    for name in find_guarded(old_note, new_note):
        raise RefusedError(f'{path}: "{name}" is not set by rewriting a note; leave it as it is')
