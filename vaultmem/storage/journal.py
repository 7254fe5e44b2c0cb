"""The write journal: who wrote bytes that are in no commit yet, and which notes are candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from vaultmem.core.delta.renames import count_lines, find_renamed
from vaultmem.storage.state import StateDatabase

#: Of how many of the last writes to a path the bytes are kept: the last may not have come about.
_KEPT = 2

#: Stands for "the file was removed" where a blob id stands otherwise.
REMOVED = ""


class Author(NamedTuple):
    """Who is writing: an agent ("" for the person), and if known its session and call."""

    agent: str
    session: str = ""
    tool_call: str = ""


class Draft(NamedTuple):
    """Bytes that an agent wrote to a path and no commit of ours has."""

    author: Author
    blob: str
    data: bytes


class LostDraft(NamedTuple):
    """What an agent wrote last to a path where no file is now, and did not remove itself."""

    path: str
    draft: Draft


def choose_draft(drafts: Sequence[Draft], data: bytes) -> Draft | None:
    """Return the one that is most alike; the last write may not have come about."""
    lines = Counter(data.split(b"\n"))
    return min(
        drafts, key=lambda each: (Counter(each.data.split(b"\n")) - lines).total(), default=None
    )


def choose_lost(drafts: Sequence[LostDraft], added: Mapping[str, bytes]) -> dict[str, LostDraft]:
    """Return which new files (by path) are what an agent had written elsewhere, moved by hand.

    Each draft is that of one file at most.
    """
    left = {each.path: each for each in reversed(drafts)}
    lines = {path: count_lines(each.draft.data) for path, each in left.items()}
    found: dict[str, LostDraft] = {}
    for path, data in sorted(added.items()) if left else ():
        if old := find_renamed({each: lines[each] for each in left}, count_lines(data)):
            found[path] = left.pop(old)
    return found


class Journal:
    """The state database's table of writes that no commit has yet."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def record(self, path: str, blob: str, author: Author, at: float, data: bytes | None) -> None:
        """Say, before it is done, that `author` writes these bytes (None: removes it); durable.

        An agent's bytes are kept: what a person changes of them can be told apart then.
        """
        self._state.execute(
            "INSERT INTO journal (path, blob, agent, session, tool, at, data) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (path, blob, *author, at, data if author.agent else None),
        )
        self._state.execute(
            "UPDATE journal SET data = NULL WHERE path = ? AND data IS NOT NULL AND id NOT IN "
            "(SELECT id FROM journal WHERE path = ? ORDER BY id DESC LIMIT ?)",
            (path, path, _KEPT),
        )

    def find_author(self, path: str, blob: str) -> Author | None:
        """Return who wrote these very bytes, None if vaultmem did not."""
        rows = self._state.query(
            "SELECT agent, session, tool FROM journal WHERE path = ? AND blob = ? "
            "ORDER BY id DESC LIMIT 1",
            (path, blob),
        )
        return Author(*rows[0]) if rows else None

    def has_writes(self, path: str) -> bool:
        """Tell whether vaultmem wrote to a path what no commit of ours has."""
        return bool(self._state.query("SELECT 1 FROM journal WHERE path = ? LIMIT 1", (path,)))

    def find_drafts(self, path: str) -> list[Draft]:
        """Return what agents wrote last to a path, newest first."""
        rows = self._state.query(
            "SELECT agent, session, tool, blob, data FROM journal "
            "WHERE path = ? AND data IS NOT NULL ORDER BY id DESC",
            (path,),
        )
        return [Draft(Author(*who), blob, data) for *who, blob, data in rows]

    def find_lost(self) -> list[LostDraft]:
        """Return what agents wrote last to paths where no file is, which they did not remove."""
        rows = self._state.query(
            "SELECT path, agent, session, tool, blob, data FROM journal WHERE data IS NOT NULL "
            "AND id IN (SELECT max(id) FROM journal GROUP BY path) "
            "AND path NOT IN (SELECT path FROM files) ORDER BY id DESC"
        )
        return [LostDraft(path, Draft(Author(*who), blob, data)) for path, *who, blob, data in rows]

    def find_written(self, beginning: str) -> list[str]:
        """Return the paths to which vaultmem wrote bytes whose blob id begins like this."""
        sql = "SELECT DISTINCT path FROM journal WHERE blob >= ? AND blob < ?"
        return [path for (path,) in self._state.query(sql, (beginning, f"{beginning}g"))]

    def find_moved(self, blob: str) -> list[tuple[str, Author]]:
        """Return which agents wrote these bytes to paths where no file is now; the last first."""
        rows = self._state.query(
            "SELECT path, agent, session, tool FROM journal WHERE blob = ? AND blob <> '' "
            "AND agent <> '' AND path NOT IN (SELECT path FROM files) ORDER BY id DESC",
            (blob,),
        )
        return [(path, Author(*who)) for path, *who in rows]

    def agents_paths(self) -> set[str]:
        """Return the paths to which agents wrote what no commit of ours has."""
        rows = self._state.query("SELECT DISTINCT path FROM journal WHERE agent <> ''")
        return {path for (path,) in rows}

    def clear(self, blobs: Mapping[str, str]) -> None:
        """Forget the writes to paths whose bytes (by blob id) are committed now, moved or not."""
        moved = {old for blob in blobs.values() for old, _ in self.find_moved(blob)}
        gone = ((path,) for path in {*blobs, *moved})
        self._state.execute_many("DELETE FROM journal WHERE path = ?", gone)


class Candidates:
    """The state database's table of notes that were seen as candidates while no commit had them."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def put(self, path: str, is_candidate: bool) -> None:
        """Remember what a note was seen as."""
        sql = "INSERT OR IGNORE INTO candidates VALUES (?)"
        self._state.execute(
            sql if is_candidate else "DELETE FROM candidates WHERE path = ?", (path,)
        )

    def find(self, path: str) -> bool:
        """Tell whether a note was seen as a candidate."""
        return bool(self._state.query("SELECT 1 FROM candidates WHERE path = ?", (path,)))

    def all(self) -> set[str]:
        """Return the notes that were seen as candidates."""
        return {row[0] for row in self._state.query("SELECT path FROM candidates")}

    def keep(self, paths: Iterable[str]) -> None:
        """Forget all but these."""
        gone = ((path,) for path in self.all() - set(paths))
        self._state.execute_many("DELETE FROM candidates WHERE path = ?", gone)
