"""Branches: list, make, remove, switch and reset them; and whether one can be left."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from vaultmem.core.safe_text import name_some
from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError
from vaultmem.services.branching.tree_moves import find_moves, move_tree
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.services.writing.ownership import find_pending
from vaultmem.storage.git.checkout import follow_index, list_staged, unstage
from vaultmem.storage.git.head import Head
from vaultmem.storage.git.locks import PATIENCE
from vaultmem.storage.git.refs import Branch, Target
from vaultmem.storage.git.repository import find_checkout
from vaultmem.vault import Vault

#: Where what a branch was at is kept, so that no commit is lost.
_BACKUPS = "refs/vaultmem/backup"


class ListedBranch(NamedTuple):
    """A branch; `ahead` and `behind` count the commits that only it, or only HEAD, has."""

    branch: Branch
    is_current: bool
    ahead: int
    behind: int


class ResetReport(NamedTuple):
    """A branch that was moved from the commit `before` to another one; `backup` still has it.

    `files` says how many files of the folder changed; `backup` is empty where nothing did.
    """

    branch: str
    commit: str
    before: str
    backup: str
    files: int


def list_branches(vault: Vault) -> list[ListedBranch]:
    """Return the local branches by name, each compared with what is checked out."""
    head, refs = vault.history.head(), vault.history.refs
    found = []
    for branch in refs.branches():
        ahead, behind = refs.count_ahead(branch.commit, head.commit) if head.commit else (0, 0)
        shown = branch._replace(folder=vault.show_folder(branch.folder))
        found.append(ListedBranch(shown, branch.name == head.branch, ahead, behind))
    return found


def make_branch(vault: Vault, name: str, start: str = "") -> Target:
    """Make a branch at `start` (a ref or date), else at what is checked out; nothing is switched.

    Raises:
        RefusedError: the name is taken or not allowed.
        NoteNotFoundError: nothing is committed yet, or there is no such start.
    """

    def work(_: Operation) -> Target:
        if not start and not vault.history.head().commit:
            raise NoteNotFoundError("nothing is committed yet; make a checkpoint first")
        target = vault.history.refs.resolve(start or "HEAD")
        vault.history.refs.create_branch(name, target.commit)
        return target

    return operate(vault, "no branch was changed", work)


def remove_branch(vault: Vault, name: str, force: bool = False) -> str:
    """Remove a branch and return the commit that it was at.

    Raises:
        NoteNotFoundError: there is no such branch.
        RefusedError: it is checked out, or has commits that no other branch has (unless `force`).
    """
    refs = vault.history.refs

    def work(_: Operation) -> str:
        commit = refs.branch_tip(name)
        if folder := find_checkout(vault.history.git_folder, f"refs/heads/{name}"):
            raise RefusedError(f"{name}: checked out in {folder}; switch to another branch first")
        others = [branch for branch in refs.branches() if branch.name != name]
        if not force and not any(refs.is_ancestor(commit, other.commit) for other in others):
            raise RefusedError(
                f"{name}: has commits that are on no other branch; merge it, or add --force"
            )
        refs.delete_branch(name, commit)
        return commit

    return operate(vault, "no branch was changed", work)


def switch_branch(vault: Vault, name: str, create: bool = False) -> tuple[Target, int]:
    """Check a local branch out; return it, and how many files changed.

    With `create` the branch is made first, at what is checked out; then no file changes, and from
    a commit that is on no branch what is not committed comes along.

    Raises:
        NoteNotFoundError: there is no such branch.
        PendingError: something is not committed yet.
        RefusedError: it is checked out elsewhere, or git itself is needed for the difference, or
            commits would be on no branch any more.
        ConflictError: a file that is in no commit is in the way.
    """

    def work(operation: Operation) -> tuple[Target, int]:
        if create:
            return _create_branch(vault, name), 0
        return _switch(operation, vault, name)

    return operate(vault, "nothing was switched", work)


def reset_branch(vault: Vault, name: str, to: str = "") -> ResetReport:
    """Move a local branch to a branch, tag, commit or date, else to what is checked out.

    Where it is checked out, the files follow.

    Raises:
        NoteNotFoundError: there is no such branch or commit.
        PendingError: it is checked out and something is not committed, or it has just moved.
        RefusedError: it is checked out elsewhere, git itself is needed for the difference, or it is
            checked out and nothing says where it is to go, or an agent moves it.
        ConflictError: a file that is in no commit is in the way.
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
        files = 0
        if is_here:
            check_clean(vault, "reset")
            head = vault.history.head()
            files = _move_files(operation, vault, head, target.commit, "reset")
        elif folder := find_checkout(vault.history.git_folder, f"refs/heads/{name}"):
            raise RefusedError(f"{name}: checked out in {folder}; reset it there")
        vault.history.refs.move_branch(name, target.commit, before, backup)
        return ResetReport(name, target.commit, before, backup, files)

    return operate(vault, "nothing was reset", work)


def check_clean(vault: Vault, what: str, may_be_detached: bool = False) -> None:
    """Make sure that nothing is uncommitted, so that a branch can be `what` (merged, left).

    Raises:
        PendingError: a person is in the middle of something in git, or something is not committed.
    """
    check_idle(vault, what, may_be_detached)
    changed = sorted(find_pending(vault).files)
    if changed:
        shown = ", ".join(changed[:3]) + (" ..." if len(changed) > 3 else "")
        count = "1 file is" if len(changed) == 1 else f"{len(changed):,} files are"
        detached = may_be_detached and not vault.history.head().branch
        remedy = (
            "`vaultmem switch --create NAME` takes them along to a new branch"
            if detached
            else "run `vaultmem checkpoint NOTE` first"
        )
        raise PendingError(f"not {what}: {count} not committed ({shown}); {remedy}")
    vault.history.settle_index()  # What an interrupted commit left there is not the user's work.
    if staged := list_staged(vault.history):
        raise PendingError(
            f"not {what}: changes are staged ({name_some(staged)}); `git reset` unstages them and "
            "changes no file"
        )


def unstage_committed(vault: Vault) -> None:
    """Let git's index follow where HEAD has a file as it is on disk, and other bytes are staged."""
    history = vault.history

    def work(_: Operation) -> None:
        staged = [x for x in list_staged(history, removed=False) if x.startswith(history.prefix)]
        if not staged or history.obstacle(patience=PATIENCE):
            return
        pending = find_pending(vault)
        left = {f"{history.prefix}{path}" for path in (*pending.files, *pending.skipped)}
        unstage(history, [path for path in staged if path not in left])

    operate(vault, "nothing was unstaged", work)


def check_idle(vault: Vault, what: str, may_be_detached: bool = False) -> None:
    """Make sure that the user is not in the middle of something in git.

    Raises:
        PendingError: the user is; it names the command.
    """
    if obstacle := vault.history.obstacle(may_be_detached, PATIENCE):
        raise PendingError(f"not {what}: {obstacle}")


def check_head(vault: Vault, head: Head, what: str) -> None:
    """Make sure, as late as git lets us, that no other program has committed or switched.

    Raises:
        PendingError: one has.
    """
    if vault.history.head() != head:
        raise PendingError(f"not {what}: somebody has just used git here; try again")


def _create_branch(vault: Vault, name: str) -> Target:
    refs, head = vault.history.refs, vault.history.head()
    if not head.commit:
        raise NoteNotFoundError("nothing is committed yet; make a checkpoint first")
    if head.branch:
        check_clean(vault, "switched")
    else:
        check_idle(vault, "switched", may_be_detached=True)
    refs.create_branch(name, head.commit)
    try:
        check_head(vault, head, "switched")
        refs.checkout(name)
    except BaseException:
        if vault.history.head().branch != name:
            refs.delete_branch(name, head.commit)
        raise
    return refs.resolve(f"refs/heads/{name}")


def _switch(operation: Operation, vault: Vault, name: str) -> tuple[Target, int]:
    refs, head = vault.history.refs, vault.history.head()
    refs.branch_tip(name)
    target = refs.resolve(f"refs/heads/{name}")
    if head.branch == name:
        return target, 0
    if folder := find_checkout(vault.history.git_folder, f"refs/heads/{name}"):
        raise RefusedError(f"{name}: checked out in {folder}; work there, or switch it away")
    check_clean(vault, "switched", may_be_detached=True)
    if head.commit and not head.branch and not refs.is_kept(head.commit):
        raise RefusedError(
            f"not switched: no branch or tag has the commits that you are at ({head.commit[:7]}); "
            "`vaultmem branch NAME` keeps them"
        )
    count = _move_files(operation, vault, head, target.commit, "switched")
    if refs.branch_tip(name) != target.commit:
        raise PendingError(f"not switched: {name} has just got another commit; try again")
    refs.checkout(name)
    return target, count


def _move_files(operation: Operation, vault: Vault, head: Head, commit: str, what: str) -> int:
    """Bring files and git's index from HEAD to a commit; return how many files changed."""
    moves = find_moves(vault, head.commit, commit)
    move_tree(operation, vault, moves)
    follow_index(vault.history, moves)
    check_head(vault, head, what)
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
