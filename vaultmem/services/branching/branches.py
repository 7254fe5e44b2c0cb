"""Branches: list, make and remove them; and whether one can be left or merged into."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.core.safe_text import name_some
from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.services.writing.ownership import find_pending
from vaultmem.storage.git.checkout import list_staged, unstage
from vaultmem.storage.git.head import Head
from vaultmem.storage.git.locks import PATIENCE
from vaultmem.storage.git.refs import Branch, Target
from vaultmem.storage.git.repository import find_checkout
from vaultmem.vault import Vault


class ListedBranch(NamedTuple):
    """A branch; `ahead` and `behind` count the commits that only it, or only HEAD, has."""

    branch: Branch
    is_current: bool
    ahead: int
    behind: int


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
    vault.history.settle_index()  # What an interrupted commit left there is nobody's work.
    if staged := list_staged(vault.history):
        raise PendingError(
            f"not {what}: changes are staged ({name_some(staged)}); `git reset` unstages them and "
            "changes no file"
        )


def unstage_committed(vault: Vault) -> None:
    """Let git's index follow where HEAD has a file as it is on disk, and other bytes are staged."""
    history = vault.history
    with vault.lock():
        staged = [x for x in list_staged(history, removed=False) if x.startswith(history.prefix)]
        if not staged or history.obstacle(patience=PATIENCE):
            return
        pending = find_pending(vault)
        left = {f"{history.prefix}{path}" for path in (*pending.files, *pending.skipped)}
        unstage(history, [path for path in staged if path not in left])


def check_idle(vault: Vault, what: str, may_be_detached: bool = False) -> None:
    """Make sure that nobody is in the middle of something in git.

    Raises:
        PendingError: somebody is; it says in what.
    """
    if obstacle := vault.history.obstacle(may_be_detached, PATIENCE):
        raise PendingError(f"not {what}: {obstacle}")


def check_head(vault: Vault, head: Head, what: str) -> None:
    """Make sure, as late as git lets us, that nobody has committed or switched meanwhile.

    Raises:
        PendingError: somebody has.
    """
    if vault.history.head() != head:
        raise PendingError(f"not {what}: somebody has just used git here; try again")
