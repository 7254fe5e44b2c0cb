"""Move a branch to another commit, and keep a ref on where it was."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from vaultmem.errors import RefusedError
from vaultmem.services.branching.branches import check_clean, check_head
from vaultmem.services.branching.tree_moves import find_moves, move_tree
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.storage.git.checkout import follow_index
from vaultmem.storage.git.refs import Target
from vaultmem.storage.git.repository import find_checkout
from vaultmem.vault import Vault

#: Where what a branch was at is kept, so that no commit is lost.
_BACKUPS = "refs/vaultmem/backup"


class ResetReport(NamedTuple):
    """A branch that was moved from the commit `before` to another one; `backup` still has it.

    `files` says how many files of the folder changed; `backup` is empty where nothing did.
    """

    branch: str
    commit: str
    before: str
    backup: str
    files: int


def reset_branch(vault: Vault, name: str, to: str = "") -> ResetReport:
    """Move a local branch to a branch, tag, commit or date, else to what is checked out.

    Where it is checked out, the files follow.

    Raises:
        NoteNotFoundError: there is no such branch or commit.
        PendingError: it is checked out and something is not committed, or it has just moved.
        RefusedError: it is checked out elsewhere, git itself is needed for the difference, or it is
            checked out and nothing says where it is to go, or an agent moves it.
        ConflictError: a file that is in no commit stands in the way.
    """

    def work(operation: Operation) -> ResetReport:
        before = vault.history.refs.branch_tip(name)
        is_here = vault.history.head().branch == name
        if is_here:
            vault.require_person(f"{name}: checked out, so only a person moves it")
        if is_here and not to:
            raise RefusedError(f"{name}: checked out; say which commit or branch it is to go to")
        target = vault.history.refs.resolve(to or "HEAD", within=before)
        if target.commit == before:
            return ResetReport(name, before, before, "", 0)
        backup = _name_backup(vault, name)
        if is_here:
            files = _reset_here(operation, vault, name, before, target, backup)
            return ResetReport(name, target.commit, before, backup, files)
        if folder := find_checkout(vault.history.git_folder, f"refs/heads/{name}"):
            raise RefusedError(f"{name}: checked out in {folder}; reset it there")
        vault.history.refs.move_branch(name, target.commit, before, backup)
        return ResetReport(name, target.commit, before, backup, 0)

    return operate(vault, "nothing was reset", work)


def _reset_here(
    operation: Operation, vault: Vault, name: str, before: str, target: Target, backup: str
) -> int:
    check_clean(vault, "reset")
    head = vault.history.head()
    moves = find_moves(vault, before, target.commit)
    move_tree(operation, vault, moves)
    follow_index(vault.history, moves)
    check_head(vault, head, "reset")
    vault.history.refs.move_branch(name, target.commit, before, backup)
    return len(moves)


def _name_backup(vault: Vault, name: str) -> str:
    """Return a free name for the ref that keeps what a branch was at."""
    at = datetime.fromtimestamp(vault.now(), UTC).strftime("%Y%m%dT%H%M%SZ")
    taken = vault.history.git.run("for-each-ref", "--format=%(refname)", _BACKUPS).split("\n")
    free, number = f"{_BACKUPS}/{name}-{at}", 1
    while free in taken:
        number += 1
        free = f"{_BACKUPS}/{name}-{at}-{number}"
    return free
