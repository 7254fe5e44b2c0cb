"""Compare commits, update the person's index, and cache the tree of HEAD."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from vaultmem.core.text.display import escape_bytes
from vaultmem.core.text.paths import is_text
from vaultmem.errors import VaultError
from vaultmem.storage.git.commit_draft import EMPTY_TREE, REGULAR, TreeEntry
from vaultmem.storage.git.trees import RAW
from vaultmem.storage.state import StateDatabase

if TYPE_CHECKING:
    from vaultmem.storage.git.commit_draft import Moves
    from vaultmem.storage.git.vault_history import VaultHistory


def find_differences(
    history: VaultHistory, old: str, new: str, folder: str = ""
) -> Iterator[tuple[str, TreeEntry | None, TreeEntry | None]]:
    """Yield path (from the repository's root), old entry and new entry of each difference.

    `old` and `new` are full ids of commits or trees, "" for the empty tree. `folder` limits
    the result to a folder.
    """
    command = ("diff-tree", "-r", "--no-renames", *RAW, old or EMPTY_TREE, new or EMPTY_TREE)
    pathspec = ("--", folder) if folder else ()
    words = iter(history.git.run(*command, *pathspec).split("\0"))
    for meta, path in zip(words, words, strict=False):
        old_mode, mode, old_blob, blob, _ = meta.lstrip(":").split()
        before = TreeEntry(old_mode, old_blob) if old_mode.strip("0") else None
        yield path, before, TreeEntry(mode, blob) if mode.strip("0") else None


def find_sizes(history: VaultHistory, blobs: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each blob and its size in bytes; skip blobs that the repository lacks."""
    stdin = "".join(f"{blob}\n" for blob in blobs).encode()
    command = ("cat-file", "--batch-check=%(objectname) %(objectsize)")
    for line in history.git.run(*command, stdin=stdin).splitlines() if stdin else ():
        blob, _, size = line.partition(" ")
        if size.isdigit():
            yield blob, int(size)


def list_staged(history: VaultHistory, *, removed: bool = True) -> list[str]:
    """Return the staged paths, from the repository's root, without reading files.

    Without `removed`, staged removals are left out.
    """
    head = history.head().commit or EMPTY_TREE
    options = () if removed else ("--diff-filter=d",)
    command = ("diff-index", "--cached", "--name-only", "-z", "--no-ext-diff", *options, head, "--")
    return list(filter(None, history.git.run(*command).split("\0")))


def unstage(history: VaultHistory, paths: Iterable[str]) -> None:
    """Reset these files (from the repository's root) to HEAD in the index."""
    if names := list(paths):
        env = history.settings().without_filters()
        history.git.run("reset", "-q", "--", *names, env=env)


def follow_index(history: VaultHistory, moves: Moves) -> None:
    """Put the new entries into the person's index, except where other changes are staged.

    Until the operation ends, the entries are known as vaultmem's and can be reverted.

    Raises:
        PendingError: another git holds the index.
    """
    before = {history.prefix + path: old for path, (old, _) in moves.items() if old}
    after = {history.prefix + path: new for path, (_, new) in moves.items() if new}
    paths = {history.prefix + path for path in moves}
    history.person_index().follow(paths, before, after, history.settings())


# The files of HEAD, cached in the state database, so that one change needs no listing of a whole
# tree.
#
# The table is for one commit and one folder of the repository. For another commit it is updated by
# the difference, or rebuilt. It only selects files to check: commits are made from git's own trees.

#: Key in the state database for the commit and the folder of the table.
_KEY = "head_files"


class HeadTree:
    """The state database's table of the vault's regular files in HEAD."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def follow(self, history: VaultHistory, commit: str) -> None:
        """Update the table to a commit ("" for none), durably."""
        key = _name(commit, history.prefix)
        stored_key = self._state.get(_KEY)
        if stored_key == key:
            return
        old = stored_key.partition(" ")[0]
        changes = None
        if old and commit and stored_key == _name(old, history.prefix):
            changes = _find_changes(history, old, commit)
        with self._state.transaction():
            if changes is None:
                self._state.execute("DELETE FROM head_files")
                changes = dict(history.tree(commit))
            self._put(changes)
            self._state.put(_KEY, key)

    def advance(
        self, history: VaultHistory, old: str, new: str, changes: Mapping[str, TreeEntry | None]
    ) -> None:
        """Add vaultmem's own commit without asking git, if the table is at its parent."""
        if self._state.get(_KEY) == _name(old, history.prefix):
            self._drop_replaced([path for path, entry in changes.items() if entry])
            self._put(changes)
            self._state.put(_KEY, _name(new, history.prefix))

    def difference(self) -> tuple[list[str], list[str]]:
        """Return paths whose content is not known to be HEAD's, and paths that only HEAD has."""
        changed_sql = (
            "SELECT f.path FROM files f LEFT JOIN head_files h ON h.path = f.path "
            "WHERE h.blob IS NOT f.blob"
        )
        removed_sql = (
            "SELECT h.path FROM head_files h LEFT JOIN files f ON f.path = h.path "
            "WHERE coalesce(f.blob, '') = ''"
        )
        return (
            [row[0] for row in self._state.query(changed_sql)],
            [row[0] for row in self._state.query(removed_sql)],
        )

    def entries(self, paths: Iterable[str]) -> dict[str, TreeEntry]:
        """Return the entries of those files that HEAD has."""
        sql = "SELECT path, mode, blob FROM head_files WHERE path = ?"
        rows = [row for path in paths for row in self._state.query(sql, (path,))]
        return {path: TreeEntry(mode, blob) for path, mode, blob in rows}

    def _drop_replaced(self, paths: Sequence[str]) -> None:
        """Delete rows above and below new files: a folder replaced a file, or a file a folder."""
        parents = {path[:at] for path in paths for at, mark in enumerate(path) if mark == "/"}
        self._state.execute_many(
            "DELETE FROM head_files WHERE path = ?", [(path,) for path in parents]
        )
        ranges = [(f"{path}/", f"{path}0") for path in paths]  # "0" follows "/".
        self._state.execute_many("DELETE FROM head_files WHERE path > ? AND path < ?", ranges)

    def _put(self, changes: Mapping[str, TreeEntry | None]) -> None:
        # Scans skip names that are not UTF-8, so these count as neither changed nor gone.
        entries = {path: entry for path, entry in changes.items() if is_text(path)}
        removed_rows = [(path,) for path, entry in entries.items() if entry is None]
        self._state.execute_many("DELETE FROM head_files WHERE path = ?", removed_rows)
        rows = [(path, entry.mode, entry.blob) for path, entry in entries.items() if entry]
        self._state.execute_many("INSERT OR REPLACE INTO head_files VALUES (?, ?, ?)", rows)


def _name(commit: str, prefix: str) -> str:
    return f"{commit} {escape_bytes(prefix)}"


def _find_changes(history: VaultHistory, old: str, new: str) -> dict[str, TreeEntry | None] | None:
    """Return the difference between two commits; None if git fails, as when one is gone."""
    try:
        differences = list(find_differences(history, old, new, history.prefix))
    except VaultError:
        return None
    return {
        path.removeprefix(history.prefix): entry if entry and entry.mode in REGULAR else None
        for path, _, entry in differences
    }
