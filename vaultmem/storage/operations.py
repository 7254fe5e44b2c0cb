"""The operation that is under way in a vault, as rows of the state database.

A row is written before the first file is touched and goes when files, index and branch are as they
should be. So a row that the next process finds is what a crash interrupted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from vaultmem.storage.git.commit_draft import Moves, TreeEntry
from vaultmem.storage.git.person_index import StagedEntries
from vaultmem.storage.state import StateDatabase


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
