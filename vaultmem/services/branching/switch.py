"""Check out another branch: its files, the person's index, and HEAD."""

from __future__ import annotations

from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError
from vaultmem.services.branching.branches import check_clean, check_head, check_idle
from vaultmem.services.branching.tree_moves import find_moves, move_tree
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.storage.git.checkout import follow_index
from vaultmem.storage.git.refs import Target
from vaultmem.storage.git.repository import find_checkout
from vaultmem.vault import Vault


def switch_branch(vault: Vault, name: str, create: bool = False) -> tuple[Target, int]:
    """Check a local branch out; return it, and how many files changed.

    With `create` the branch is made first, at what is checked out; then no file changes, and from
    a commit that is on no branch what is not committed comes along.

    Raises:
        NoteNotFoundError: there is no such branch.
        PendingError: something is not committed yet.
        RefusedError: it is checked out elsewhere, or git itself is needed for the difference, or
            commits would be on no branch any more.
        ConflictError: a file that is in no commit stands in the way.
    """

    def work(operation: Operation) -> tuple[Target, int]:
        if create:
            return _create_branch(vault, name), 0
        return _switch(operation, vault, name)

    return operate(vault, "nothing was switched", work)


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
    history, refs = vault.history, vault.history.refs
    refs.branch_tip(name)
    target = refs.resolve(f"refs/heads/{name}")
    head = history.head()
    if head.branch == name:
        return target, 0
    if folder := find_checkout(history.git_folder, f"refs/heads/{name}"):
        raise RefusedError(f"{name}: checked out in {folder}; work there, or switch it away")
    check_clean(vault, "switched", may_be_detached=True)
    if head.commit and not head.branch and not refs.is_kept(head.commit):
        raise RefusedError(
            f"not switched: no branch or tag has the commits that you are at ({head.commit[:7]}); "
            "`vaultmem branch NAME` keeps them"
        )
    moves = find_moves(vault, head.commit, target.commit)
    move_tree(operation, vault, moves)
    follow_index(history, moves)
    check_head(vault, head, "switched")
    if refs.branch_tip(name) != target.commit:
        raise PendingError(f"not switched: {name} has just got another commit; try again")
    refs.checkout(name)
    return target, len(moves)
