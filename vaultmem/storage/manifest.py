"""The manifest: which (path, blob) pairs the work tree holds, and the documents they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.problems import IN_DOUBT
from vaultmem.core.notes.record import CONFLICTED, NOTE_FIELDS
from vaultmem.core.paths import find_twins, fold, is_text
from vaultmem.storage.scan import LARGER, Stat
from vaultmem.storage.state import StateDatabase
from vaultmem.storage.stored_views import drop_unused

if TYPE_CHECKING:
    from vaultmem.core.indexing.rows import NoteRows


_FILE = "path, blob, size, mtime, ctime, inode, document, problem"


class KnownFile(NamedTuple):
    """A file as it was when last read; `document` is None for a file that is no readable note."""

    blob: str
    stat: Stat
    document: int | None
    problem: str


class Manifest:
    """The state database's tables of files, documents and sections."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def stats(self) -> dict[str, Stat]:
        """Return size and times of every file that was seen, by path."""
        rows = self._state.query("SELECT path, size, mtime, ctime, inode FROM files")
        return {row[0]: row[1:] for row in rows}

    def files(self, paths: Sequence[str] | None = None) -> dict[str, KnownFile]:
        """Return what is known of these files (of others too where they are many), or of all."""
        sql = f"SELECT {_FILE} FROM files"
        if paths is None or len(paths) > 1_000:
            rows = self._state.query(sql)
        else:
            rows = []
            for path in paths:
                rows.extend(self._state.query(f"{sql} WHERE path = ?", (path,)))
        return {
            path: KnownFile(blob, (size, mtime, ctime, inode), document, problem)
            for path, blob, size, mtime, ctime, inode, document, problem in rows
        }

    def blobs(self) -> dict[str, str]:
        """Return path and blob of every file whose bytes were read: notes and others."""
        return dict(self._state.query("SELECT path, blob FROM files WHERE blob <> ''"))

    def find_named(self, name: str) -> list[str]:
        """Return the paths of the files of a name, in any folder, the case of letters aside."""
        like = re.sub(r"[^\x00-\x7f]+", "%", name)  # SQLite knows the case of ASCII alone.
        rows = self._state.query("SELECT path FROM files WHERE path LIKE ?", (f"%{like}",))
        ending = fold(f"/{name}")
        return [path for (path,) in rows if fold(f"/{path}").endswith(ending)]

    def put_files(self, files: Mapping[str, KnownFile]) -> None:
        """Remember files as they are now, by path."""
        self._state.execute_many(
            f"INSERT OR REPLACE INTO files ({_FILE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (path, known.blob, *known.stat, known.document, known.problem)
                for path, known in files.items()
            ],
        )

    def drop_files(self, paths: Iterable[str]) -> None:
        """Forget files that are gone."""
        self._state.execute_many("DELETE FROM files WHERE path = ?", ((path,) for path in paths))

    def drop_documents(self, documents: Iterable[int]) -> None:
        """Forget those of the documents that no view uses any more."""
        drop_unused(self._state, documents)

    def documents(self) -> set[int]:
        """Return the numbers of all documents of all views."""
        return {row[0] for row in self._state.query("SELECT id FROM documents")}

    def find_documents(self, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return the numbers of those documents that were seen before, by path and blob."""
        sql = (
            "SELECT d.path, d.blob, d.id FROM json_each(?) j CROSS JOIN documents d "
            "ON d.path = json_extract(j.value, '$[0]') AND d.blob = json_extract(j.value, '$[1]')"
        )
        rows = self._state.query(sql, (json.dumps(list(places)),))
        return {(path, blob): number for path, blob, number in rows}

    def add_documents(self, notes: Sequence[NoteRows]) -> range:
        """Remember notes with their sections and return their numbers."""
        last = self._state.query("SELECT seq FROM sqlite_sequence WHERE name = 'documents'")
        first = (int(last[0][0]) if last else 0) + 1
        numbered = range(first, first + len(notes))
        marks = ", ".join("?" * (len(NOTE_FIELDS) + 2))
        self._state.execute_many(
            f"INSERT INTO documents (id, {', '.join(NOTE_FIELDS)}, sections) VALUES ({marks})",
            [
                (number, *note.values, note.sections)
                for number, note in zip(numbered, notes, strict=True)
            ],
        )
        return numbered

    def paths(self) -> list[str]:
        """Return the paths of all files that were seen, sorted."""
        return [path for (path,) in self._state.query("SELECT path FROM files ORDER BY path")]

    def count_notes(self, column: str) -> dict[str, int]:
        """Count the work tree's notes by "kind" or "state", the most first."""
        if column not in {"kind", "state"}:
            raise ValueError(column)
        rows = self._state.query(
            f"SELECT d.{column}, count(*) FROM files f JOIN documents d ON d.id = f.document "
            "GROUP BY 1 ORDER BY 2 DESC, 1"
        )
        return {str(value): int(count) for value, count in rows}

    def count_conflicted(self) -> int:
        """Count the work tree's notes of which another side of a merge says otherwise."""
        sql = (
            "SELECT count(*) FROM files f JOIN documents d ON d.id = f.document "
            f"""WHERE d.warnings LIKE '["{CONFLICTED}: %'"""
        )
        return int(self._state.query(sql)[0][0])

    def problems(self) -> list[tuple[str, str]]:
        """Return path and reason of every file that was not read, or not fully, and of twins.

        Those come first that cannot be taken at their word.
        """
        warned = self._state.query(
            "SELECT d.path, w.value FROM documents d JOIN files f ON f.document = d.id, "
            "json_each(d.warnings) w WHERE d.warnings <> '[]' AND f.problem = ''"
        )
        told = sorted([*self.unread(), *warned], key=lambda each: str(each[0]))
        return [*self.in_doubt(), *told, *self._twins()]

    def in_doubt(self) -> list[tuple[str, str]]:
        """Return path and reason of every note that cannot be taken at its word."""
        return self._tell("instr(problem, ?) > 0")

    def unread(self) -> list[tuple[str, str]]:
        """Return path and reason of every other file that was not read."""
        return self._tell("instr(problem, ?) = 0")

    def too_large(self) -> list[str]:
        """Return the path of every note that was not read because of its size."""
        return [path for path, problem in self.unread() if problem.startswith(LARGER)]

    def _tell(self, which: str) -> list[tuple[str, str]]:
        sql = f"SELECT path, problem FROM files WHERE problem <> '' AND {which} ORDER BY 1"
        return self._state.query(sql, (IN_DOUBT,))

    def _twins(self) -> list[tuple[str, str]]:
        return [
            (path, f"another file has the same name on some systems: {twins[0]}")
            for twins in find_twins(self.paths())
            for path in twins[1:]
        ]

    def set_blob(self, path: str, blob: str) -> None:
        """Remember the blob of a file that is no note, now that it was read."""
        sql = "UPDATE files SET blob = ? WHERE path = ? AND blob = ''"
        self._state.execute(sql, (blob, path))

    def is_committed(self, path: str, blob: str) -> bool:
        """Tell whether some commit brought these bytes to this path."""
        sql = "SELECT 1 FROM committed WHERE path = ? AND blob = ?"
        return is_text(path) and bool(self._state.query(sql, (path, blob)))

    def put_commit_dates(self, dates: Mapping[tuple[str, str], int]) -> None:
        """Remember when (seconds since the epoch) a commit last wrote these bytes to a path."""
        rows = ((path, blob, at) for (path, blob), at in dates.items())
        self._state.execute_many(
            "INSERT INTO committed VALUES (?, ?, ?) "
            "ON CONFLICT (path, blob) DO UPDATE SET at = max(at, excluded.at)",
            rows,
        )

    def clear_commit_dates(self) -> None:
        """Forget all commits, because another history is checked out."""
        self._state.execute("DELETE FROM committed")
