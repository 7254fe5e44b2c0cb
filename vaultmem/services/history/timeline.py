"""Moments to look back to: a note's versions, or commits of the vault, evenly chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from vaultmem.core.delta.file_changes import ChangeOp
from vaultmem.services.history.commits import find_commit
from vaultmem.services.reading.read_notes import resolve_address
from vaultmem.storage.git.log import Commit, follow_path, read_commits
from vaultmem.vault import Vault

T = TypeVar("T")


def list_moments(vault: Vault, limit: int, path: str = "") -> list[Commit]:
    """Return at most `limit` commits, oldest first: those that changed a note, or the vault's.

    The first and the last are among them. Of a note only those are named at which it had its name
    of now; of the vault those along first parents, so that each is later than the one before.

    Raises:
        NoteNotFoundError: there is no such note.
    """
    start = find_commit(vault) or vault.history.head().commit
    if not start:
        return []
    if path:
        found = str(resolve_address(vault, path)[0])
        versions = [
            commit
            for commit, change in follow_path(vault.history, start, found)
            if change.path == found and change.op is not ChangeOp.REMOVE
        ]
        return choose_evenly(versions[::-1], limit)
    inside = ("--", vault.history.prefix) if vault.history.prefix else ("--",)
    listed = vault.history.git.run("rev-list", "--first-parent", "--reverse", start, *inside)
    chosen = choose_evenly(listed.split(), limit)
    commits = read_commits(vault.history, chosen)
    return [commits[name] for name in chosen]


def choose_evenly(values: Sequence[T], limit: int) -> list[T]:
    """Return at most `limit` (2 or more) of the values, the first and the last among them."""
    if len(values) <= limit:
        return list(values)
    step = (len(values) - 1) / (limit - 1)
    return [values[round(place * step)] for place in range(limit)]
