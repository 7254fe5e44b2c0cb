"""Compare two states of the vault: commits, or the work tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.changing.file_changes import FileChange, pair_renames
from vaultmem.core.paths import parse_note_path
from vaultmem.services.committing.pending import find_pending
from vaultmem.services.history.compare import Operation, compare_files
from vaultmem.services.history.locate import find_commit, resolve_commit
from vaultmem.storage.git.commits import TreeEntry
from vaultmem.storage.git.trees import diff_commits
from vaultmem.vault import Vault


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
    branches, tags, commits or dates, `old` also `OLD..NEW`. `path` is a note or folder that it is
    limited to.

    Raises:
        NoteNotFoundError: one of them does not exist.
        RefusedError: a name or the path is unsafe.
    """
    if not new and ".." in old:
        old, _, new = old.partition("..")
        old, new = old or "HEAD", new or "HEAD"
    inside = str(parse_note_path(path)) if path else ""
    head = vault.history.head().commit
    seen = find_commit(vault)
    before = resolve_commit(vault, old) if old else seen or head
    after = resolve_commit(vault, new) if new else seen
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
    pending = find_pending(vault)
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
