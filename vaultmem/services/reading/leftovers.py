"""Remove what killed processes left: files beside notes and in the state folder, locks of git's."""

from __future__ import annotations

import contextlib
from pathlib import Path

from vaultmem.core.paths import TRANSCRIPTS
from vaultmem.errors import VaultError
from vaultmem.storage.asides import clear_leftover, find_leftovers
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.git.locks import Place, has_records, remove_left_locks
from vaultmem.storage.lock import hold_lock
from vaultmem.storage.scan import Scan
from vaultmem.vault import Vault


def clear_leftovers(vault: Vault, scan: Scan) -> bool:
    """Remove what interrupted writes left; tell whether a text of somebody's came to light.

    While somebody else writes to the vault, that is for a later command.
    """
    for file in find_leftovers(vault.state_folder):
        clear_leftover(file, is_held=False)
    if has_records(vault.state_folder) and (found := find_git_folder(vault.root)):
        with contextlib.suppress(VaultError):
            remove_left_locks(Place(*found, vault.state_folder))
    unread = find_leftovers(vault.root / TRANSCRIPTS)  # No scan looks into that folder.
    left = [*(vault.root / path for path in scan.leftovers), *unread]
    if not left:
        return False
    kept: list[Path | None] = []
    with contextlib.suppress(VaultError, OSError), hold_lock(vault.state_folder / "lock", 0.0):
        kept = [clear_leftover(file) for file in left]
    return any(kept)
