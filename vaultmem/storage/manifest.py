"""The manifest: which (path, blob) pairs the work tree holds, and what each note says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from vaultmem.core.paths import fold_name
from vaultmem.core.query import NoteFilter
from vaultmem.core.record import NoteRecord, SectionRecord
from vaultmem.storage.scan import Stat
from vaultmem.storage.state import State

if TYPE_CHECKING:
    from vaultmem.core.analysis import AnalysedNote

_RECORD = """
SELECT d.id, d.path, d.blob, d.title, d.kind, d.state, d.pinned, d.context, d.tags, d.created,
       d.updated, d.confidence, d.source, d.agent, d.session, d.tokens, d.body_digest, d.warnings,
       coalesce(c.at, f.mtime / 1000000000)
FROM documents d JOIN files f ON f.document = d.id
LEFT JOIN committed c ON c.path = d.path AND c.blob = d.blob
"""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file as it was when last read; `document` is None for a file that is no readable note."""

    blob: str
    stat: Stat
    document: int | None
    problem: str


class Manifest:
    """The state database's tables of files, documents and sections."""

    def __init__(self, state: State) -> None:
        self._state = state

    def stats(self) -> dict[str, Stat]:
        """Return size and times of every file that was seen, by path."""
        rows = self._state.query("SELECT path, size, mtime, ctime, inode FROM files")
        return {row[0]: row[1:] for row in rows}

    def files(self, paths: Sequence[str] | None = None) -> dict[str, KnownFile]:
        """Return what is known of these files (of others too where they are many), or of all."""
        sql = "SELECT path, blob, size, mtime, ctime, inode, document, problem FROM files"
        if paths is None or len(paths) > 1_000:
            rows = self._state.query(sql)
        else:
            rows = []
            for path in paths:
                rows.extend(self._state.query(f"{sql} WHERE path = ?", (path,)))
        return {r[0]: KnownFile(r[1], (r[2], r[3], r[4], r[5]), r[6], r[7]) for r in rows}

    def blobs(self) -> dict[str, str]:
        """Return path and blob of every file whose bytes were read: notes and others."""
        return dict(self._state.query("SELECT path, blob FROM files WHERE blob <> ''"))

    def put_file(self, path: str, known: KnownFile) -> None:
        """Remember a file as it is now."""
        values = (path, known.blob, *known.stat, known.document, known.problem)
        self._state.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def drop_files(self, paths: Iterable[str]) -> None:
        """Forget files that are gone."""
        self._state.execute_many("DELETE FROM files WHERE path = ?", ((path,) for path in paths))

    def drop_documents(self, documents: Iterable[int]) -> None:
        """Forget those of the documents that no view uses any more."""
        unused = "? AND NOT EXISTS (SELECT 1 FROM files f WHERE f.document = "
        rows = [(document,) for document in documents]
        self._state.execute_many(
            f"DELETE FROM sections WHERE document = {unused} sections.document)", rows
        )
        self._state.execute_many(f"DELETE FROM documents WHERE id = {unused} documents.id)", rows)

    def find_document(self, path: str, blob: str) -> int | None:
        """Return the number of a document that was seen before."""
        sql = "SELECT id FROM documents WHERE path = ? AND blob = ?"
        rows = self._state.query(sql, (path, blob))
        return int(rows[0][0]) if rows else None

    def add_document(self, note: AnalysedNote) -> int:
        """Remember a note with its sections and return its number."""
        values = (
            *(note.path, note.blob, note.title, note.kind, note.state, note.pinned, note.context),
            *(json.dumps(note.tags), note.created, note.updated, note.confidence, note.source),
            *(note.agent, note.session, note.tokens, note.body_digest, json.dumps(note.warnings)),
        )
        marks = ", ".join("?" * len(values))
        document = self._state.execute(f"INSERT INTO documents VALUES (NULL, {marks})", values)
        rows = [
            (document, s.ordinal, s.heading, json.dumps(s.parents), s.start, s.end, s.line)
            for s in note.sections
        ]
        self._state.execute_many("INSERT INTO sections VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        return document

    def view(self, note_filter: NoteFilter | None = None) -> list[int]:
        """Return the documents of the work tree, or those of them that a filter admits."""
        if note_filter is None:
            sql = "SELECT document FROM files WHERE document IS NOT NULL"
            return [row[0] for row in self._state.query(sql)]
        states = sorted(state.value for state in note_filter.wanted_states)
        marks = ", ".join("?" * len(states))
        sql = f"FROM documents d JOIN files f ON f.document = d.id WHERE d.state IN ({marks})"
        if note_filter.is_by_state_alone:
            return [row[0] for row in self._state.query(f"SELECT d.id {sql}", states)]
        columns = "SELECT d.id, d.kind, d.state, d.tags, d.context, d.pinned"
        rows = self._state.query(f"{columns} {sql}", states)
        return [
            number
            for number, kind, state, tags, context, pinned in rows
            if note_filter.admits(
                kind,
                state,
                tuple(json.loads(tags)) if note_filter.tags else (),
                context,
                bool(pinned),
            )
        ]

    def records(self, where: str = "", values: Sequence[Any] = ()) -> list[NoteRecord]:
        """Return the work tree's notes in the order of their paths."""
        clause = f"WHERE {where}" if where else ""
        rows = self._state.query(f"{_RECORD} {clause} ORDER BY d.path", values)
        return [_read_record(row) for row in rows]

    def recent(self, limit: int) -> list[NoteRecord]:
        """Return notes that are neither pinned nor primed, the last changed first."""
        rows = self._state.query(
            f"{_RECORD} WHERE d.pinned = 0 AND d.path NOT LIKE 'primed/%' "
            "ORDER BY max(d.updated, d.created) DESC, 19 DESC, d.path LIMIT ?",
            (limit,),
        )
        return [_read_record(row) for row in rows]

    def records_of(self, documents: Iterable[int]) -> dict[int, NoteRecord]:
        """Return the records of these documents by number."""
        listed = ", ".join(str(int(document)) for document in documents)
        return {record.document: record for record in self.records(f"d.id IN ({listed})")}

    def sections_of(self, documents: Iterable[int]) -> dict[tuple[int, int], SectionRecord]:
        """Return all sections of these documents by document and ordinal."""
        listed = ", ".join(str(int(document)) for document in documents)
        rows = self._state.query(f"SELECT * FROM sections WHERE document IN ({listed})")
        return {(row[0], row[1]): _read_section(row) for row in rows}

    def sections_at(
        self, places: Iterable[tuple[int, int]]
    ) -> dict[tuple[int, int], SectionRecord]:
        """Return the sections at these (document, ordinal)."""
        listed = ", ".join(f"({int(document)}, {int(ordinal)})" for document, ordinal in places)
        if not listed:
            return {}
        rows = self._state.query(
            f"WITH wanted (d, o) AS (VALUES {listed}) "
            "SELECT s.* FROM wanted CROSS JOIN sections s ON s.document = d AND s.ordinal = o"
        )
        return {(row[0], row[1]): _read_section(row) for row in rows}

    def problems(self) -> list[tuple[str, str]]:
        """Return path and reason of every file that was not read, or not fully."""
        rows = self._state.query(
            "SELECT path, problem FROM files WHERE problem <> '' UNION ALL "
            "SELECT d.path, w.value FROM documents d JOIN files f ON f.document = d.id, "
            "json_each(d.warnings) w ORDER BY 1"
        )
        return [(str(path), str(problem)) for path, problem in rows] + self._twins()

    def _twins(self) -> list[tuple[str, str]]:
        """Return the notes whose names differ in case or in NFC and NFD alone."""
        by_name: dict[str, list[str]] = {}
        for (path,) in self._state.query("SELECT path FROM files WHERE document IS NOT NULL"):
            by_name.setdefault(fold_name(PurePosixPath(path)), []).append(path)
        return [
            (path, f"another note has the same name on some systems: {twins[0]}")
            for twins in by_name.values()
            for path in twins[1:]
        ]

    def totals(self) -> tuple[int, int]:
        """Return the number of notes and the tokens of the whole vault."""
        sql = (
            "SELECT count(*), coalesce(sum(d.tokens), 0) FROM documents d JOIN files f "
            "ON f.document = d.id"
        )
        notes, tokens = self._state.query(sql)[0]
        return int(notes), int(tokens)

    def set_blob(self, path: str, blob: str) -> None:
        """Remember the blob of a file that is no note, now that it was read."""
        sql = "UPDATE files SET blob = ? WHERE path = ? AND blob = ''"
        self._state.execute(sql, (blob, path))

    def is_committed(self, path: str, blob: str) -> bool:
        """Tell whether some commit brought these bytes to this path."""
        sql = "SELECT 1 FROM committed WHERE path = ? AND blob = ?"
        return bool(self._state.query(sql, (path, blob)))

    def put_commit_dates(self, dates: Mapping[tuple[str, str], int]) -> None:
        """Remember since when (seconds since the epoch) git has had a path with these bytes."""
        rows = ((path, blob, at) for (path, blob), at in dates.items())
        self._state.execute_many("INSERT OR IGNORE INTO committed VALUES (?, ?, ?)", rows)


def _read_record(row: tuple[Any, ...]) -> NoteRecord:
    values = list(row)
    values[6] = bool(row[6])
    values[8] = _read_list(row[8])
    values[17] = _read_list(row[17])
    values[18] = float(row[18])
    return NoteRecord(*values)


def _read_section(row: tuple[Any, ...]) -> SectionRecord:
    document, ordinal, heading, parents, *place = row
    return SectionRecord(document, ordinal, heading, _read_list(parents), *place)


def _read_list(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))
