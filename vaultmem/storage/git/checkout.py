"""Update the work tree from one commit to another, and read the tree of HEAD."""

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
    history: VaultHistory, old: str, new: str, below: str = ""
) -> Iterator[tuple[str, TreeEntry | None, TreeEntry | None]]:
    """Yield path (from the repository's root), and old and new entry, of all that differs.

    `old` and `new` are commits or trees (full ids), empty for nothing at all; `below` is a folder
    that it is limited to.
    """
    command = ("diff-tree", "-r", "--no-renames", *RAW, old or EMPTY_TREE, new or EMPTY_TREE)
    where = ("--", below) if below else ()
    words = iter(history.git.run(*command, *where).split("\0"))
    for meta, path in zip(words, words, strict=False):
        old_mode, mode, old_blob, blob, _ = meta.lstrip(":").split()
        before = TreeEntry(old_mode, old_blob) if old_mode.strip("0") else None
        yield path, before, TreeEntry(mode, blob) if mode.strip("0") else None


def find_sizes(history: VaultHistory, blobs: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each blob and its size in bytes, but for those that the repository lacks."""
    wanted = "".join(f"{blob}\n" for blob in blobs).encode()
    command = ("cat-file", "--batch-check=%(objectname) %(objectsize)")
    for line in history.git.run(*command, stdin=wanted).splitlines() if wanted else ():
        blob, _, size = line.partition(" ")
        if size.isdigit():
            yield blob, int(size)


def list_staged(history: VaultHistory, *, removed: bool = True) -> list[str]:
    """Return what the person has staged, from the repository's root; no file is looked at.

    With `removed` unset, files are left out that they took out of the index.
    """
    head = history.head().commit or EMPTY_TREE
    which = () if removed else ("--diff-filter=d",)
    command = ("diff-index", "--cached", "--name-only", "-z", "--no-ext-diff", *which, head, "--")
    return list(filter(None, history.git.run(*command).split("\0")))


def unstage(history: VaultHistory, paths: Iterable[str]) -> None:
    """Let the index have these files (from the repository's root) as HEAD has them."""
    if found := list(paths):
        env = history.settings().without_filters()
        history.git.run("reset", "-q", "--", *found, env=env)


def follow_index(history: VaultHistory, moves: Moves) -> None:
    """Put the new entries into the person's index, but where they staged something else.

    Until the operation ends they are known as ours, and can be taken back.

    Raises:
        PendingError: another git holds the index.
    """
    before = {history.prefix + path: old for path, (old, _) in moves.items() if old}
    after = {history.prefix + path: new for path, (_, new) in moves.items() if new}
    paths = {history.prefix + path for path in moves}
    history.person_index().follow(paths, before, after, history.settings())


# What HEAD has, kept in the state database, so that nobody lists a whole tree for one change.
#
# The table belongs to one commit and one folder of the repository, by name; for any other it is
# brought along by what differs, or made anew. It only tells which files to look at: commits are
# made of git's own trees.

#: In the state database: whose files the table has.
_KEY = "head_files"


class HeadTree:
    """The state database's table of the regular files that HEAD has in the vault."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def follow(self, history: VaultHistory, commit: str) -> None:
        """Make the table that of a commit ("" for none); durable."""
        key = _name(commit, history.prefix)
        known = self._state.get(_KEY)
        if known == key:
            return
        old = known.partition(" ")[0]
        changes = None
        if old and commit and known == _name(old, history.prefix):
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
        """Take in our own commit without asking git, if the table is that of the one before."""
        if self._state.get(_KEY) == _name(old, history.prefix):
            self._drop_replaced([path for path, entry in changes.items() if entry])
            self._put(changes)
            self._state.put(_KEY, _name(new, history.prefix))

    def difference(self) -> tuple[list[str], list[str]]:
        """Return paths whose bytes are not known to be HEAD's, and paths that only HEAD has."""
        changed = (
            "SELECT f.path FROM files f LEFT JOIN head_files h ON h.path = f.path "
            "WHERE h.blob IS NOT f.blob"
        )
        gone = (
            "SELECT h.path FROM head_files h LEFT JOIN files f ON f.path = h.path "
            "WHERE coalesce(f.blob, '') = ''"
        )
        return (
            [row[0] for row in self._state.query(changed)],
            [row[0] for row in self._state.query(gone)],
        )

    def entries(self, paths: Iterable[str]) -> dict[str, TreeEntry]:
        """Return those of the files that HEAD has."""
        sql = "SELECT path, mode, blob FROM head_files WHERE path = ?"
        rows = [row for path in paths for row in self._state.query(sql, (path,))]
        return {path: TreeEntry(mode, blob) for path, mode, blob in rows}

    def _drop_replaced(self, paths: Sequence[str]) -> None:
        """Forget the files above and below new ones: a folder took their place, or they its."""
        above = {path[:at] for path in paths for at, mark in enumerate(path) if mark == "/"}
        self._state.execute_many(
            "DELETE FROM head_files WHERE path = ?", [(path,) for path in above]
        )
        below = [(f"{path}/", f"{path}0") for path in paths]  # "0" comes next to "/".
        self._state.execute_many("DELETE FROM head_files WHERE path > ? AND path < ?", below)

    def _put(self, changes: Mapping[str, TreeEntry | None]) -> None:
        # Names that are not UTF-8 are in no scan, so they count as neither changed nor gone.
        named = {path: entry for path, entry in changes.items() if is_text(path)}
        gone = [(path,) for path, entry in named.items() if entry is None]
        self._state.execute_many("DELETE FROM head_files WHERE path = ?", gone)
        rows = [(path, entry.mode, entry.blob) for path, entry in named.items() if entry]
        self._state.execute_many("INSERT OR REPLACE INTO head_files VALUES (?, ?, ?)", rows)


def _name(commit: str, prefix: str) -> str:
    return f"{commit} {escape_bytes(prefix)}"


def _find_changes(history: VaultHistory, old: str, new: str) -> dict[str, TreeEntry | None] | None:
    """Return what differs between two commits, None where git cannot tell (one is gone)."""
    try:
        found = list(find_differences(history, old, new, history.prefix))
    except VaultError:
        return None
    return {
        path.removeprefix(history.prefix): entry if entry and entry.mode in REGULAR else None
        for path, _, entry in found
    }
