"""Notes that no commit has and that were seen as candidates or as open sessions.

Of a note that a commit has, the commit says what it was.
"""

from __future__ import annotations

from collections.abc import Iterable

from vaultmem.storage.state import State


class Unfinished:
    """The state database's table of such notes, by path."""

    def __init__(self, state: State) -> None:
        self._state = state

    def put(self, path: str, candidate: bool, is_open: bool) -> None:
        """Remember what a note was seen as."""
        values = (path, candidate, is_open)
        self._state.execute("INSERT OR REPLACE INTO unfinished VALUES (?, ?, ?)", values)

    def find(self, path: str) -> tuple[bool, bool]:
        """Tell whether a note was seen as a candidate, and whether as an open session."""
        sql = "SELECT candidate, open FROM unfinished WHERE path = ?"
        rows = self._state.query(sql, (path,))
        return (bool(rows[0][0]), bool(rows[0][1])) if rows else (False, False)

    def keep(self, paths: Iterable[str]) -> None:
        """Forget all but these."""
        known = {row[0] for row in self._state.query("SELECT path FROM unfinished")}
        gone = ((path,) for path in known - set(paths))
        self._state.execute_many("DELETE FROM unfinished WHERE path = ?", gone)
