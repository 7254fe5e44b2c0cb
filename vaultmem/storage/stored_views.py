"""The views of commits that were looked at: stored once, for they never change.

They are a cache: the ones not used for longest go, and with them the documents that no other view
has.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from vaultmem.core.lifecycle import State
from vaultmem.errors import BusyError
from vaultmem.storage.state import StateDatabase

#: Rows that stored views may take together; one view is kept however large it is.
MAX_ROWS = 1_000_000

_NOTHING: Mapping[int, str] = MappingProxyType({})


class ViewStore:
    """The state database's tables of stored views."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def find(self, key: str) -> int | None:
        """Return the number of a stored view, which counts as used now."""
        rows = self._state.query("SELECT id FROM views WHERE key = ?", (key,))
        if not rows:
            return None
        with contextlib.suppress(BusyError):
            used = (time.time(), rows[0][0])
            self._state.execute("UPDATE views SET used = ? WHERE id = ?", used)
        return int(rows[0][0])

    def put(
        self, key: str, documents: Mapping[int, int], problems: Mapping[int, str] = _NOTHING
    ) -> int:
        """Store a view: document numbers, and since when (seconds) each has these bytes.

        `problems` say of which documents the notes cannot be taken at their word, and why.
        """
        number = self._state.execute(
            "INSERT INTO views (key, size, used) VALUES (?, ?, ?)",
            (key, len(documents), time.time()),
        )
        rows = (
            (number, document, changed, problems.get(document, ""))
            for document, changed in sorted(documents.items())
        )
        self._state.execute_many("INSERT INTO view_documents VALUES (?, ?, ?, ?)", rows)
        self._evict(number)
        return number

    def numbers(self, suffix: str) -> dict[str, int]:
        """Return the numbers of all stored views whose key ends so, by key."""
        rows = self._state.query("SELECT key, id FROM views")
        return {key: number for key, number in rows if key.endswith(suffix)}

    def dates(self, number: int) -> dict[int, int]:
        """Return a stored view's documents, and since when each has its bytes."""
        sql = "SELECT document, changed FROM view_documents WHERE view = ?"
        return dict(self._state.query(sql, (number,)))

    def documents(self) -> dict[tuple[str, str], int]:
        """Return the number of every document that is known, by path and blob.

        Those that cannot be read are left out: what counts instead is another matter in each view.
        """
        sql = f"SELECT path, blob, id FROM documents WHERE state <> '{State.UNREADABLE.value}'"
        return {(path, blob): number for path, blob, number in self._state.query(sql)}

    def clear(self) -> None:
        """Forget all stored views; their documents stay until they are collected."""
        self._state.execute("DELETE FROM view_documents")
        self._state.execute("DELETE FROM views")

    def _evict(self, newest: int) -> None:
        total = 0
        for number, size in self._state.query("SELECT id, size FROM views ORDER BY used DESC"):
            total += size
            if total > MAX_ROWS and number != newest:
                self._drop(number)

    def _drop(self, number: int) -> None:
        held = self._state.query("SELECT document FROM view_documents WHERE view = ?", (number,))
        self._state.execute("DELETE FROM view_documents WHERE view = ?", (number,))
        self._state.execute("DELETE FROM views WHERE id = ?", (number,))
        drop_unused(self._state, (row[0] for row in held))


def drop_unused(state: StateDatabase, documents: Iterable[int]) -> None:
    """Forget those of the documents that neither the work tree nor a stored view has."""
    rows = [(document,) for document in documents]
    state.execute_many(
        "DELETE FROM documents WHERE id = ?1 "
        "AND NOT EXISTS (SELECT 1 FROM files WHERE document = ?1) "
        "AND NOT EXISTS (SELECT 1 FROM view_documents WHERE document = ?1)",
        rows,
    )
