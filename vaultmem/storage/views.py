"""Views: which documents the work tree holds, or a commit, or several of these together."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.indexing.rows import decode_sections
from vaultmem.core.lifecycle import Kind, State
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.storage.state import StateDatabase

T = TypeVar("T")

#: A record's columns have the names of its fields, but for these.
_COLUMNS = {"document": "d.id", "changed": "v.changed", "problem": "v.problem"}
_NOTE = f"SELECT {', '.join(_COLUMNS.get(name, f'd.{name}') for name in NoteRecord._fields)}"
_NOTE_ALONE = _NOTE.replace("v.changed, v.problem", "0, ''")
_PINNED, _TAGS, _WARNINGS, _CHANGED = map(
    NoteRecord._fields.index, ("pinned", "tags", "warnings", "changed")
)

_WORK_TREE = """
SELECT f.document AS document, coalesce(c.at, f.mtime / 1000000000) AS changed, f.problem AS problem
FROM files f LEFT JOIN committed c ON c.path = f.path AND c.blob = f.blob
WHERE f.document IS NOT NULL
"""

_WORK_TREE_TIMES = _WORK_TREE.replace(", f.problem AS problem", "")

#: What `NoteFilter.shows_proposals` is about.
PROPOSED = f"d.kind = '{Kind.PREFERENCE.value}' AND d.state = '{State.CANDIDATE.value}'"
_PROPOSALS = f"SELECT d.id FROM documents d WHERE {PROPOSED}"

_EVERYTHING = """
SELECT notes, tokens FROM (SELECT count(*) AS notes, coalesce(sum(tokens), 0) AS tokens
FROM documents) WHERE notes = (SELECT count(*) FROM files WHERE document IS NOT NULL)
"""


class Source(NamedTuple):
    """What a view shows: the work tree (`number` is None) or a commit's stored documents.

    `name` is what a person calls it, `branch` is empty unless it is one (bytes of either that are
    no UTF-8 are escapes), `commit` may be empty for a work tree, `at` is the commit's time in
    seconds since the epoch.
    """

    name: str
    branch: str
    commit: str
    at: int
    number: int | None = None


class View:
    """The documents of one source, or the union of several; read by SQL, never held as a list.

    The note at the path `without` is left out.
    """

    def __init__(
        self, state: StateDatabase, sources: Sequence[Source] = (), without: str = ""
    ) -> None:
        self._state = state
        self.sources = tuple(sources)
        self.without = without

    @property
    def is_work_tree(self) -> bool:
        """Tell whether this is the folder as it is, and nothing else."""
        return all(source.number is None for source in self.sources)

    @property
    def has_work_tree(self) -> bool:
        """Tell whether the folder is among what is looked at."""
        return not self.sources or any(source.number is None for source in self.sources)

    @property
    def files(self) -> str:
        """What SQL reads `document`, `path` and `blob` of each note from."""
        if not (self.sources or self.without):
            return "files"
        return f"(SELECT d.id AS document, d.path AS path, d.blob AS blob {self._joined})"

    def key(self) -> tuple[object, ...]:
        """Return a value that differs whenever the view holds other documents."""
        stamp = self._state.get("view") if self.has_work_tree else ""
        return (stamp, self.without, *(source.number for source in self.sources))

    def documents(self) -> list[int]:
        """Return the numbers of all documents."""
        return [each for (each,) in self._state.query(f"SELECT document FROM ({self._relation})")]

    def choose(self, note_filter: NoteFilter) -> list[tuple[int, float]]:
        """Return number and time (seconds since the epoch) of documents, in the order of paths.

        They are those that the filter admits, of any state where nothing else decides.
        """
        if not note_filter.is_by_state_alone:
            chosen = self.records()
            return [(r.document, r.changed) for r in chosen if note_filter.admits(r)]
        kept = "" if note_filter.shows_proposals else f"NOT IN ({_PROPOSALS})"
        where, also = (f"WHERE d.id {kept}", f"AND f.document {kept}") if kept else ("", "")
        listed = f"SELECT v.document, v.changed {self._joined} {where} ORDER BY d.path, d.blob"
        alone = f"{_WORK_TREE_TIMES} {also} ORDER BY f.path"
        return self._state.query(listed if self.sources or self.without else alone)

    def paths(self, where: str = "", values: Sequence[Any] = ()) -> dict[int, str]:
        """Return the paths of documents by number."""
        clause = f"WHERE {where}" if where else ""
        return dict(self._state.query(f"SELECT d.id, d.path {self._joined} {clause}", values))

    def blobs(self) -> dict[str, str]:
        """Return path and blob of every note; of a union, those of the first source that has it."""
        sql = f"SELECT d.path, d.blob {self._joined} ORDER BY d.id DESC"
        return dict(self._state.query(sql))

    def find_blobs(
        self, beginnings: Iterable[str], known: Container[int] = ()
    ) -> list[tuple[str, str]]:
        """Return path and blob of the notes whose blob ids begin with one of these.

        Documents that are `known` to be in the view are not looked for in it.
        """
        # For many ranges joined by OR, SQLite would not choose the index by itself.
        sql = (
            "SELECT d.id, d.path, d.blob FROM json_each(?) j CROSS JOIN documents d "
            "ON d.blob >= j.value AND d.blob < j.value || 'g'"
        )
        found = self._state.query(sql, (json.dumps(list(beginnings)),))
        numbers = ", ".join(str(int(each[0])) for each in found if each[0] not in known)
        if numbers:
            sql = f"SELECT v.document FROM ({self._relation}) v WHERE v.document IN ({numbers})"
            shown = {document for (document,) in self._state.query(sql)}
            found = [each for each in found if each[0] in known or each[0] in shown]
        return [(path, blob) for _, path, blob in found]

    def records(self, where: str = "", values: Sequence[Any] = ()) -> list[NoteRecord]:
        """Return the notes in the order of their paths."""
        clause = f"WHERE {where}" if where else ""
        sql = f"{_NOTE} {self._joined} {clause} ORDER BY d.path, d.blob"
        return [_read_note(row) for row in self._state.query(sql, values)]

    def problems(self) -> dict[int, str]:
        """Return, by document, why the notes cannot be taken at their word that cannot."""
        sql = f"SELECT document, problem FROM ({self._relation}) WHERE problem <> ''"
        return dict(self._keep("problems", sql))

    def pinned(self) -> list[NoteRecord]:
        """Return the pinned notes in the order of their paths."""
        found = self._keep("pinned", f"SELECT d.id {self._joined} WHERE d.pinned = 1")
        records = self.records_of(row[0] for row in found).values()
        return sorted(records, key=lambda record: (record.path, record.blob))

    def changed_at(self, path: str) -> float | None:
        """Return when a file, be it a note or not, came to be as it is; None if it is unknown.

        In seconds since the epoch: the commit that brought these bytes, else the file's own time.
        """
        sql = f"SELECT v.changed {self._joined} WHERE d.path = ?"
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
        own = "WHERE d.pinned = 0 AND d.path NOT LIKE 'primed/%'"
        return self._list_first(f"{own} ORDER BY max(d.updated, d.created) DESC, v.changed", limit)

    def last_changed(self, limit: int) -> list[NoteRecord]:
        """Return the notes that came to be as they are last, whatever they say of themselves."""
        return self._list_first("ORDER BY v.changed", limit)

    def _list_first(self, order: str, limit: int) -> list[NoteRecord]:
        sql = f"{_NOTE} {self._joined} {order} DESC, d.path LIMIT ?"
        return [_read_note(row) for row in self._state.query(sql, (limit,))]

    def count_states(self) -> dict[str, int]:
        """Return how many notes are in each state, the most first."""
        grouped = f"{self._joined} GROUP BY d.state ORDER BY 2 DESC, 1"
        return dict(self._state.query(f"SELECT d.state, count(*) {grouped}"))

    def records_of(self, documents: Iterable[int]) -> dict[int, NoteRecord]:
        """Return the records of these documents by number."""
        rows = self._state.query(
            f"{_NOTE} FROM json_each(?) j CROSS JOIN documents d ON d.id = j.value "
            f"JOIN ({self._relation}) v ON v.document = d.id",
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
        joined = f"SELECT count(*), coalesce(sum(d.tokens), 0) {self._joined}"
        # Most often every document is of a file: then no join is needed.
        found = [] if self.sources or self.without else self._keep("everything", _EVERYTHING)
        notes, tokens = (found or self._keep("totals", joined))[0]
        return int(notes), int(tokens)

    def sources_of(self, document: int) -> tuple[str, ...]:
        """Return the names of the sources that hold a document."""
        sql = "SELECT 1 FROM ({}) WHERE document = ?"
        held = ((s, self._state.query(sql.format(_relation(s)), (document,))) for s in self.sources)
        return tuple(source.name for source, found in held if found)

    def keep(self, name: str, make: Callable[[], T]) -> T:
        """Return what is made of the view's files alone, from memory while these are the same."""
        key = (self.key(), self._state.in_use)
        found = self._state.made.get(name)
        if found is None or found[0] != key:
            found = self._state.made[name] = (key, make())
        return found[1]

    def _keep(self, name: str, sql: str) -> list[tuple[Any, ...]]:
        """Return rows about the documents alone, from memory while the view holds the same."""
        return list(self.keep(name, lambda: self._state.query(sql)))

    @cached_property
    def _relation(self) -> str:
        if not self.without:
            return self._union
        path = self.without.replace("'", "''")
        alone = f"SELECT id FROM documents WHERE path = '{path}'"
        return f"SELECT * FROM ({self._union}) WHERE document NOT IN ({alone})"

    @property
    def _union(self) -> str:
        parts = [_relation(source) for source in self.sources] or [_WORK_TREE]
        if len(parts) == 1:
            return parts[0]
        union = " UNION ALL ".join(f"SELECT * FROM ({part})" for part in parts)
        return (
            "SELECT document, max(changed) AS changed, max(problem) AS problem "
            f"FROM ({union}) GROUP BY document"
        )

    @property
    def _joined(self) -> str:
        return f"FROM documents d JOIN ({self._relation}) v ON v.document = d.id"


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


def _relation(source: Source) -> str:
    if source.number is None:
        return _WORK_TREE
    return f"SELECT document, changed, problem FROM view_documents WHERE view = {source.number:d}"


@lru_cache(maxsize=4096)
def _read_list(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def _read_note(row: Sequence[Any]) -> NoteRecord:
    values = list(row)
    values[_PINNED] = bool(values[_PINNED])
    values[_TAGS] = _read_list(values[_TAGS])
    values[_WARNINGS] = _read_list(values[_WARNINGS])
    values[_CHANGED] = float(values[_CHANGED])
    return NoteRecord._make(values)
