"""Which documents the work tree holds, or a commit, or several of these together.

One table lists the documents of each view by path. View 0 is the work tree: a sync changes it
together with `files`, which has each file as it was last read. The others are of commits, stored
once because they never change; they are a cache, and those not used for longest go.
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
from vaultmem.storage.scan_files import LARGER, Stat
from vaultmem.storage.state import StateDatabase

if TYPE_CHECKING:
    from vaultmem.core.indexing.rows import NoteRows

T = TypeVar("T")

#: The number of the work tree's view.
WORK_TREE = 0

#: Rows that the views of commits may take together; one is kept however large it is.
MAX_ROWS = 1_000_000

#: A record's columns have the names of its fields, but for these.
_COLUMNS = {"document": "d.id", "changed": "v.changed", "problem": "v.problem"}
_NOTE = f"SELECT {', '.join(_COLUMNS.get(name, f'd.{name}') for name in NoteRecord._fields)}"
_NOTE_ALONE = _NOTE.replace("v.changed, v.problem", "0, ''")
_PINNED, _TAGS, _WARNINGS, _WISHES, _CHANGED = map(
    NoteRecord._fields.index, ("pinned", "tags", "warnings", "wishes", "changed")
)

#: Columns by which notes are counted.
_COUNTED = frozenset({"kind", "state", "context", "agent", "tags"})

#: What `NoteFilter.shows_proposals` is about.
PROPOSED = f"d.kind = '{NoteKind.PREFERENCE.value}' AND d.state = '{NoteState.CANDIDATE.value}'"
_PROPOSALS = f"SELECT d.id FROM documents d WHERE {PROPOSED}"

#: Since when (seconds since the epoch) a file has its bytes, of what a commit says and its time.
_CHANGED_AT = (
    "coalesce((SELECT at FROM committed c WHERE c.path = f.path AND c.blob = f.blob), "
    "f.mtime / 1000000000)"
)

#: Whether a commit has the bytes of a document of the work tree.
_IS_COMMITTED = (
    "EXISTS (SELECT 1 FROM files f JOIN committed c ON c.path = f.path AND c.blob = f.blob "
    "WHERE f.path = view_documents.path)"
)

#: The notes that lack what another side of a merge says.
UNMERGED = f"""d.warnings LIKE '["{CONFLICTED}: %'"""

#: A note's place in the order of paths, in a view that has several of its versions.
_BY_PATH = "v.path, (SELECT blob FROM documents WHERE id = v.document)"


class ViewSource(NamedTuple):
    """What a view shows: the work tree (`number` is 0) or a commit's stored documents.

    `name` is what a person calls it, `branch` is empty unless it is one (bytes of either that are
    no UTF-8 are escapes), `commit` may be empty for a work tree, `at` is the commit's time in
    seconds since the epoch.
    """

    name: str
    branch: str
    commit: str
    at: int
    number: int = WORK_TREE


class View:
    """The documents of one source, or the union of several; read by SQL, never held as a list.

    Without sources it is the work tree. The note at the path `without` is left out. With a
    `project`, notes of other projects are left out; "" leaves global notes only. Notes in the state
    `without_state` are left out. With `commit_time` (seconds since the epoch), notes of the work
    tree have the dates that they get from a commit of all of them at that time.
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
        """Tell whether this is the folder as it is, and nothing else."""
        return self._numbers == {WORK_TREE}

    @property
    def has_work_tree(self) -> bool:
        """Tell whether the folder is among what is looked at."""
        return WORK_TREE in self._numbers

    def key(self) -> tuple[object, ...]:
        """Return a value that differs whenever the view holds other documents."""
        stamp = self._state.get("view") if self.has_work_tree else ""
        left_out = (self.without, self.project, self.without_state)
        return (stamp, *left_out, self.commit_time, *(source.number for source in self.sources))

    def of_project(self, project: str | None) -> View:
        """Return the same view with the notes of a project and global ones; of all for None."""
        return self._change(project=project)

    def foreign(self) -> frozenset[str]:
        """Return the paths of the notes of other projects than the one that is viewed."""
        if self.project is None:
            return frozenset()
        everything = self.of_project(None).paths().values()
        return frozenset(everything).difference(self.paths().values())

    def leave_out(self, state: str) -> View:
        """Return the same view without the notes in a state."""
        return self._change(without_state=state)

    def date_by_commit(self, at: float) -> View:
        """Return the same view with the dates that notes get if all are committed at that time."""
        return self._change(commit_time=int(at))

    def at(self, sources: Sequence[ViewSource]) -> View:
        """Return a view of other sources, of the same project."""
        return self._change(sources=sources, without="")

    def _change(self, **changes: Any) -> View:
        """Return the same view, but for these arguments."""
        names = ("sources", "without", "project", "without_state", "commit_time")
        return View(self._state, **{name: getattr(self, name) for name in names} | changes)

    @cached_property
    def relation(self) -> str:
        """The SELECT of `path`, `document`, `changed` and `problem` of each document."""
        shown = f"FROM view_documents WHERE {self._shown}"
        if self.is_work_tree and self.commit_time is not None:
            changed = f"CASE WHEN {_IS_COMMITTED} THEN changed ELSE {self.commit_time} END"
            return f"SELECT path, document, {changed} AS changed, problem {shown}"
        if len(self._numbers) == 1:
            return f"SELECT path, document, changed, problem {shown}"
        return (
            "SELECT path, document, max(changed) AS changed, max(problem) AS problem "
            f"{shown} GROUP BY path, document"
        )

    @cached_property
    def _shown(self) -> str:
        """What holds for the rows of `view_documents` that are this view's."""
        own = "" if self.project is None else f" AND project IN ('', {_quote(self.project)})"
        return self._listed + own

    @cached_property
    def _listed(self) -> str:
        """The condition for the rows of `view_documents` of every project."""
        numbers = ", ".join(str(int(number)) for number in self._numbers)
        without = f" AND path <> {_quote(self.without)}" if self.without else ""
        if self.without_state:
            hidden = f"SELECT id FROM documents WHERE state = {_quote(self.without_state)}"
            without += f" AND document NOT IN ({hidden})"
        return f"view IN ({numbers}){without}"

    def documents(self) -> list[int]:
        """Return the numbers of all documents."""
        return [each for (each,) in self._state.query(f"SELECT document FROM ({self.relation})")]

    def choose(self, note_filter: NoteFilter) -> list[tuple[int, float]]:
        """Return number and time (seconds since the epoch) of documents, in the order of paths.

        They are those that the filter admits, of any state where nothing else decides.
        """
        if not note_filter.is_by_state_alone:
            chosen = self.records()
            return [(r.document, r.changed) for r in chosen if note_filter.admits(r)]
        kept = "" if note_filter.shows_proposals else f"WHERE v.document NOT IN ({_PROPOSALS})"
        sql = f"SELECT v.document, v.changed FROM ({self.relation}) v {kept} ORDER BY {_BY_PATH}"
        return self._state.query(sql)

    def paths(self, where: str = "", values: Sequence[Any] = ()) -> dict[int, str]:
        """Return the paths of documents by number."""
        return dict(self._state.query(f"SELECT d.id, d.path {self._joined(where)}", values))

    def titles(self) -> list[tuple[int, str, str]]:
        """Return number, path and title of every document in the order of their paths."""
        return self._state.query(f"SELECT d.id, d.path, d.title {self._joined()} ORDER BY d.path")

    def blobs(self) -> dict[str, str]:
        """Return path and blob of every note; of a union, those of the first source that has it."""
        sql = f"SELECT d.path, d.blob {self._joined()} ORDER BY d.id DESC"
        return dict(self._state.query(sql))

    def find_blobs(self, beginnings: Iterable[str]) -> list[tuple[str, str]]:
        """Return path and blob of the notes of all projects whose blob ids begin with one of these.

        A handle is its note's alone in the whole vault.
        """
        # For many ranges joined by OR, SQLite would not choose the index by itself.
        sql = (
            "SELECT d.path, d.blob FROM json_each(?) j CROSS JOIN documents d "
            "ON d.blob >= j.value AND d.blob < j.value || 'g' WHERE EXISTS "
            f"(SELECT 1 FROM view_documents WHERE document = d.id AND {self._listed})"
        )
        return self._state.query(sql, (json.dumps(list(beginnings)),))

    def records(self, where: str = "", values: Sequence[Any] = ()) -> list[NoteRecord]:
        """Return the notes in the order of their paths."""
        sql = f"{_NOTE} {self._joined(where)} ORDER BY v.path, d.blob"
        return [_read_note(row) for row in self._state.query(sql, values)]

    def problems(self) -> dict[int, str]:
        """Return, by document, why the notes cannot be taken at their word that cannot."""
        sql = f"SELECT document, problem FROM ({self.relation}) WHERE problem <> ''"
        return dict(self._keep("problems", sql))

    def pinned(self) -> list[NoteRecord]:
        """Return the pinned notes in the order of their paths."""
        found = self._keep("pinned", f"SELECT d.id {self._joined('d.pinned = 1')}")
        records = self.records_of(row[0] for row in found).values()
        return sorted(records, key=lambda record: (record.path, record.blob))

    def changed_at(self, path: str) -> float | None:
        """Return when a file, be it a note or not, came to be as it is; None if it is unknown.

        In seconds since the epoch: the commit that brought these bytes, else the file's own time.
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
        """Return notes that are neither pinned nor primed, the last changed first."""
        own = "d.pinned = 0 AND d.path NOT LIKE 'primed/%'"
        return self._list_first(own, "max(d.updated, d.created) DESC, v.changed", limit)

    def last_changed(self, limit: int) -> list[NoteRecord]:
        """Return the notes that came to be as they are last, whatever they say of themselves."""
        return self._list_first("", "v.changed", limit)

    def _list_first(self, where: str, order: str, limit: int) -> list[NoteRecord]:
        sql = f"{_NOTE} {self._joined(where)} ORDER BY {order} DESC, d.path LIMIT ?"
        return [_read_note(row) for row in self._state.query(sql, (limit,))]

    def count_notes(self, column: str) -> dict[str, int]:
        """Return how many notes have each value of a column of `_COUNTED`, the most first.

        Of "tags", how many have each tag.
        """
        if column not in _COUNTED:
            raise ValueError(column)
        grouped = f"{self._joined()} GROUP BY 1 ORDER BY 2 DESC, 1"
        counts = dict(self._state.query(f"SELECT d.{column}, count(*) {grouped}"))
        if column != "tags":
            return counts
        tags: Counter[str] = Counter()
        for listed, many in counts.items():
            tags.update(dict.fromkeys(_read_list(listed), many))
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
        """Return the sections of documents by document and ordinal: all, or these of each."""
        listed = ", ".join(str(int(document)) for document in documents)
        rows = self._state.query(f"SELECT id, sections FROM documents WHERE id IN ({listed})")
        return {
            (document, each.ordinal): each
            for document, text in rows
            for each in decode_sections(text, document, ordinals)
        }

    def totals(self) -> tuple[int, int]:
        """Return the number of notes and the tokens of all of them."""
        return self.keep("totals", self._sum_up)

    def _sum_up(self) -> tuple[int, int]:
        everything = "SELECT count(*), coalesce(sum(tokens), 0) FROM documents"
        notes, tokens = self._state.query(everything)[0]
        sql = f"SELECT count(*) FROM ({self.relation})"
        if notes != self._state.query(sql)[0][0]:  # Else no note has to be looked up.
            sql = f"SELECT count(*), coalesce(sum(d.tokens), 0) {self._joined()}"
            notes, tokens = self._state.query(sql)[0]
        return int(notes), int(tokens)

    def projects(self) -> list[str]:
        """Return the names of the projects that notes of the view belong to, sorted."""
        sql = f"SELECT DISTINCT project FROM view_documents WHERE {self._shown} AND project <> ''"
        return sorted(name for (name,) in self._state.query(sql))

    def sources_of(self, document: int) -> tuple[str, ...]:
        """Return the names of the sources that hold a document."""
        rows = self._state.query("SELECT view FROM view_documents WHERE document = ?", (document,))
        return tuple(source.name for source in self.sources if (source.number,) in rows)

    def keep(self, name: str, make: Callable[[], T], *others: object) -> T:
        """Return what is made of the view's files and of `others`, from memory while all are same.

        One value is kept by each name.
        """
        key = (self.key(), self._state.in_use, *others)
        found = self._state.made.get(name)
        if found is None or found[0] != key:
            found = self._state.made[name] = (key, make())
        return found[1]

    def _keep(self, name: str, sql: str) -> list[tuple[Any, ...]]:
        """Return rows about the documents alone, from memory while the view holds the same."""
        return list(self.keep(name, lambda: self._state.query(sql)))

    def _joined(self, where: str = "") -> str:
        """Return what SQL reads from: `d` are the documents, `v` what the view has of each."""
        if not where:
            return f"FROM ({self.relation}) v JOIN documents d ON d.id = v.document"
        # What narrows is about the documents: SQLite would list the whole view first.
        joined = f"FROM documents d CROSS JOIN ({self.relation}) v ON v.document = d.id"
        return f"{joined} WHERE {where}"


class ViewRow(NamedTuple):
    """A document of a view.

    `changed` is since when it has these bytes, in seconds since the epoch; `problem` why the note
    cannot be taken at its word, where that is so.
    """

    path: str
    document: int
    changed: int
    problem: str


class KnownFile(NamedTuple):
    """A file as it was when last read; `document` is None for a file that is no readable note."""

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
        """Return the number of every document of any view, by path and blob.

        Those that cannot be read are left out: what counts instead is another matter in each view.
        """
        sql = f"SELECT path, blob, id FROM documents WHERE state <> '{NoteState.UNREADABLE.value}'"
        return {(path, blob): number for path, blob, number in self._state.query(sql)}

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

    def drop_documents(self, documents: Iterable[int]) -> None:
        """Forget those of the documents that no view has any more."""
        self._state.execute_many(
            "DELETE FROM documents WHERE id = ?1 "
            "AND NOT EXISTS (SELECT 1 FROM view_documents WHERE document = ?1)",
            ((document,) for document in documents),
        )

    def stats(self) -> dict[str, Stat]:
        """Return size and times of every file that was seen, by path."""
        rows = self._state.query("SELECT path, size, mtime, ctime, inode FROM files")
        return {row[0]: row[1:] for row in rows}

    def files(self, paths: Sequence[str] | None = None) -> dict[str, KnownFile]:
        """Return what is known of these files (of others too where they are many), or of all."""
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
        """Return the paths of all files that were seen, sorted."""
        return [path for (path,) in self._state.query("SELECT path FROM files ORDER BY path")]

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
        """Remember files as they are now, by path, and the documents that they are."""
        self._state.execute_many(
            "INSERT OR REPLACE INTO files (path, blob, size, mtime, ctime, inode, problem) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(path, file.blob, *file.stat, file.problem) for path, file in files.items()],
        )
        self._drop_from_work_tree([path for path, file in files.items() if file.document is None])
        self._state.execute_many(
            f"INSERT OR REPLACE INTO view_documents SELECT {WORK_TREE}, f.path, d.id, "
            f"{_CHANGED_AT}, f.problem, d.project FROM files f, documents d "
            "WHERE d.id = ? AND f.path = ?",
            [(file.document, path) for path, file in files.items() if file.document is not None],
        )

    def drop_files(self, paths: Iterable[str]) -> None:
        """Forget files that are gone."""
        gone = list(paths)
        self._state.execute_many("DELETE FROM files WHERE path = ?", [(path,) for path in gone])
        self._drop_from_work_tree(gone)

    def set_blob(self, path: str, blob: str) -> None:
        """Remember the blob of a file that is no note, now that it was read."""
        sql = "UPDATE files SET blob = ? WHERE path = ? AND blob = ''"
        self._state.execute(sql, (blob, path))

    def problems(self) -> list[tuple[str, str]]:
        """Return path and reason of every file that was not read, or not fully, and of twins.

        Those come first that cannot be taken at their word.
        """
        warned = self._state.query(
            "SELECT v.path, w.value FROM documents d JOIN view_documents v ON v.document = d.id, "
            "json_each(d.warnings) w WHERE d.warnings <> '[]' AND v.problem = '' "
            f"AND v.view = {WORK_TREE}"
        )
        told = sorted([*self.unread(), *warned], key=lambda each: str(each[0]))
        twins = [
            (path, f"another file has the same name on some systems: {first}")
            for first, *others in find_twins(self.paths())
            for path in others
        ]
        return [*self.in_doubt(), *told, *twins]

    def in_doubt(self) -> list[tuple[str, str]]:
        """Return path and reason of every note that cannot be taken at its word."""
        return self._describe("instr(problem, ?) > 0")

    def unread(self) -> list[tuple[str, str]]:
        """Return path and reason of every other file that was not read."""
        return self._describe("instr(problem, ?) = 0")

    def too_large(self) -> list[str]:
        """Return the path of every note that was not read because of its size."""
        return [path for path, problem in self.unread() if problem.startswith(LARGER)]

    def is_committed(self, path: str, blob: str) -> bool:
        """Tell whether some commit brought these bytes to this path."""
        sql = "SELECT 1 FROM committed WHERE path = ? AND blob = ?"
        return is_text(path) and bool(self._state.query(sql, (path, blob)))

    def put_commit_dates(self, dates: Mapping[tuple[str, str], int], is_anew: bool = False) -> None:
        """Remember when (seconds since the epoch) a commit last wrote these bytes to a path.

        With `is_anew`, because another history is checked out, all other commits are forgotten.
        """
        if is_anew:
            self._state.execute("DELETE FROM committed")
        self._state.execute_many(
            "INSERT INTO committed VALUES (?, ?, ?) "
            "ON CONFLICT (path, blob) DO UPDATE SET at = max(at, excluded.at)",
            ((path, blob, at) for (path, blob), at in dates.items()),
        )
        dated = (
            f"UPDATE view_documents SET changed = (SELECT {_CHANGED_AT} FROM files f "
            f"WHERE f.path = view_documents.path) WHERE view = {WORK_TREE}"
        )
        if is_anew:
            self._state.execute(dated)
        else:
            self._state.execute_many(f"{dated} AND path = ?", {(path,) for path, _ in dates})

    def find_view(self, key: str) -> int | None:
        """Return the number of a commit's stored view, which counts as used now."""
        rows = self._state.query("SELECT id FROM views WHERE key = ?", (key,))
        if not rows:
            return None
        with contextlib.suppress(LockTimeoutError):
            used = (time.time(), rows[0][0])
            self._state.execute("UPDATE views SET used = ? WHERE id = ?", used)
        return int(rows[0][0])

    def add_view(self, key: str, rows: Sequence[ViewRow]) -> int:
        """Store a commit's view and return its number."""
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
        """Return the numbers of all stored views whose key ends so, by key."""
        rows = self._state.query("SELECT key, id FROM views")
        return {key: number for key, number in rows if key.endswith(suffix)}

    def view_dates(self, number: int) -> dict[int, int]:
        """Return a stored view's documents, and since when each has its bytes."""
        sql = "SELECT document, changed FROM view_documents WHERE view = ?"
        return dict(self._state.query(sql, (number,)))

    def clear_views(self) -> None:
        """Forget all views of commits; their documents stay until they are dropped."""
        self._state.execute("DELETE FROM view_documents WHERE view <> ?", (WORK_TREE,))
        self._state.execute("DELETE FROM views")

    def _drop_from_work_tree(self, paths: Iterable[str]) -> None:
        sql = f"DELETE FROM view_documents WHERE view = {WORK_TREE} AND path = ?"
        self._state.execute_many(sql, [(path,) for path in paths])

    def _describe(self, which: str) -> list[tuple[str, str]]:
        sql = f"SELECT path, problem FROM files WHERE problem <> '' AND {which} ORDER BY 1"
        return self._state.query(sql, (IN_DOUBT,))

    def _drop_view(self, number: int) -> None:
        held = self._state.query("SELECT document FROM view_documents WHERE view = ?", (number,))
        self._state.execute("DELETE FROM view_documents WHERE view = ?", (number,))
        self._state.execute("DELETE FROM views WHERE id = ?", (number,))
        self.drop_documents(row[0] for row in held)


def _quote(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def read_places(
    state: StateDatabase, places: Mapping[tuple[int, int], float]
) -> dict[tuple[int, int], tuple[NoteRecord, SectionRecord]]:
    """Return note and section at these (document, ordinal).

    Each is given with the time (seconds since the epoch) since when the note has its bytes, as
    `View.choose` gives it: asking for it again takes most of the time. Problems are the view's,
    and left out too.
    """
    ordinals: defaultdict[int, list[int]] = defaultdict(list)
    for document, ordinal in places:
        ordinals[document].append(ordinal)
    marks = ", ".join("?" * len(ordinals))  # So that the statement is compiled but once.
    sql = f"{_NOTE_ALONE}, sections FROM documents d WHERE id IN ({marks})"
    found = {}
    for *values, text in state.query(sql, list(ordinals)):
        document = values[0]
        sections = decode_sections(text, document, ordinals[document])
        values[_CHANGED] = places[document, sections[0].ordinal]
        record = _read_note(values)
        found.update({(document, each.ordinal): (record, each) for each in sections})
    return found


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
