"""Journal of uncommitted writes: who wrote which bytes, and unfinished operations."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from vaultmem.core.notes.renames import count_lines, find_renamed
from vaultmem.storage.git.commit_draft import Moves, TreeEntry
from vaultmem.storage.git.person_index import StagedEntries
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


class AgentDraft(NamedTuple):
    """Bytes that an agent wrote to a path and no commit of ours has."""

    path: str
    author: Author
    blob: str
    data: bytes


class Owner(NamedTuple):
    """The author of bytes that no commit has, None for a person by hand.

    `draft` is what an agent had written before the person edited it, there or where it was then.
    """

    author: Author | None
    draft: AgentDraft | None = None


class Journal:
    """The state database's tables of writes and of candidates that no commit has yet."""

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

    def find_moved(self, blob: str) -> list[tuple[str, Author]]:
        """Return which agents wrote these bytes to paths where no file is now; the last first."""
        rows = self._state.query(
            "SELECT path, agent, session, tool FROM journal WHERE blob = ? AND blob <> '' "
            "AND agent <> '' AND path NOT IN (SELECT path FROM files) ORDER BY id DESC",
            (blob,),
        )
        return [(path, Author(*who)) for path, *who in rows]

    def find_drafts(self, path: str) -> list[AgentDraft]:
        """Return what agents wrote last to a path, newest first."""
        return self._read_drafts("AND path = ? ORDER BY id DESC", path)

    def find_lost(self) -> list[AgentDraft]:
        """Return what agents wrote last where no file is and they removed none, oldest first."""
        return self._read_drafts(
            "AND id IN (SELECT max(id) FROM journal GROUP BY path) "
            "AND path NOT IN (SELECT path FROM files) ORDER BY id"
        )

    def _read_drafts(self, which: str, *values: str) -> list[AgentDraft]:
        fields = "SELECT path, agent, session, tool, blob, data FROM journal"
        rows = self._state.query(f"{fields} WHERE data IS NOT NULL {which}", values)
        return [AgentDraft(path, Author(*who), blob, data) for path, *who, blob, data in rows]

    def find_written(self, beginning: str) -> list[str]:
        """Return the paths to which vaultmem wrote bytes whose blob id begins like this."""
        sql = "SELECT DISTINCT path FROM journal WHERE blob >= ? AND blob < ?"
        return [path for (path,) in self._state.query(sql, (beginning, f"{beginning}g"))]

    def has_writes(self, path: str) -> bool:
        """Tell whether vaultmem wrote to a path what no commit of ours has."""
        return bool(self._state.query("SELECT 1 FROM journal WHERE path = ? LIMIT 1", (path,)))

    def agents_paths(self) -> set[str]:
        """Return the paths to which agents wrote what no commit of ours has."""
        rows = self._state.query("SELECT DISTINCT path FROM journal WHERE agent <> ''")
        return {path for (path,) in rows}

    def clear(self, blobs: Mapping[str, str]) -> None:
        """Forget the writes to paths whose bytes (by blob id) are committed now, moved or not."""
        moved = {old for blob in blobs.values() for old, _ in self.find_moved(blob)}
        gone = ((path,) for path in {*blobs, *moved})
        self._state.execute_many("DELETE FROM journal WHERE path = ?", gone)

    def candidates(self) -> set[str]:
        """Return the notes that were seen as candidates while no commit had them."""
        return {path for (path,) in self._state.query("SELECT path FROM candidates")}

    def put_candidates(self, seen: Mapping[str, bool], uncommitted: Collection[str]) -> None:
        """Remember which notes were `seen` as candidates; of others the `uncommitted` stay."""
        known = self.candidates()
        now = {path for path in uncommitted if seen.get(path, path in known)}
        gone, new = ([(path,) for path in paths] for paths in (known - now, now - known))
        self._state.execute_many("DELETE FROM candidates WHERE path = ?", gone)
        self._state.execute_many("INSERT INTO candidates VALUES (?)", new)


class Owners:
    """Answers who wrote bytes that no commit has. A draft that was moved counts for one path.

    `find_head` returns the blob id that HEAD has of a path, "" for none; a draft of that blob is
    committed. Other drafts count if `is_allowed` says so.
    """

    def __init__(
        self,
        journal: Journal,
        find_head: Callable[[str], str] = lambda _: "",
        is_allowed: Callable[[AgentDraft], bool] = lambda _: True,
    ) -> None:
        self._journal = journal
        self._find_head = find_head
        self._is_allowed = is_allowed
        self._lost: dict[str, tuple[AgentDraft, Counter[str]]] | None = None

    def find(self, path: str, blob: str, read: Callable[[], bytes]) -> Owner:
        """Return the owner of what a path has; `read` returns its bytes, if they are needed."""
        author = self.find_author(path, blob)
        is_by_hand = author is None and blob != REMOVED
        return Owner(author, self._find_draft(path, read) if is_by_hand else None)

    def find_author(self, path: str, blob: str) -> Author | None:
        """Return who wrote bytes with vaultmem, None for a person by hand.

        It is their agent, too, where somebody moved the file before a commit had it.
        """
        if written := self._journal.find_author(path, blob):
            return written
        moved = (who for old, who in self._journal.find_moved(blob) if not self._find_head(old))
        return next(moved, None)

    def _find_draft(self, path: str, read: Callable[[], bytes]) -> AgentDraft | None:
        """Return the draft that a person edited: of the last ones the most alike."""
        if drafts := list(filter(self._counts, self._journal.find_drafts(path))):
            lines = Counter(read().split(b"\n"))
            return min(drafts, key=lambda each: _count_missing(each.data, lines))
        if self._lost is None:
            lost = filter(self._counts, self._journal.find_lost())
            self._lost = {each.path: (each, count_lines(each.data)) for each in lost}
        if not self._lost or self._find_head(path):
            return None
        texts = {old: lines for old, (_, lines) in self._lost.items()}
        old = find_renamed(texts, count_lines(read()))
        return self._lost.pop(old)[0] if old else None

    def _counts(self, draft: AgentDraft) -> bool:
        return self._find_head(draft.path) != draft.blob and self._is_allowed(draft)


def _count_missing(data: bytes, lines: Counter[bytes]) -> int:
    """Return how many lines of these bytes are not among the others."""
    return (Counter(data.split(b"\n")) - lines).total()


# The operation that is under way in a vault, as rows of the state database.
#
# A row is written before the first file is touched and goes when files, index and branch are as
# they should be. So a row that the next process finds is what a crash interrupted.


class FileChanges(NamedTuple):
    """The files that an operation changes, and how to undo that.

    `head` is the commit that was checked out when it began; with `is_committed` it is over only
    when a later one has what it wrote. `contents` are bytes by blob id that git may not have.
    `earlier` are blobs that one file after the other had on the way to its last one.
    """

    head: str
    is_committed: bool
    moves: Moves
    contents: Mapping[str, bytes]
    earlier: Mapping[str, tuple[str, ...]] = {}


class Operations(StagedEntries):
    """The table of operations: one that is under way, and events whose commit has to wait."""

    def __init__(self, state: StateDatabase) -> None:
        super().__init__()
        self._state = state

    def is_open(self) -> bool:
        """Tell whether an operation is under way, or was interrupted."""
        return bool(self._state.query("SELECT 1 FROM operations WHERE event = ''"))

    def read_files(self) -> FileChanges | None:
        """Return the files that the operation under way changes, None if it changes none."""
        text = self._read("files")
        return _decode_files(text) if text else None

    def write_files(self, files: FileChanges) -> None:
        """Write down, durably, which files are changed next."""
        self._write("files", _encode_files(files))

    def drop_files(self) -> None:
        """Remove the files of the operation under way, and keep what was staged."""
        self._state.execute("UPDATE operations SET files = '' WHERE event = ''")

    def read_staged(self) -> dict[str, list[str]]:
        """Return what was put into git's index and may not be in HEAD yet; "" is a removal."""
        return dict(json.loads(self._read("staged") or "{}"))

    def write_staged(self, entries: Mapping[str, list[str]]) -> None:
        """Write down, durably, what is put into git's index next."""
        if entries or self.is_open():
            self._write("staged", json.dumps(dict(entries)))

    def close(self) -> None:
        """Remove the operation under way: all of it has come about, or was undone."""
        self._state.execute("DELETE FROM operations WHERE event = ''")

    def add_waiting(self, event: Mapping[str, Any]) -> None:
        """Keep an event whose files are written and whose commit has to wait."""
        self._state.execute("INSERT INTO operations (event) VALUES (?)", (json.dumps(event),))

    def list_waiting(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the waiting events with their numbers, oldest first."""
        rows = self._state.query("SELECT id, event FROM operations WHERE event <> '' ORDER BY id")
        return [(int(number), json.loads(event)) for number, event in rows]

    def drop_waiting(self, number: int) -> None:
        """Remove a waiting event: its commit was made."""
        self._state.execute("DELETE FROM operations WHERE id = ?", (number,))

    def _read(self, column: str) -> str:
        rows = self._state.query(f"SELECT {column} FROM operations WHERE event = ''")
        return str(rows[0][0]) if rows else ""

    def _write(self, column: str, text: str) -> None:
        with self._state.transaction():
            if not self.is_open():
                self._state.execute("INSERT INTO operations (event) VALUES ('')")
            self._state.execute(f"UPDATE operations SET {column} = ? WHERE event = ''", (text,))


def _encode_files(files: FileChanges) -> str:
    rows = {path: [e and (e.mode, e.blob) for e in move] for path, move in files.moves.items()}
    texts = {blob: base64.b64encode(data).decode() for blob, data in files.contents.items()}
    return json.dumps({**files._asdict(), "moves": rows, "contents": texts})


def _decode_files(text: str) -> FileChanges:
    read = json.loads(text)
    moves = {path: (_as_entry(old), _as_entry(new)) for path, (old, new) in read["moves"].items()}
    contents = {blob: base64.b64decode(data) for blob, data in read["contents"].items()}
    earlier = {path: tuple(blobs) for path, blobs in read["earlier"].items()}
    return FileChanges(read["head"], read["is_committed"], moves, contents, earlier)


def _as_entry(pair: list[str] | None) -> TreeEntry | None:
    return None if pair is None else TreeEntry(*pair)
