"""What is between the work tree's commit and another one, and the person's index on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from vaultmem.storage.git.commit_draft import EMPTY_TREE, TreeEntry
from vaultmem.storage.git.trees import RAW

if TYPE_CHECKING:
    from vaultmem.storage.git.commit_draft import Moves
    from vaultmem.storage.git.vault_history import History


def find_differences(
    history: History, old: str, new: str
) -> Iterator[tuple[str, TreeEntry | None, TreeEntry | None]]:
    """Yield path (from the repository's root), and old and new entry, of all that differs.

    `old` and `new` are commits or trees (full ids), empty for nothing at all.
    """
    command = ("diff-tree", "-r", "--no-renames", *RAW, old or EMPTY_TREE, new or EMPTY_TREE)
    words = iter(history.git.run(*command).split("\0"))
    for meta, path in zip(words, words, strict=False):
        old_mode, mode, old_blob, blob, _ = meta.lstrip(":").split()
        before = TreeEntry(old_mode, old_blob) if old_mode.strip("0") else None
        yield path, before, TreeEntry(mode, blob) if mode.strip("0") else None


def find_sizes(history: History, blobs: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each blob and its size in bytes, but for those that the repository lacks."""
    wanted = "".join(f"{blob}\n" for blob in blobs).encode()
    command = ("cat-file", "--batch-check=%(objectname) %(objectsize)")
    for line in history.git.run(*command, stdin=wanted).splitlines() if wanted else ():
        blob, _, size = line.partition(" ")
        if size.isdigit():
            yield blob, int(size)


def list_staged(history: History, *, removed: bool = True) -> list[str]:
    """Return what the person has staged, from the repository's root; no file is looked at.

    With `removed` unset, files are left out that they took out of the index.
    """
    head = history.head().commit or EMPTY_TREE
    which = () if removed else ("--diff-filter=d",)
    command = ("diff-index", "--cached", "--name-only", "-z", "--no-ext-diff", *which, head, "--")
    return list(filter(None, history.git.run(*command).split("\0")))


def unstage(history: History, paths: Iterable[str]) -> None:
    """Let the index have these files (from the repository's root) as HEAD has them."""
    if found := list(paths):
        env = history.settings().without_filters()
        history.git.run("reset", "-q", "--", *found, env=env)


def follow_index(history: History, moves: Moves) -> None:
    """Put the new entries into the person's index, but where they staged something else.

    Until the operation ends they are known as ours, and can be taken back.

    Raises:
        PendingError: another git holds the index.
    """
    before = {history.prefix + path: old for path, (old, _) in moves.items() if old}
    after = {history.prefix + path: new for path, (_, new) in moves.items() if new}
    paths = {history.prefix + path for path in moves}
    history.person_index().follow(paths, before, after, history.settings())
