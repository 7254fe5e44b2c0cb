"""What one commit changed, or what is between two states: properties, and text as a diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.delta.file_changes import ChangeOp, FileChange, pair_renames
from vaultmem.core.delta.note_changes import NoteChange, compare_notes, diff_text, summarise_change
from vaultmem.core.notes.canvas import is_canvas
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.paths import is_note_path, parse_note_path
from vaultmem.services.history.commits import find_commit, resolve_commit, split_range
from vaultmem.services.writing.ownership import read_pending
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.commit_draft import TreeEntry
from vaultmem.storage.git.log import Commit, find_ends, read_commit
from vaultmem.storage.git.trees import diff_commits
from vaultmem.storage.git.vault_history import History
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
    except UnreadableNoteError:
        return Operation(change, None, "binary")


def _compare_texts(change: FileChange, old: bytes, new: bytes) -> NoteChange:
    """Compare two versions of a file.

    Raises:
        UnreadableNoteError: one is no text.
    """
    path = PurePosixPath(change.path)
    if is_note_path(path) and not is_canvas(change.path):
        before = _parse(change.previous or change.path, old) if change.old_blob else None
        after = _parse(change.path, new) if change.blob else None
        return compare_notes(before, after, change.previous)
    before_text, after_text = decode_text(old).text, decode_text(new).text
    if "\0" in before_text or "\0" in after_text:
        raise UnreadableNoteError
    body, added, removed = diff_text(before_text, after_text)
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


class VaultDiff(NamedTuple):
    """What differs between two commits; `new` is "" for the work tree, `old` "" for nothing.

    `skipped` are files of the work tree that no commit would take, with the reason.
    """

    old: str
    new: str
    operations: tuple[Operation, ...]
    skipped: dict[str, str]


def diff_vault(vault: Vault, old: str = "", new: str = "", path: str = "") -> VaultDiff:
    """Return what has to be done to `old` (else HEAD) to make `new` (else the work tree) of it.

    Where the vault's ref names a commit, that stands for both HEAD and the work tree. Both may be
    branches, tags, commits or dates, `old` also `OLD..NEW`, or `A...B` for what B has since the two
    parted. `path` is a note or folder that it is limited to.

    Raises:
        NoteNotFoundError: one of them does not exist.
        RefusedError: a name or the path is unsafe.
    """
    has_parted = not new and "..." in old
    if not new and ".." in old:
        old, new = split_range(old)
    inside = str(parse_note_path(path)) if path else ""
    head = vault.history.head().commit
    seen = find_commit(vault)
    before = resolve_commit(vault, old) if old else seen or head
    after = resolve_commit(vault, new) if new else seen
    if has_parted:
        before = vault.history.refs.merge_base(before, after)
    contents: dict[str, bytes] = {}
    skipped: dict[str, str] = {}
    if after:
        changes = diff_commits(vault.history, before, after)
    else:
        changes, contents, skipped = _compare_work_tree(vault, before, head)
    if inside:
        changes = [each for each in changes if f"{each.path}/".startswith(f"{inside}/")]
    operations = compare_files(vault, pair_renames(changes), contents)
    return VaultDiff(before, after, tuple(operations), skipped)


def _compare_work_tree(
    vault: Vault, before: str, head: str
) -> tuple[list[FileChange], dict[str, bytes], dict[str, str]]:
    """Return what differs between a commit and the work tree, the new bytes, what is left out."""
    pending = read_pending(vault)
    earlier = diff_commits(vault.history, before, head) if before != head else []
    older = {change.path: change for change in earlier}
    tree = vault.history.tree(head) if pending.files else {}
    contents: dict[str, bytes] = {}

    def join() -> Iterator[FileChange]:
        for path, file in pending.files.items():
            mode, blob = "", ""
            if file is not None:
                mode, blob = file[0], blob_id(file[1])
                contents[blob] = file[1]
            was = older.pop(path, None)
            entry = tree.get(path, TreeEntry("", ""))
            if was is not None:
                entry = TreeEntry(was.old_mode, was.old_blob)
            if (entry.mode, entry.blob) != (mode, blob):
                yield FileChange(path, entry.blob, blob, entry.mode, mode)
        yield from older.values()

    return list(join()), contents, pending.skipped


class ShownCommit(NamedTuple):
    """A commit and what it changed, compared with its first parent; the first with nothing.

    Where a shallow clone's history ends, what the commit changed is not known (`is_end`). `others`
    are files that it changed too and that were not compared.
    """

    commit: Commit
    operations: tuple[Operation, ...]
    is_end: bool
    others: tuple[FileChange, ...] = ()


def show_commit(vault: Vault, name: str = "", limit: int = 0) -> ShownCommit:
    """Return the commit that a branch, tag, id or date names, else the vault's ref or HEAD.

    At most `limit` files are compared, 0 for all.

    Raises:
        NoteNotFoundError: there is none.
        RefusedError: the name is unsafe or ambiguous.
    """
    commit = read_commit(vault.history, resolve_commit(vault, name or vault.ref or "HEAD"))
    if commit.commit in find_ends(vault.history):
        return ShownCommit(commit, (), True)
    before = commit.parents[0] if commit.parents else ""
    changes = pair_renames(diff_commits(vault.history, before, commit.commit))
    compared, others = changes[: limit or None], changes[limit or len(changes) :]
    return ShownCommit(commit, tuple(compare_files(vault, compared)), False, tuple(others))
