"""What comes into a branch from elsewhere: whether it may, and a branch that only has to follow."""

from __future__ import annotations

from collections.abc import Mapping

from vaultmem.errors import PendingError, RefusedError
from vaultmem.services.branching.branches import check_clean
from vaultmem.services.branching.tree_moves import find_moves, move_tree
from vaultmem.services.reading.look import find_branch
from vaultmem.services.writing.leaks import find_leaks_since
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.storage.git.commit_draft import File
from vaultmem.storage.git.trees import diff_commits
from vaultmem.vault import Vault


def refuse_leaks(vault: Vault, ours: str, tree: str, files: Mapping[str, File]) -> None:
    """Take no note in that looks like a credential: not merged by us, not as theirs has it.

    `tree`, or commit, is what comes in, but for `files`, which are as given.
    """
    changes = diff_commits(vault.history, ours, tree)
    incoming = [c for c in changes if c.blob and c.is_regular and c.path not in files]
    read = vault.history.objects.read_all(change.blob for change in incoming)
    found = dict(files)
    found |= {c.path: (c.mode, data) for c, (_, data) in zip(incoming, read, strict=True)}
    leaks = find_leaks_since(vault, found, ours)
    if leaks:
        places = "; ".join(place for each in leaks.values() for place in each[:3])
        raise RefusedError(
            f"not merged, this looks like a credential: {places}; remove it there first"
        )


def follow_commit(vault: Vault, commit: str) -> tuple[str, ...]:
    """Move the vault's branch on to a commit that has all of it; return the paths that changed.

    Raises:
        RefusedError, PendingError, ConflictError: as for `merge_branch`; nothing was changed.
    """

    def work(operation: Operation) -> tuple[str, ...]:
        elsewhere = find_branch(vault)
        if not elsewhere:
            check_clean(vault, "merged")
        branch = elsewhere or vault.history.head().branch
        ours = vault.history.refs.branch_tip(branch)
        if not vault.history.refs.is_ancestor(ours, commit):
            raise PendingError("not merged: other commits have come in; try again")
        refuse_leaks(vault, ours, commit, {})
        moves = find_moves(vault, ours, commit)
        if elsewhere:
            vault.history.follow(ours, commit, f"refs/heads/{elsewhere}")
        else:
            move_tree(operation, vault, moves)
            vault.history.follow(ours, commit)
        return tuple(sorted(moves))

    return operate(vault, "nothing was changed", work)
