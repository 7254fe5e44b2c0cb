"""Say what changed in files in the notes' words: properties as properties, text as a diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.changing.file_changes import ChangeOp, FileChange
from vaultmem.core.changing.note_changes import (
    NoteChange,
    compare_notes,
    diff_text,
    summarise_change,
)
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.paths import is_note_path
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.history import History
from vaultmem.vault import Vault

#: Files that are read at once.
_CHUNK = 200

_KINDS = {"120000": "a link", "160000": "a repository of its own"}


class Operation(NamedTuple):
    """A path's change: `note` says how its text changed; where that cannot be said, `remark` why.

    A text file that is no note has a NoteChange too, without properties.
    """

    file: FileChange
    note: NoteChange | None
    remark: str = ""


def compare_files(
    vault: Vault, changes: Iterable[FileChange], contents: Mapping[str, bytes] | None = None
) -> Iterator[Operation]:
    """Yield what changed in each file; `contents` are bytes by blob id that git may not have."""
    listed = iter(changes)
    while chunk := list(islice(listed, _CHUNK)):
        texts, unread = _read_contents(vault.history, chunk, contents or {})
        for change in chunk:
            yield _compare(change, texts, unread)


def summarise_operation(operation: Operation) -> str:
    """Return an operation in one line, without its path."""
    if operation.note is None:
        words = {"add": "new", "remove": "removed", "replace": "changed"}
        was = operation.file.previous
        parts = [f"renamed from {was}"] if was else [words[operation.file.op]]
        return ", ".join([*parts, operation.remark])
    note = operation.note
    if note.op is ChangeOp.ADD:  # All of its properties are new; it is the note that counts.
        note = note._replace(properties=(), frontmatter_diff=())
    told = summarise_change(note)
    if not is_note_path(PurePosixPath(operation.file.path)):
        told = told.replace("new note", "new file", 1)
    return operation.remark if operation.remark and not operation.note else told


def _compare(
    change: FileChange, texts: Mapping[str, bytes], unread: Mapping[str, str]
) -> Operation:
    if not change.is_regular:
        kinds = (_KINDS.get(mode) for mode in (change.mode, change.old_mode))
        return Operation(change, None, next(filter(None, kinds), "no regular file"))
    if change.blob == change.old_blob:
        mode = f"mode {change.old_mode} -> {change.mode}" if change.mode != change.old_mode else ""
        return Operation(change, NoteChange(change.op, renamed_from=change.previous), mode)
    for blob in (change.old_blob, change.blob):
        if blob in unread:
            return Operation(change, None, unread[blob])
    old, new = (texts.get(blob, b"") for blob in (change.old_blob, change.blob))
    try:
        return Operation(change, _compare_texts(change, old, new))
    except (UnreadableNoteError, UnicodeDecodeError):
        return Operation(change, None, "binary")


def _compare_texts(change: FileChange, old: bytes, new: bytes) -> NoteChange:
    """Compare two versions of a file.

    Raises:
        UnreadableNoteError, UnicodeDecodeError: one is no text.
    """
    path = PurePosixPath(change.path)
    if is_note_path(path):
        before = _parse(change.previous or change.path, old) if change.old_blob else None
        after = _parse(change.path, new) if change.blob else None
        return compare_notes(before, after, change.previous)
    if b"\0" in old or b"\0" in new:
        raise UnreadableNoteError
    body, added, removed = diff_text(old.decode("utf-8"), new.decode("utf-8"))
    return NoteChange(change.op, (), body, added, removed, renamed_from=change.previous)


def _parse(path: str, data: bytes) -> Note:
    return parse_note(PurePosixPath(path), data)


def _read_contents(
    history: History, changes: Sequence[FileChange], contents: Mapping[str, bytes]
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the blobs that have to be compared, and those that are not read, with the reason."""
    wanted = dict.fromkeys(
        blob
        for change in changes
        if change.is_regular and change.blob != change.old_blob
        for blob in (change.old_blob, change.blob)
        if blob
    )
    found = {blob: contents[blob] for blob in wanted if blob in contents}
    unread: dict[str, str] = {}
    asked = [blob for blob in wanted if blob not in found]
    if not asked:
        return found, unread
    stdin = "".join(f"{blob}\n" for blob in asked).encode()
    sizes = history.git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=stdin)
    small: list[str] = []
    for blob, line in zip(asked, sizes.splitlines(), strict=True):
        size = line.rpartition(" ")[2]
        if not size.isdecimal():
            unread[blob] = "not in this clone"
        elif int(size) > MAX_FILE_BYTES:
            unread[blob] = f"{int(size):,} bytes, too large to compare"
        else:
            small.append(blob)
    for blob, (_, data) in zip(small, history.objects.read_all(small), strict=True):
        found[blob] = data
    return found, unread
