"""The write journal (authors of uncommitted bytes), and unfinished operations."""

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

#: The last writes to a path whose bytes are stored; the latest one might not have happened.
_MAX_STORED_WRITES = 2

#: The blob id of a removed file.
REMOVED = ""


class Author(NamedTuple):
    """The author of a write: an agent ("" for the owner), and its session and tool call."""

    agent: str
    session: str = ""
    tool_call: str = ""


class AgentDraft(NamedTuple):
    """Bytes that an agent wrote to a path and that vaultmem has not committed."""

    path: str
    author: Author
    blob: str
    data: bytes


class Owner(NamedTuple):
    """The author of uncommitted bytes, None for an edit without vaultmem.

    `draft` is the agent's version before this edit, at the same path or the file's earlier one.
    """

    author: Author | None
    draft: AgentDraft | None = None


class Journal:
    """The state database's tables of uncommitted writes and candidates."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def record(self, path: str, blob: str, author: Author, at: float, data: bytes | None) -> None:
        """Record, before the write, that `author` writes these bytes (None: removes the file).

        An agent's bytes are stored to detect later edits. `at` is in seconds since the epoch.
        """
        self._state.execute(
            "INSERT INTO journal (path, blob, agent, session, tool, at, data) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (path, blob, *author, at, data if author.agent else None),
        )
        self._state.execute(
            "UPDATE journal SET data = NULL WHERE path = ? AND data IS NOT NULL AND id NOT IN "
            "(SELECT id FROM journal WHERE path = ? ORDER BY id DESC LIMIT ?)",
            (path, path, _MAX_STORED_WRITES),
        )

    def find_author(self, path: str, blob: str) -> Author | None:
        """Return the author of these bytes at a path, None if vaultmem did not write them."""
        rows = self._state.query(
            "SELECT agent, session, tool FROM journal WHERE path = ? AND blob = ? "
            "ORDER BY id DESC LIMIT 1",
            (path, blob),
        )
        return Author(*rows[0]) if rows else None

    def find_moved(self, blob: str) -> list[tuple[str, Author]]:
        """Return path and agent of writes of these bytes to paths without a file, newest first."""
        rows = self._state.query(
            "SELECT path, agent, session, tool FROM journal WHERE blob = ? AND blob <> '' "
            "AND agent <> '' AND path NOT IN (SELECT path FROM files) ORDER BY id DESC",
            (blob,),
        )
        return [(path, Author(*author_fields)) for path, *author_fields in rows]

    def find_drafts(self, path: str) -> list[AgentDraft]:
        """Return the last drafts of agents at a path, newest first."""
        return self._read_drafts("AND path = ? ORDER BY id DESC", path)

    def find_lost(self) -> list[AgentDraft]:
        """Return the last drafts of agents at paths without a file, oldest first.

        A path that vaultmem itself removed last has none.
        """
        return self._read_drafts(
            "AND id IN (SELECT max(id) FROM journal GROUP BY path) "
            "AND path NOT IN (SELECT path FROM files) ORDER BY id"
        )

    def _read_drafts(self, condition: str, *values: str) -> list[AgentDraft]:
        fields = "SELECT path, agent, session, tool, blob, data FROM journal"
        rows = self._state.query(f"{fields} WHERE data IS NOT NULL {condition}", values)
        return [
            AgentDraft(path, Author(*author_fields), blob, data)
            for path, *author_fields, blob, data in rows
        ]

    def find_written(self, beginning: str) -> list[str]:
        """Return the paths to which vaultmem wrote a blob whose id starts with `beginning`."""
        sql = "SELECT DISTINCT path FROM journal WHERE blob >= ? AND blob < ?"
        return [path for (path,) in self._state.query(sql, (beginning, f"{beginning}g"))]

    def has_writes(self, path: str) -> bool:
        """Return whether vaultmem has uncommitted writes to a path."""
        return bool(self._state.query("SELECT 1 FROM journal WHERE path = ? LIMIT 1", (path,)))

    def agents_paths(self) -> set[str]:
        """Return the paths with uncommitted writes of agents."""
        rows = self._state.query("SELECT DISTINCT path FROM journal WHERE agent <> ''")
        return {path for (path,) in rows}

    def clear(self, blobs: Mapping[str, str]) -> None:
        """Delete the writes to paths that are now committed (with their blob ids), moved or not."""
        old_paths = {old for blob in blobs.values() for old, _ in self.find_moved(blob)}
        rows = ((path,) for path in {*blobs, *old_paths})
        self._state.execute_many("DELETE FROM journal WHERE path = ?", rows)

    def candidates(self) -> set[str]:
        """Return the paths of uncommitted notes that were candidates."""
        return {path for (path,) in self._state.query("SELECT path FROM candidates")}

    def put_candidates(self, flags: Mapping[str, bool], uncommitted: Collection[str]) -> None:
        """Store which `uncommitted` notes are candidates.

        `flags` is whether a note is a candidate, by path; other notes stay as stored.
        """
        stored_paths = self.candidates()
        candidates = {path for path in uncommitted if flags.get(path, path in stored_paths)}
        removed_rows, new_rows = (
            [(path,) for path in paths]
            for paths in (stored_paths - candidates, candidates - stored_paths)
        )
        self._state.execute_many("DELETE FROM candidates WHERE path = ?", removed_rows)
        self._state.execute_many("INSERT INTO candidates VALUES (?)", new_rows)


class Owners:
    """A finder of the authors of uncommitted bytes; a moved draft is used for one path only.

    `find_head` returns the blob id of a path in HEAD, "" for none; a draft with it is committed.
    Other drafts are used if `is_allowed` is true.
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
        """Return the owner of a path's bytes; `read` returns the bytes and is called if needed."""
        author = self.find_author(path, blob)
        is_by_hand = author is None and blob != REMOVED
        return Owner(author, self._find_draft(path, read) if is_by_hand else None)

    def find_author(self, path: str, blob: str) -> Author | None:
        """Return the author of bytes at a path, None for an edit without vaultmem.

        For a file moved before its first commit, it is the agent that wrote it.
        """
        if writer := self._journal.find_author(path, blob):
            return writer
        authors = (
            author for old, author in self._journal.find_moved(blob) if not self._find_head(old)
        )
        return next(authors, None)

    def _find_draft(self, path: str, read: Callable[[], bytes]) -> AgentDraft | None:
        """Return the draft that was edited by hand: the most similar of the last ones."""
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
    """Return the number of lines of `data` that are not in `lines`."""
    return (Counter(data.split(b"\n")) - lines).total()


# The running operation of a vault, as rows of the state database.
#
# A row is written before the first file changes, and deleted when files, index and branch are
# complete. So a row that the next process finds is from an interrupted operation.


class FileChanges(NamedTuple):
    """The files that an operation changes, and the data to undo that.

    `head` is the commit checked out at its start. With `is_committed`, it ends only when a later
    commit has its changes. `contents` are bytes by blob id that git might not have. `earlier` are,
    by path, the blobs that a file had before its last one.
    """

    head: str
    is_committed: bool
    moves: Moves
    contents: Mapping[str, bytes]
    earlier: Mapping[str, tuple[str, ...]] = {}


class Operations(StagedEntries):
    """The table of operations: the running one, and events that wait for their commit."""

    def __init__(self, state: StateDatabase) -> None:
        super().__init__()
        self._state = state

    def is_open(self) -> bool:
        """Return whether an operation is running or was interrupted."""
        return bool(self._state.query("SELECT 1 FROM operations WHERE event = ''"))

    def read_files(self) -> FileChanges | None:
        """Return the files that the running operation changes, None if it changes none."""
        text = self._read("files")
        return _decode_files(text) if text else None

    def write_files(self, files: FileChanges) -> None:
        """Store, durably, the files that are changed next."""
        self._write("files", _encode_files(files))

    def drop_files(self) -> None:
        """Delete the files of the running operation, but not its staged entries."""
        self._state.execute("UPDATE operations SET files = '' WHERE event = ''")

    def read_staged(self) -> dict[str, list[str]]:
        """Return the staged entries that might not be in HEAD yet; "" is a removal."""
        return dict(json.loads(self._read("staged") or "{}"))

    def write_staged(self, entries: Mapping[str, list[str]]) -> None:
        """Store, durably, the entries that are staged next."""
        if entries or self.is_open():
            self._write("staged", json.dumps(dict(entries)))

    def close(self) -> None:
        """Delete the running operation after its end or undo."""
        self._state.execute("DELETE FROM operations WHERE event = ''")

    def add_waiting(self, event: Mapping[str, Any]) -> None:
        """Store an event whose files are written, and whose commit has to wait."""
        self._state.execute("INSERT INTO operations (event) VALUES (?)", (json.dumps(event),))

    def list_waiting(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the waiting events with their numbers, oldest first."""
        rows = self._state.query("SELECT id, event FROM operations WHERE event <> '' ORDER BY id")
        return [(int(number), json.loads(event)) for number, event in rows]

    def drop_waiting(self, number: int) -> None:
        """Delete a waiting event whose commit was made."""
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
    values = json.loads(text)
    moves = {path: (_as_entry(old), _as_entry(new)) for path, (old, new) in values["moves"].items()}
    contents = {blob: base64.b64decode(data) for blob, data in values["contents"].items()}
    earlier = {path: tuple(blobs) for path, blobs in values["earlier"].items()}
    return FileChanges(values["head"], values["is_committed"], moves, contents, earlier)


def _as_entry(pair: list[str] | None) -> TreeEntry | None:
    return None if pair is None else TreeEntry(*pair)
