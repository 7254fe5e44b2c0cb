"""Views: the documents of the work tree, of a commit, or of several of these.

One table lists the documents of each view by path. View 0 is the work tree, indexed together with
`files`, the files as last read. The others are of commits; they never change, and are a cache whose
least recently used views are dropped.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vaultmem.core.indexing.rows import decode_sections
from vaultmem.core.lifecycle import CONFLICTED, NoteKind, NoteState
from vaultmem.core.notes.problems import IN_DOUBT
from vaultmem.core.notes.record import NOTE_FIELDS, NoteRecord, SectionRecord
from vaultmem.core.search.query import NoteFilter
from vaultmem.core.text.paths import find_twins, fold, is_text
from vaultmem.errors import LockTimeoutError
from vaultmem.storage.scan_files import TOO_LARGE_PREFIX, Stat
from vaultmem.storage.state import StateDatabase

if TYPE_CHECKING:
    from vaultmem.core.indexing.rows import NoteRows

T = TypeVar("T")

#: The number of the work tree's view.
WORK_TREE = 0

#: Most rows of all views of commits together; the newest view is kept at any size.
MAX_ROWS = 1_000_000

#: The columns of a record whose names differ from its fields.
_COLUMNS = {"document": "d.id", "changed": "v.changed", "problem": "v.problem"}
_NOTE = f"SELECT {', '.join(_COLUMNS.get(name, f'd.{name}') for name in NoteRecord._fields)}"
_NOTE_ALONE = _NOTE.replace("v.changed, v.problem", "0, ''")
_PINNED, _TAGS, _WARNINGS, _WISHES, _CHANGED = map(
    NoteRecord._fields.index, ("pinned", "tags", "warnings", "wishes", "changed")
)

#: Columns by which notes can be counted.
_COUNTABLE_COLUMNS = frozenset({"kind", "state", "context", "agent", "tags"})

#: The SQL condition for proposed preferences (see `NoteFilter.shows_proposals`).
PROPOSED = f"d.kind = '{NoteKind.PREFERENCE.value}' AND d.state = '{NoteState.CANDIDATE.value}'"
_PROPOSALS = f"SELECT d.id FROM documents d WHERE {PROPOSED}"

#: When (seconds since the epoch) a file got its bytes: its commit's time, or its modification time.
_CHANGE_TIME_SQL = (
    "coalesce((SELECT at FROM committed c WHERE c.path = f.path AND c.blob = f.blob), "
    "f.mtime / 1000000000)"
)

#: The SQL condition that a commit has the bytes of a document of the work tree.
_IS_COMMITTED = (
    "EXISTS (SELECT 1 FROM files f JOIN committed c ON c.path = f.path AND c.blob = f.blob "
    "WHERE f.path = view_documents.path)"
)

#: The SQL condition for notes without the text of the other side of a merge.
UNMERGED = f"""d.warnings LIKE '["{CONFLICTED}: %'"""

#: The order by path, then by blob in a view with several versions of a note.
_BY_PATH = "v.path, (SELECT blob FROM documents WHERE id = v.document)"


class ViewSource(NamedTuple):
    """The source of a view: the work tree (`number` is 0) or a commit's stored documents.

    `name` is for the user; `branch` is empty if it is not a branch (bytes of both that are not
    UTF-8 are escaped). `commit` can be empty for the work tree; `at` is the commit's time in
    seconds since the epoch.
    """

    name: str
    branch: str
    commit: str
    at: int
    number: int = WORK_TREE


class View:
    """The documents of one source, or the union of several, read by SQL.

    Without sources, it is the work tree. The note at the path `without`, notes in the state
    `without_state`, and notes of other projects than `project` are left out ("": only global notes,
    None: all). With `commit_time` (seconds since the epoch), uncommitted notes of the work tree
    have this date.
    """

    def __init__(
        self,
        state: StateDatabase,
        sources: Sequence[ViewSource] = (),
        without: str = "",
        project: str | None = None,
        without_state: str = "",
        commit_time: int | None = None,
    ) -> None:
        self._state = state
        self.sources = tuple(sources)
        self.without = without
        self.project = project
        self.without_state = without_state
        self.commit_time = commit_time
        self._numbers = {source.number for source in self.sources} or {WORK_TREE}

    @property
    def is_work_tree(self) -> bool:
        """Whether the work tree is the only source."""
        return self._numbers == {WORK_TREE}

    @property
    def has_work_tree(self) -> bool:
        """Whether the work tree is a source."""
        return WORK_TREE in self._numbers

    def key(self) -> tuple[object, ...]:
        """Return a value that changes with the documents of the view."""
        stamp = self._state.get("view") if self.has_work_tree else ""
        exclusions = (self.without, self.project, self.without_state)
        return (stamp, *exclusions, self.commit_time, *(source.number for source in self.sources))

    def of_project(self, project: str | None) -> View:
        """Return the same view of a project's and global notes, for None of all notes."""
        return self._change(project=project)

    def foreign(self) -> frozenset[str]:
        """Return the paths of the notes of other projects, which the view leaves out."""
        if self.project is None:
            return frozenset()
        everything = self.of_project(None).paths().values()
        return frozenset(everything).difference(self.paths().values())

    def leave_out(self, state: str) -> View:
        """Return the same view without the notes in a state."""
        return self._change(without_state=state)

    def date_by_commit(self, at: float) -> View:
        """Return the same view, with uncommitted notes dated `at` (seconds since the epoch)."""
        return self._change(commit_time=int(at))

    def at(self, sources: Sequence[ViewSource]) -> View:
        """Return the same view of other sources, without an excluded path."""
        return self._change(sources=sources, without="")

    def _change(self, **changes: Any) -> View:
        """Return the same view with these arguments changed."""
        names = ("sources", "without", "project", "without_state", "commit_time")
        return View(self._state, **{name: getattr(self, name) for name in names} | changes)

    @cached_property
    def relation(self) -> str:
        """The SELECT of `path`, `document`, `changed` and `problem` of each document."""
        from_clause = f"FROM view_documents WHERE {self._shown}"
        if self.is_work_tree and self.commit_time is not None:
            change_time = f"CASE WHEN {_IS_COMMITTED} THEN changed ELSE {self.commit_time} END"
            return f"SELECT path, document, {change_time} AS changed, problem {from_clause}"
        if len(self._numbers) == 1:
            return f"SELECT path, document, changed, problem {from_clause}"
        return (
            "SELECT path, document, max(changed) AS changed, max(problem) AS problem "
            f"{from_clause} GROUP BY path, document"
        )

    @cached_property
    def _shown(self) -> str:
        """The SQL condition for the rows of `view_documents` in this view."""
        own = "" if self.project is None else f" AND project IN ('', {_quote(self.project)})"
        return self._listed + own

    @cached_property
    def _listed(self) -> str:
        """The SQL condition for the rows of `view_documents` of all projects."""
        numbers = ", ".join(str(int(number)) for number in self._numbers)
        condition = f" AND path <> {_quote(self.without)}" if self.without else ""
        if self.without_state:
            subquery = f"SELECT id FROM documents WHERE state = {_quote(self.without_state)}"
            condition += f" AND document NOT IN ({subquery})"
        return f"view IN ({numbers}){condition}"

    def documents(self) -> list[int]:
        """Return the numbers of all documents in the view."""
        return [each for (each,) in self._state.query(f"SELECT document FROM ({self.relation})")]

    def choose(self, note_filter: NoteFilter) -> list[tuple[int, float]]:
        """Return number and change time (seconds since the epoch) of documents, ordered by path.

        A filter by state only is not applied, except for proposals.
        """
        if not note_filter.is_by_state_alone:
            records = self.records()
            return [(r.document, r.changed) for r in records if note_filter.admits(r)]
        condition = "" if note_filter.shows_proposals else f"WHERE v.document NOT IN ({_PROPOSALS})"
        sql = (
            f"SELECT v.document, v.changed FROM ({self.relation}) v {condition} ORDER BY {_BY_PATH}"
        )
        return self._state.query(sql)

    def paths(self, where: str = "", values: Sequence[Any] = ()) -> dict[int, str]:
        """Return the paths of documents by number, filtered by an SQL condition."""
        return dict(self._state.query(f"SELECT d.id, d.path {self._joined(where)}", values))

    def titles(self) -> list[tuple[int, str, str]]:
        """Return number, path and title of all documents, ordered by path."""
        return self._state.query(f"SELECT d.id, d.path, d.title {self._joined()} ORDER BY d.path")

    def blobs(self) -> dict[str, str]:
        """Return the blob of each note by path, in a union the one that was indexed first."""
        sql = f"SELECT d.path, d.blob {self._joined()} ORDER BY d.id DESC"
        return dict(self._state.query(sql))

    def find_blobs(self, beginnings: Iterable[str]) -> list[tuple[str, str]]:
        """Return path and blob of notes whose blob ids start with one of these texts.

        Notes of all projects are included, because a handle is unique in the whole vault.
        """
        # SQLite would not use the index for many ranges joined by OR.
        sql = (
            "SELECT d.path, d.blob FROM json_each(?) j CROSS JOIN documents d "
            "ON d.blob >= j.value AND d.blob < j.value || 'g' WHERE EXISTS "
            f"(SELECT 1 FROM view_documents WHERE document = d.id AND {self._listed})"
        )
        return self._state.query(sql, (json.dumps(list(beginnings)),))

    def records(self, where: str = "", values: Sequence[Any] = ()) -> list[NoteRecord]:
        """Return the notes ordered by path, filtered by an SQL condition."""
        sql = f"{_NOTE} {self._joined(where)} ORDER BY v.path, d.blob"
        return [_read_note(row) for row in self._state.query(sql, values)]

    def problems(self) -> dict[int, str]:
        """Return the problem of each invalid note, by document."""
        sql = f"SELECT document, problem FROM ({self.relation}) WHERE problem <> ''"
        return dict(self._keep("problems", sql))

    def pinned(self) -> list[NoteRecord]:
        """Return the pinned notes, ordered by path."""
        rows = self._keep("pinned", f"SELECT d.id {self._joined('d.pinned = 1')}")
        records = self.records_of(row[0] for row in rows).values()
        return sorted(records, key=lambda record: (record.path, record.blob))

    def changed_at(self, path: str) -> float | None:
        """Return when a file (a note or not) got its bytes, None if the file is unknown.

        In seconds since the epoch: its commit's time, or the file's modification time.
        """
        sql = f"SELECT max(changed) FROM ({self.relation}) WHERE path = ? HAVING count(*)"
        rows = self._state.query(sql, (path,))
        if not rows and self.has_work_tree:
            rows = self._state.query(
                "SELECT coalesce(c.at, f.mtime / 1000000000) FROM files f LEFT JOIN committed c "
                "ON c.path = f.path AND (c.blob = f.blob OR f.blob = '') WHERE f.path = ? "
                "ORDER BY c.at DESC LIMIT 1",
                (path,),
            )
        return float(rows[0][0]) if rows else None

    def recent(self, limit: int) -> list[NoteRecord]:
        """Return notes that are not pinned or reference material, the last updated first."""
        own = "d.pinned = 0 AND d.path NOT LIKE 'primed/%'"
        return self._list_first(own, "max(d.updated, d.created) DESC, v.changed", limit)

    def last_changed(self, limit: int) -> list[NoteRecord]:
        """Return the notes whose bytes changed last; their own dates are ignored."""
        return self._list_first("", "v.changed", limit)

    def _list_first(self, where: str, order: str, limit: int) -> list[NoteRecord]:
        sql = f"{_NOTE} {self._joined(where)} ORDER BY {order} DESC, d.path LIMIT ?"
        return [_read_note(row) for row in self._state.query(sql, (limit,))]

    def count_notes(self, column: str) -> dict[str, int]:
        """Return the number of notes for each value of a column, most first.

        `column` is one of `_COUNTABLE_COLUMNS`. For "tags", it is the number for each tag.
        """
        if column not in _COUNTABLE_COLUMNS:
            raise ValueError(column)
        clause = f"{self._joined()} GROUP BY 1 ORDER BY 2 DESC, 1"
        counts = dict(self._state.query(f"SELECT d.{column}, count(*) {clause}"))
        if column != "tags":
            return counts
        tags: Counter[str] = Counter()
        for value, count in counts.items():
            tags.update(dict.fromkeys(_read_list(value), count))
        return dict(tags.most_common())

    def records_of(self, documents: Iterable[int]) -> dict[int, NoteRecord]:
        """Return the records of these documents by number."""
        rows = self._state.query(
            f"{_NOTE} FROM json_each(?) j CROSS JOIN documents d ON d.id = j.value "
            f"JOIN ({self.relation}) v ON v.document = d.id",
            (json.dumps(list(documents)),),
        )
        return {record.document: record for record in map(_read_note, rows)}

    def sections_of(
        self, documents: Iterable[int], ordinals: Sequence[int] | None = None
    ) -> dict[tuple[int, int], SectionRecord]:
        """Return sections by document and ordinal, all or those with these ordinals."""
        numbers = ", ".join(str(int(document)) for document in documents)
        rows = self._state.query(f"SELECT id, sections FROM documents WHERE id IN ({numbers})")
        return {
            (document, each.ordinal): each
            for document, text in rows
            for each in decode_sections(text, document, ordinals)
        }

    def totals(self) -> tuple[int, int]:
        """Return the number of notes and the sum of their tokens."""
        return self.keep("totals", self._sum_up)

    def _sum_up(self) -> tuple[int, int]:
        everything = "SELECT count(*), coalesce(sum(tokens), 0) FROM documents"
        notes, tokens = self._state.query(everything)[0]
        sql = f"SELECT count(*) FROM ({self.relation})"
        if notes != self._state.query(sql)[0][0]:  # If equal, the view has all documents.
            sql = f"SELECT count(*), coalesce(sum(d.tokens), 0) {self._joined()}"
            notes, tokens = self._state.query(sql)[0]
        return int(notes), int(tokens)

    def projects(self) -> list[str]:
        """Return the sorted names of the projects of the view's notes."""
        sql = f"SELECT DISTINCT project FROM view_documents WHERE {self._shown} AND project <> ''"
        return sorted(name for (name,) in self._state.query(sql))

    def sources_of(self, document: int) -> tuple[str, ...]:
        """Return the names of the sources with a document."""
        rows = self._state.query("SELECT view FROM view_documents WHERE document = ?", (document,))
        return tuple(source.name for source in self.sources if (source.number,) in rows)

    def keep(self, name: str, make: Callable[[], T], *others: object) -> T:
        """Return the result of `make`, cached by `name` until the view or `others` change."""
        key = (self.key(), self._state.in_use, *others)
        entry = self._state.made.get(name)
        if entry is None or entry[0] != key:
            entry = self._state.made[name] = (key, make())
        return entry[1]

    def _keep(self, name: str, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, cached by `name` until the view changes."""
        return list(self.keep(name, lambda: self._state.query(sql)))

    def _joined(self, where: str = "") -> str:
        """Return an SQL FROM clause: `d` are the documents, `v` the view's rows."""
        if not where:
            return f"FROM ({self.relation}) v JOIN documents d ON d.id = v.document"
        # The condition is about documents; without CROSS JOIN, SQLite would list the view first.
        joined = f"FROM documents d CROSS JOIN ({self.relation}) v ON v.document = d.id"
        return f"{joined} WHERE {where}"


class ViewRow(NamedTuple):
    """A document of a view.

    `changed` is when it got these bytes, in seconds since the epoch; `problem` is why the note is
    invalid, "" if it is valid.
    """

    path: str
    document: int
    changed: int
    problem: str


class KnownFile(NamedTuple):
    """A file as last read; `document` is None if it is not a readable note."""

    blob: str
    stat: Stat
    document: int | None
    problem: str


class Manifest:
    """The state database's tables of documents, views and files."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def documents(self) -> set[int]:
        """Return the numbers of all documents of all views."""
        return {row[0] for row in self._state.query("SELECT id FROM documents")}

    def list_readable(self) -> dict[tuple[str, str], int]:
        """Return the numbers of all documents of all views, by path and blob.

        Unreadable ones are left out, because each view can use another version instead.
        """
        sql = f"SELECT path, blob, id FROM documents WHERE state <> '{NoteState.UNREADABLE.value}'"
        return {(path, blob): number for path, blob, number in self._state.query(sql)}

    def find_documents(self, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return the numbers of the known ones of these documents, by path and blob."""
        sql = (
            "SELECT d.path, d.blob, d.id FROM json_each(?) j CROSS JOIN documents d "
            "ON d.path = json_extract(j.value, '$[0]') AND d.blob = json_extract(j.value, '$[1]')"
        )
        rows = self._state.query(sql, (json.dumps(list(places)),))
        return {(path, blob): number for path, blob, number in rows}

    def add_documents(self, notes: Sequence[NoteRows]) -> range:
        """Store notes with their sections and return their document numbers."""
        last = self._state.query("SELECT seq FROM sqlite_sequence WHERE name = 'documents'")
        first = (int(last[0][0]) if last else 0) + 1
        numbers = range(first, first + len(notes))
        marks = ", ".join("?" * (len(NOTE_FIELDS) + 2))
        self._state.execute_many(
            f"INSERT INTO documents (id, {', '.join(NOTE_FIELDS)}, sections) VALUES ({marks})",
            [
                (number, *note.values, note.sections)
                for number, note in zip(numbers, notes, strict=True)
            ],
        )
        return numbers

    def drop_documents(self, documents: Iterable[int]) -> None:
        """Delete those of the documents that are in no view."""
        self._state.execute_many(
            "DELETE FROM documents WHERE id = ?1 "
            "AND NOT EXISTS (SELECT 1 FROM view_documents WHERE document = ?1)",
            ((document,) for document in documents),
        )

    def stats(self) -> dict[str, Stat]:
        """Return size, times and inode of all known files, by path."""
        rows = self._state.query("SELECT path, size, mtime, ctime, inode FROM files")
        return {row[0]: row[1:] for row in rows}

    def files(self, paths: Sequence[str] | None = None) -> dict[str, KnownFile]:
        """Return the entries of these files by path; for None or over 1,000 paths, of all files."""
        sql = (
            "SELECT f.path, f.blob, f.size, f.mtime, f.ctime, f.inode, v.document, f.problem "
            f"FROM files f LEFT JOIN view_documents v ON v.view = {WORK_TREE} AND v.path = f.path"
        )
        if paths is None or len(paths) > 1_000:
            rows = self._state.query(sql)
        else:
            rows = []
            for path in paths:
                rows.extend(self._state.query(f"{sql} WHERE f.path = ?", (path,)))
        return {
            path: KnownFile(blob, (size, mtime, ctime, inode), document, problem)
            for path, blob, size, mtime, ctime, inode, document, problem in rows
        }

    def paths(self) -> list[str]:
        """Return the sorted paths of all known files."""
        return [path for (path,) in self._state.query("SELECT path FROM files ORDER BY path")]

    def blobs(self) -> dict[str, str]:
        """Return the blob of each file that was read, by path: notes and others."""
        return dict(self._state.query("SELECT path, blob FROM files WHERE blob <> ''"))

    def find_named(self, name: str) -> list[str]:
        """Return the paths of files with a name, in any folder, ignoring case."""
        pattern = re.sub(r"[^\x00-\x7f]+", "%", name)  # SQLite ignores the case of ASCII only.
        rows = self._state.query("SELECT path FROM files WHERE path LIKE ?", (f"%{pattern}",))
        ending = fold(f"/{name}")
        return [path for (path,) in rows if fold(f"/{path}").endswith(ending)]

    def put_files(self, files: Mapping[str, KnownFile]) -> None:
        """Store the entries of files by path, and their documents in the work tree's view."""
        self._state.execute_many(
            "INSERT OR REPLACE INTO files (path, blob, size, mtime, ctime, inode, problem) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(path, file.blob, *file.stat, file.problem) for path, file in files.items()],
        )
        self._drop_from_work_tree([path for path, file in files.items() if file.document is None])
        self._state.execute_many(
            f"INSERT OR REPLACE INTO view_documents SELECT {WORK_TREE}, f.path, d.id, "
            f"{_CHANGE_TIME_SQL}, f.problem, d.project FROM files f, documents d "
            "WHERE d.id = ? AND f.path = ?",
            [(file.document, path) for path, file in files.items() if file.document is not None],
        )

    def drop_files(self, paths: Iterable[str]) -> None:
        """Delete the entries of removed files."""
        names = list(paths)
        self._state.execute_many("DELETE FROM files WHERE path = ?", [(path,) for path in names])
        self._drop_from_work_tree(names)

    def set_blob(self, path: str, blob: str) -> None:
        """Store the blob of a file that is not a note, if it has none yet."""
        sql = "UPDATE files SET blob = ? WHERE path = ? AND blob = ''"
        self._state.execute(sql, (blob, path))

    def problems(self) -> list[tuple[str, str]]:
        """Return path and reason of all invalid notes, then of unread files, warnings and twins.

        Twins are files whose names are equal on some systems.
        """
        warnings = self._state.query(
            "SELECT v.path, w.value FROM documents d JOIN view_documents v ON v.document = d.id, "
            "json_each(d.warnings) w WHERE d.warnings <> '[]' AND v.problem = '' "
            f"AND v.view = {WORK_TREE}"
        )
        messages = sorted([*self.unread(), *warnings], key=lambda each: str(each[0]))
        twins = [
            (path, f"another file has the same name on some systems: {first}")
            for first, *others in find_twins(self.paths())
            for path in others
        ]
        return [*self.in_doubt(), *messages, *twins]

    def in_doubt(self) -> list[tuple[str, str]]:
        """Return path and reason of all invalid notes."""
        return self._describe("instr(problem, ?) > 0")

    def unread(self) -> list[tuple[str, str]]:
        """Return path and reason of all other files that were not read."""
        return self._describe("instr(problem, ?) = 0")

    def too_large(self) -> list[str]:
        """Return the paths of notes that are too large to read."""
        return [path for path, problem in self.unread() if problem.startswith(TOO_LARGE_PREFIX)]

    def is_committed(self, path: str, blob: str) -> bool:
        """Return whether a commit wrote these bytes to this path."""
        sql = "SELECT 1 FROM committed WHERE path = ? AND blob = ?"
        return is_text(path) and bool(self._state.query(sql, (path, blob)))

    def put_commit_dates(self, dates: Mapping[tuple[str, str], int], is_anew: bool = False) -> None:
        """Store when (seconds since the epoch) a commit last wrote a blob to a path.

        With `is_anew` (another history is checked out), all other dates are deleted.
        """
        if is_anew:
            self._state.execute("DELETE FROM committed")
        self._state.execute_many(
            "INSERT INTO committed VALUES (?, ?, ?) "
            "ON CONFLICT (path, blob) DO UPDATE SET at = max(at, excluded.at)",
            ((path, blob, at) for (path, blob), at in dates.items()),
        )
        statement = (
            f"UPDATE view_documents SET changed = (SELECT {_CHANGE_TIME_SQL} FROM files f "
            f"WHERE f.path = view_documents.path) WHERE view = {WORK_TREE}"
        )
        if is_anew:
            self._state.execute(statement)
        else:
            self._state.execute_many(f"{statement} AND path = ?", {(path,) for path, _ in dates})

    def find_view(self, key: str) -> int | None:
        """Return the number of a commit's stored view and mark it as used, None if not stored."""
        rows = self._state.query("SELECT id FROM views WHERE key = ?", (key,))
        if not rows:
            return None
        with contextlib.suppress(LockTimeoutError):
            used = (time.time(), rows[0][0])
            self._state.execute("UPDATE views SET used = ? WHERE id = ?", used)
        return int(rows[0][0])

    def add_view(self, key: str, rows: Sequence[ViewRow]) -> int:
        """Store a commit's view, drop views beyond `MAX_ROWS`, and return its number."""
        number = self._state.execute(
            "INSERT INTO views (key, size, used) VALUES (?, ?, ?)", (key, len(rows), time.time())
        )
        self._state.execute_many(
            "INSERT INTO view_documents SELECT ?, ?, d.id, ?, ?, d.project FROM documents d "
            "WHERE d.id = ?",
            ((number, row.path, row.changed, row.problem, row.document) for row in rows),
        )
        total = 0
        for other, size in self._state.query("SELECT id, size FROM views ORDER BY used DESC"):
            total += size
            if total > MAX_ROWS and other != number:
                self._drop_view(other)
        return number

    def view_keys(self, suffix: str) -> dict[str, int]:
        """Return the numbers of stored views whose key ends with `suffix`, by key."""
        rows = self._state.query("SELECT key, id FROM views")
        return {key: number for key, number in rows if key.endswith(suffix)}

    def view_dates(self, number: int) -> dict[int, int]:
        """Return when (seconds since the epoch) each document of a stored view got its bytes."""
        sql = "SELECT document, changed FROM view_documents WHERE view = ?"
        return dict(self._state.query(sql, (number,)))

    def clear_views(self) -> None:
        """Delete all views of commits; their documents stay until they are dropped."""
        self._state.execute("DELETE FROM view_documents WHERE view <> ?", (WORK_TREE,))
        self._state.execute("DELETE FROM views")

    def _drop_from_work_tree(self, paths: Iterable[str]) -> None:
        sql = f"DELETE FROM view_documents WHERE view = {WORK_TREE} AND path = ?"
        self._state.execute_many(sql, [(path,) for path in paths])

    def _describe(self, condition: str) -> list[tuple[str, str]]:
        sql = f"SELECT path, problem FROM files WHERE problem <> '' AND {condition} ORDER BY 1"
        return self._state.query(sql, (IN_DOUBT,))

    def _drop_view(self, number: int) -> None:
        rows = self._state.query("SELECT document FROM view_documents WHERE view = ?", (number,))
        self._state.execute("DELETE FROM view_documents WHERE view = ?", (number,))
        self._state.execute("DELETE FROM views WHERE id = ?", (number,))
        self.drop_documents(row[0] for row in rows)


def _quote(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def read_places(
    state: StateDatabase, places: Mapping[tuple[int, int], float]
) -> dict[tuple[int, int], tuple[NoteRecord, SectionRecord]]:
    """Return note and section at these places (document, ordinal).

    The values of `places` are the notes' change times (seconds since the epoch) from `View.choose`,
    because querying them again is slow. Records have no `problem`, because it depends on the view.
    """
    ordinals: defaultdict[int, list[int]] = defaultdict(list)
    for document, ordinal in places:
        ordinals[document].append(ordinal)
    marks = ", ".join("?" * len(ordinals))  # With marks, the statement is compiled only once.
    sql = f"{_NOTE_ALONE}, sections FROM documents d WHERE id IN ({marks})"
    results = {}
    for *values, text in state.query(sql, list(ordinals)):
        document = values[0]
        sections = decode_sections(text, document, ordinals[document])
        values[_CHANGED] = places[document, sections[0].ordinal]
        record = _read_note(values)
        results.update({(document, each.ordinal): (record, each) for each in sections})
    return results


@lru_cache(maxsize=4096)
def _read_list(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def _read_note(row: Sequence[Any]) -> NoteRecord:
    values = list(row)
    values[_PINNED] = bool(values[_PINNED])
    values[_TAGS] = _read_list(values[_TAGS])
    values[_WARNINGS] = _read_list(values[_WARNINGS])
    values[_WISHES] = _read_list(values[_WISHES])
    values[_CHANGED] = float(values[_CHANGED])
    return NoteRecord._make(values)
