"""Show one commit: who made it, when and why, and what it changed in the vault."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.changing.file_changes import pair_renames
from vaultmem.services.history.compare import Operation, compare_files
from vaultmem.services.history.locate import resolve_commit
from vaultmem.storage.git.log import Commit, find_ends, read_commit
from vaultmem.storage.git.trees import diff_commits
from vaultmem.vault import Vault


class ShownCommit(NamedTuple):
    """A commit and what it changed, compared with its first parent; the first with nothing.

    Where a shallow clone's history ends, what the commit changed is not known (`is_end`).
    """

    commit: Commit
    operations: tuple[Operation, ...]
    is_end: bool


def show_commit(vault: Vault, name: str = "") -> ShownCommit:
    """Return the commit that a branch, tag, id or date stands for, else the vault's ref or HEAD.

    Raises:
        NoteNotFoundError: there is none.
        RefusedError: the name is unsafe or ambiguous.
    """
    commit = read_commit(vault.history, resolve_commit(vault, name or vault.ref or "HEAD"))
    if commit.commit in find_ends(vault.history):
        return ShownCommit(commit, (), True)
    before = commit.parents[0] if commit.parents else ""
    changes = pair_renames(diff_commits(vault.history, before, commit.commit))
    return ShownCommit(commit, tuple(compare_files(vault, changes)), False)
