"""Whether the state database is whole."""

from __future__ import annotations

from vaultmem.storage.state import State


def find_damage(state: State) -> str:
    """Return what SQLite itself finds wrong with the database, empty if nothing.

    Raises:
        VaultError: it is damaged so much that it was set aside.
    """
    told = str(state.query("PRAGMA quick_check(1)")[0][0])
    return "" if told == "ok" else f"the database is damaged ({told})"
