"""The changes of a commit or between two versions: properties, and text as a diff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.notes.canvas import is_canvas
from vaultmem.core.notes.changes import (
    ChangeOp,
    FileChange,
    NoteChange,
    compare_notes,
    diff_text,
    pair_renames,
    summarise_change,
)
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.note import UnreadableNoteError, decode_bytes
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.paths import is_note_path, parse_note_path
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.changes.ownership import PendingFiles, read_pending
from vaultmem.services.history.commits import find_commit, locate_note, resolve_commit, split_range
from vaultmem.services.views.follow_renames import confirm_renames
from vaultmem.services.views.read_notes import resolve_address
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.storage.git.checkout import HeadTree, find_sizes
from vaultmem.storage.git.commit_draft import TreeEntry
from vaultmem.storage.git.log import (
    Commit,
    find_ends,
    find_removal,
    follow_path,
    read_commit,
    walk_renames,
)
from vaultmem.storage.git.trees import diff_commits, find_entry
from vaultmem.storage.git.vault_history import VaultHistory
from vaultmem.vault import Vault

#: Files read at once.
_CHUNK = 200

_KINDS = {"120000": "a link", "160000": "a repository of its own"}


class FileOperation(NamedTuple):
    """A path's change: `note` is the change of its text, or `remark` why there is none.

    A text file that is not a note has a NoteChange too, without properties.
    """

    file: FileChange
    note: NoteChange | None
    remark: str = ""


def compare_files(
    vault: Vault, changes: Iterable[FileChange], contents: Mapping[str, bytes] | None = None
) -> Iterator[FileOperation]:
    """Yield the change of each file; `contents` are bytes by blob id that git might lack."""
    remaining = iter(changes)
    while chunk := list(islice(remaining, _CHUNK)):
        texts, unread = _read_contents(vault.history, chunk, contents or {})
        for change in chunk:
            yield _compare(change, texts, unread)


def summarise_operation(operation: FileOperation) -> str:
    """Return an operation in one line, without its path."""
    if operation.note is None:
        words = {"add": "new", "remove": "removed", "replace": "changed"}
        old_path = operation.file.previous
        parts = [f"renamed from {old_path}"] if old_path else [words[operation.file.op]]
        return ", ".join([*parts, operation.remark])
    note = operation.note
    if note.op is ChangeOp.ADD:  # All its properties are new: omit them.
        note = note._replace(properties=(), frontmatter_diff=())
    summary = summarise_change(note)
    if not is_note_path(PurePosixPath(operation.file.path)):
        summary = summary.replace("new note", "new file", 1)
    return operation.remark if operation.remark and not operation.note else summary


def _compare(
    change: FileChange, texts: Mapping[str, bytes], unread: Mapping[str, str]
) -> FileOperation:
    if not change.is_regular:
        kinds = (_KINDS.get(mode) for mode in (change.mode, change.old_mode))
        return FileOperation(change, None, next(filter(None, kinds), "no regular file"))
    if change.blob == change.old_blob:
        mode = f"mode {change.old_mode} -> {change.mode}" if change.mode != change.old_mode else ""
        return FileOperation(change, NoteChange(change.op, renamed_from=change.previous), mode)
    for blob in (change.old_blob, change.blob):
        if blob in unread:
            return FileOperation(change, None, unread[blob])
    old, new = (texts.get(blob, b"") for blob in (change.old_blob, change.blob))
    try:
        return FileOperation(change, _compare_texts(change, old, new))
    except UnreadableNoteError:
        return FileOperation(change, None, "binary")


def _compare_texts(change: FileChange, old: bytes, new: bytes) -> NoteChange:
    """Compare two versions of a file.

    Raises:
        UnreadableNoteError: one is not text.
    """
    path = PurePosixPath(change.path)
    if is_note_path(path) and not is_canvas(change.path):
        old_path = PurePosixPath(change.previous or change.path)
        old_note = decode_bytes(old_path, old) if change.old_blob else None
        new_note = decode_bytes(path, new) if change.blob else None
        return compare_notes(old_note, new_note, change.previous)
    before_text, after_text = decode_text(old).text, decode_text(new).text
    if "\0" in before_text or "\0" in after_text:
        raise UnreadableNoteError
    body, added, removed = diff_text(before_text, after_text)
    return NoteChange(change.op, (), body, added, removed, renamed_from=change.previous)


def _read_contents(
    history: VaultHistory, changes: Sequence[FileChange], contents: Mapping[str, bytes]
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the blobs to compare, and the unread ones with the reason."""
    blobs = dict.fromkeys(
        blob
        for change in changes
        if change.is_regular and change.blob != change.old_blob
        for blob in (change.old_blob, change.blob)
        if blob
    )
    blob_contents = {blob: contents[blob] for blob in blobs if blob in contents}
    unread: dict[str, str] = {}
    unknown_blobs = [blob for blob in blobs if blob not in blob_contents]
    if not unknown_blobs:
        return blob_contents, unread
    sizes = dict(find_sizes(history, unknown_blobs))
    unread |= {blob: "not in this clone" for blob in unknown_blobs if blob not in sizes}
    large_sizes = {blob: size for blob, size in sizes.items() if size > MAX_FILE_BYTES}
    unread |= {blob: f"{size:,} bytes, too large to compare" for blob, size in large_sizes.items()}
    small_blobs = [blob for blob in unknown_blobs if blob not in unread]
    for blob, (_, data) in zip(small_blobs, history.objects.read_all(small_blobs), strict=True):
        blob_contents[blob] = data
    return blob_contents, unread


class VaultDiff(NamedTuple):
    """The differences of two commits; `new` is "" for the work tree, `old` "" for nothing.

    `skipped` are files of the work tree that cannot be committed, with the reason.
    """

    old: str
    new: str
    operations: tuple[FileOperation, ...]
    skipped: dict[str, str]


def diff_vault(vault: Vault, old: str = "", new: str = "", path: str = "") -> VaultDiff:
    """Return the changes from `old` (default HEAD) to `new` (default the work tree).

    If the vault's ref names a commit, it replaces both defaults. Both can be branches, tags,
    commits or dates. `old` can be `OLD..NEW`, or `A...B` for B's changes since the two diverged.
    `path` limits the result to a note or folder.

    Raises:
        NoteNotFoundError: one of them does not exist.
        RefusedError: a name or the path is unsafe.
    """
    is_three_dot = not new and "..." in old
    if not new and ".." in old:
        old, new = split_range(old)
    inside = str(parse_note_path(path)) if path else ""
    head = vault.history.head().commit
    ref_commit = find_commit(vault)
    old_commit = resolve_commit(vault, old) if old else ref_commit or head
    new_commit = resolve_commit(vault, new) if new else ref_commit
    if is_three_dot:
        old_commit = vault.history.refs.merge_base(old_commit, new_commit)
    contents: dict[str, bytes] = {}
    skipped: dict[str, str] = {}
    if new_commit:
        changes = diff_commits(vault.history, old_commit, new_commit)
    else:
        changes, contents, skipped = _compare_work_tree(vault, old_commit, head)
    if inside:
        changes = [each for each in changes if f"{each.path}/".startswith(f"{inside}/")]
    operations = compare_files(vault, pair_renames(changes), contents)
    return VaultDiff(old_commit, new_commit, tuple(operations), skipped)


def _compare_work_tree(
    vault: Vault, old_commit: str, head: str
) -> tuple[list[FileChange], dict[str, bytes], dict[str, str]]:
    """Return the changes from a commit to the work tree, new bytes, and skipped files."""
    pending = read_pending(vault)
    commit_changes = diff_commits(vault.history, old_commit, head) if old_commit != head else []
    old_changes = {change.path: change for change in commit_changes}
    tree = vault.history.tree(head) if pending.files else {}
    contents: dict[str, bytes] = {}

    def join() -> Iterator[FileChange]:
        for path, file in pending.files.items():
            mode, blob = "", ""
            if file is not None:
                mode, blob = file[0], blob_id(file[1])
                contents[blob] = file[1]
            old_change = old_changes.pop(path, None)
            entry = tree.get(path, TreeEntry("", ""))
            if old_change is not None:
                entry = TreeEntry(old_change.old_mode, old_change.old_blob)
            if (entry.mode, entry.blob) != (mode, blob):
                yield FileChange(path, entry.blob, blob, entry.mode, mode)
        yield from old_changes.values()

    return list(join()), contents, pending.skipped


class ShownCommit(NamedTuple):
    """A commit and its changes, compared with its first parent, or with nothing.

    At the end of a shallow clone's history, the changes are unknown (`is_end`). `others` are
    changed files that were not compared.
    """

    commit: Commit
    operations: tuple[FileOperation, ...]
    is_end: bool
    others: tuple[FileChange, ...] = ()


def show_commit(vault: Vault, name: str = "", limit: int = 0) -> ShownCommit:
    """Return the commit that a branch, tag, id or date names (default: the vault's ref or HEAD).

    At most `limit` files are compared, 0 for all.

    Raises:
        NoteNotFoundError: there is no such commit.
        RefusedError: the name is unsafe or ambiguous.
    """
    commit = read_commit(vault.history, resolve_commit(vault, name or vault.ref or "HEAD"))
    if commit.commit in find_ends(vault.history):
        return ShownCommit(commit, (), True)
    parent = commit.parents[0] if commit.parents else ""
    changes = pair_renames(diff_commits(vault.history, parent, commit.commit))
    compared_changes, others = changes[: limit or None], changes[limit or len(changes) :]
    return ShownCommit(commit, tuple(compare_files(vault, compared_changes)), False, tuple(others))


# Match notes of a commit with present notes, through renames.


class PastNote(NamedTuple):
    """A note of a commit: its path, heading and entry there, and its present path.

    A note that was removed since has its last path.
    """

    path: str
    heading: str
    entry: TreeEntry
    present: str


def locate_past(vault: Vault, commit: str, address: str) -> PastNote:
    """Return the note that an address names in a commit, by its name there or now.

    Raises:
        NoteNotFoundError: several notes have that bare name, or none.
        RefusedError: the path is unsafe.
    """
    try:
        name, heading, entry = locate_note(vault, commit, address)
    except NoteNotFoundError:
        if past_note := _trace_back(vault, commit, address):
            return past_note
        raise
    return PastNote(name, heading, entry, find_present(vault, commit, name))


def find_uncommitted(vault: Vault, pending: PendingFiles) -> dict[str, str]:
    """Return the present path of each file moved in the folder since HEAD, by its old path.

    The text is the same or nearly so. Or the name is, and no other new or removed file has it.
    """
    head = HeadTree(vault.state).entries(pending.files)
    new_paths = [path for path, file in pending.files.items() if file and path not in head]
    removed_paths = [path for path, file in pending.files.items() if file is None]
    new_paths_by_old = {old: path for path in new_paths if (old := pending.find_before(path))}
    names = Counter(map(_name, new_paths)) + Counter(map(_name, removed_paths))
    for old in removed_paths:
        for path in new_paths:
            if old not in new_paths_by_old and _name(path) == _name(old) and names[_name(old)] == 2:
                new_paths_by_old[old] = path
    return new_paths_by_old


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def find_present(vault: Vault, commit: str, path: str) -> str:
    """Return the present path of a note of a commit: each removal can be a rename."""
    history, start, branch = vault.history, commit, find_commit(vault)
    end = branch or history.head().commit
    while start := find_removal(history, start, end, path):
        renames = walk_renames(history, f"{start}^..{start}")
        confirmed_renames = confirm_renames(
            vault, [each for each in renames if each.previous == path]
        )
        path = confirmed_renames[0].path if confirmed_renames else path
    if not branch and not (vault.root / path).exists():
        new_path = find_uncommitted(vault, read_pending(vault)).get(path, path)
        return path if find_entry(history, commit, new_path) else new_path  # It already existed.
    return path


def _trace_back(vault: Vault, commit: str, address: str) -> PastNote | None:
    """Return a note that has another name now, None if the commit lacks it."""
    try:
        present_path, heading = resolve_address(vault, address)
    except NoteNotFoundError:
        return None
    path, branch = str(present_path), find_commit(vault)
    if not branch:
        new_paths = find_uncommitted(vault, read_pending(vault))
        path = next((old for old, new in new_paths.items() if new == path), path)
    versions = follow_path(vault.history, branch or vault.history.head().commit, path)
    renames = confirm_renames(vault, (change for _, change in versions if change.previous))
    for name in (path, *(each.previous for each in renames)):
        if entry := find_entry(vault.history, commit, name):
            return PastNote(name, heading, entry, str(present_path))
    return None
