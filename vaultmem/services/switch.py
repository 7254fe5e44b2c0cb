"""Check out another branch: its files, the person's index, and HEAD."""

from __future__ import annotations

from vaultmem.errors import RefusedError
from vaultmem.services.clean import check_clean
from vaultmem.services.move import find_moves, finish_move, move_files, undo_move
from vaultmem.services.sync import sync_vault
from vaultmem.storage.checkout import follow_index
from vaultmem.storage.refs import Target
from vaultmem.storage.repository import find_checkout
from vaultmem.vault import Vault


def switch_branch(vault: Vault, name: str) -> tuple[Target, int]:
    """Check a local branch out; return it, and how many files changed.

    Raises:
        NoteNotFoundError: there is no such branch.
        PendingError: something is not committed yet.
        RefusedError: it is checked out elsewhere, or git itself is needed for the difference.
        ConflictError: a file that is in no commit stands in the way.
    """
    history = vault.history
    with vault.lock():
        history.refs.branch_tip(name)
        target = history.refs.resolve(f"refs/heads/{name}")
        head = history.head()
        if head.branch == name:
            return target, 0
        if folder := find_checkout(history.git_folder, f"refs/heads/{name}"):
            raise RefusedError(f"{name}: checked out in {folder}; work there, or switch it away")
        check_clean(vault, "switched")
        moves = find_moves(vault, head.commit, target.commit)
        blobs = sorted({after.blob for _, after in moves.values() if after is not None})
        data = [content for _, content in history.objects.read_all(blobs)]
        move_files(vault, moves, dict(zip(blobs, data, strict=True)))
        try:
            follow_index(history, moves)
            history.refs.checkout(name)
        except BaseException:
            undo_move(vault)
            raise
        history.person_index().drop_intent()
        finish_move(vault)
        sync_vault(vault)
    return target, len(moves)
