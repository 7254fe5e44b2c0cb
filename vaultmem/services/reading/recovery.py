"""Undo what an interrupted transaction left in files and in the person's index.

It is over when its intent is dropped; one that a commit belongs to is over with that commit. So
a crash anywhere before leaves nothing of it, and one behind leaves all of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from vaultmem.errors import PendingError
from vaultmem.storage.asides import clear_leftover, find_leftovers
from vaultmem.storage.git.commit_draft import REGULAR, TreeEntry
from vaultmem.storage.git.intent import Intent, Moves, drop_intent, has_intent, read_intent
from vaultmem.storage.work_tree import order_moves, put_back
from vaultmem.vault import Vault

#: State folders whose transaction is under way in this process, by the thread with the lock.
_under_way: set[str] = set()


def is_interrupted(vault: Vault) -> bool:
    """Tell whether a transaction is under way or was interrupted; a look at one file."""
    return has_intent(vault.state_folder)


def is_under_way(vault: Vault) -> bool:
    """Tell whether the caller, who has the lock, is inside of a transaction itself."""
    return str(vault.state_folder) in _under_way


def mark_under_way(vault: Vault, is_it: bool) -> None:
    """Say that the transaction of this vault begins here, or is over."""
    (_under_way.add if is_it else _under_way.discard)(str(vault.state_folder))


def recover(vault: Vault) -> None:
    """Undo the transaction that an earlier process left unfinished, if there is one.

    A file that somebody changed since is left as it is, and so is one that HEAD has as it was
    written or as somebody else committed it.
    """
    if not is_interrupted(vault):
        return
    with vault.lock():
        if is_under_way(vault) or (intent := read_intent(vault.state_folder)) is None:
            return
        moves = _find_undone(vault, intent)
        undo_moves(vault, moves, intent.contents, intent.earlier)
        _clear_leftovers(vault, intent)
        if vault.head() is not None:
            with contextlib.suppress(PendingError):  # The next commit or clean index sees to it.
                vault.history.settle_index()
        drop_intent(vault.state_folder)


def undo_moves(
    vault: Vault,
    moves: Moves,
    contents: Mapping[str, bytes],
    earlier: Mapping[str, tuple[str, ...]] | None = None,
) -> None:
    """Bring each file back that has come to what it was to be, and that nobody changed since.

    `contents` are bytes by blob id that git may not have. Bytes that nobody has any more were those
    of no file when it was to be changed, so that it was not.
    """
    wanted = {before.blob for before, _ in moves.values() if before is not None}
    whole = {**_read_held(vault, wanted - contents.keys()), **contents}
    back = {
        path: (after, before)
        for path, (before, after) in moves.items()
        if before is None or before.blob in whole
    }
    for path, (after, before), _ in order_moves(back):
        was = (earlier or {}).get(path, ())
        put_back(vault.root, PurePosixPath(path), (before, after), was, whole)


def read_blobs(vault: Vault, blobs: Iterable[str]) -> dict[str, bytes]:
    """Return what git has under these blob ids."""
    names = sorted(blobs)
    if not names:
        return {}
    found = vault.history.objects.read_all(names)
    return {blob: data for blob, (_, data) in zip(names, found, strict=True)}


def _find_undone(vault: Vault, intent: Intent) -> Moves:
    """Return the moves that no commit has: all of them, unless HEAD has moved meanwhile."""
    head = vault.head() if intent.is_committed else None
    if head is None or head.commit == intent.head:
        return intent.moves
    now = vault.history.tree(head.commit)
    return {
        path: (before, after)
        for path, (before, after) in intent.moves.items()
        if not _is_same(now.get(path), after)
        or (after is None and before is not None and before.blob in intent.contents)
    }


def _is_same(held: TreeEntry | None, wanted: TreeEntry | None) -> bool:
    """Tell whether a commit has a file as it was to be; only git's own modes are compared."""
    if held is None or wanted is None:
        return held is wanted
    return held.blob == wanted.blob and (wanted.mode not in REGULAR or held.mode == wanted.mode)


def _clear_leftovers(vault: Vault, intent: Intent) -> None:
    """Remove what an interrupted write left beside the files, in hidden folders too."""
    for folder in {PurePosixPath(path).parent for path in intent.moves}:
        for file in find_leftovers(vault.root / folder):
            clear_leftover(file)


def _read_held(vault: Vault, blobs: set[str]) -> dict[str, bytes]:
    """Return the bytes by blob id of those that git has."""
    if not blobs or vault.head() is None:
        return {}
    from vaultmem.storage.git.checkout import find_sizes

    return read_blobs(vault, [blob for blob, _ in find_sizes(vault.history, sorted(blobs))])
