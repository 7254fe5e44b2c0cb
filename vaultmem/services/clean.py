"""Make sure that a branch can be left or merged into: nothing is uncommitted or half-way."""

from __future__ import annotations

from vaultmem.errors import PendingError
from vaultmem.services.pending import find_pending
from vaultmem.storage.checkout import has_staged
from vaultmem.vault import Vault


def check_clean(vault: Vault, what: str) -> None:
    """Make sure that nothing is uncommitted, so that a branch can be `what` (merged, left).

    Raises:
        PendingError: a person is in the middle of something in git, or something is not committed.
    """
    if obstacle := vault.history.obstacle():
        raise PendingError(f"not {what}: {obstacle}")
    changed = sorted(find_pending(vault).files)
    if changed:
        shown = ", ".join(changed[:3]) + (" ..." if len(changed) > 3 else "")
        raise PendingError(
            f"not {what}: {len(changed)} files are not committed ({shown}); "
            "run `vaultmem checkpoint NOTE` first"
        )
    if has_staged(vault.history):
        raise PendingError(f"not {what}: changes are staged; commit or unstage them with git")
