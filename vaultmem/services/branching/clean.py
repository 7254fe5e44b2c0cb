"""Make sure that a branch can be left or merged into: nothing is uncommitted or half-way."""

from __future__ import annotations

from vaultmem.errors import PendingError
from vaultmem.services.committing.pending import find_pending
from vaultmem.storage.git.checkout import has_staged
from vaultmem.storage.git.head import find_obstacle
from vaultmem.vault import Vault


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
    if has_staged(vault.history):
        raise PendingError(f"not {what}: changes are staged; commit or unstage them with git")


def check_idle(vault: Vault, what: str, may_be_detached: bool = False) -> None:
    """Make sure that nobody is in the middle of something in git.

    Raises:
        PendingError: somebody is; it says in what.
    """
    if obstacle := find_obstacle(vault.history.git_folder, may_be_detached):
        raise PendingError(f"not {what}: {obstacle}")
