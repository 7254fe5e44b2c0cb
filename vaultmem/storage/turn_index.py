"""An index of the turns in this machine's transcripts: tables of the state database (FTS5).

It holds terms, files, commands, and the offset of each line in its transcript, from where the text
is read. It is a cache of the transcripts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from math import log1p
from typing import Any, NamedTuple

from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.search.terms import term_sequence
from vaultmem.core.sessions.turns import TranscriptLine
from vaultmem.storage.session_table import Transcripts
from vaultmem.storage.state import StateDatabase

#: The number in a name is the version of its columns.
_TABLES = (
    "CREATE TABLE IF NOT EXISTS turn_marks_1 (session TEXT PRIMARY KEY, mark TEXT NOT NULL) "
    "WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS turn_lines_1 (id INTEGER PRIMARY KEY, session TEXT NOT NULL, "
    "number INTEGER NOT NULL, place INTEGER NOT NULL, at REAL NOT NULL, files TEXT NOT NULL, "
    "command TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS turn_lines_1_session ON turn_lines_1 (session)",
    "CREATE VIRTUAL TABLE IF NOT EXISTS turn_terms_1 USING fts5(terms)",
)

#: Lines added in one transaction, during which other writers wait.
_BATCH = 1_000

#: Most terms of a query that are searched, and most lines that are ranked.
_MAX_TERMS, _CANDIDATES = 64, 400

#: BM25's k1 and b, and the usual number of terms in a turn.
_SATURATION, _NORM, _AVERAGE_TURN_TERMS = 0.6, 0.2, 40


class TurnQuery(NamedTuple):
    """The query and filters of a search for turns; empty ones match all.

    `words` rank; `file` is the end of a path of a file or folder, `command` a part of a command.
    `since` and `until` are seconds since the epoch.
    """

    words: str = ""
    file: str = ""
    command: str = ""
    since: float | None = None
    until: float | None = None


class TurnIndex:
    """The index of one vault's transcripts."""

    def __init__(self, state: StateDatabase, transcripts: Transcripts) -> None:
        self._state = state
        self._transcripts = transcripts
        for statement in _TABLES:
            state.execute(statement)

    def update_all(self) -> None:
        """Index the new lines of all transcripts, and drop transcripts that were deleted."""
        marks = {str(s): str(m) for s, m in self._state.query("SELECT * FROM turn_marks_1")}
        times = self._transcripts.last_added()
        for session in marks.keys() - times:
            with self._state.transaction():
                self._drop(session)
        for session in times:
            if not self._transcripts.is_current(session, marks.get(session, "")):
                self.update(session)

    def update(self, session: str) -> None:
        """Index the new lines of a transcript, in several transactions if there are many."""
        while self._update_batch(session):
            pass

    def find(
        self, turn_query: TurnQuery, sessions: Iterable[str], limit: int
    ) -> list[tuple[str, int, TranscriptLine]]:
        """Return session, turn number and line of matching turns, one line for each turn.

        The best is first; without words, the newest.
        """
        terms = list(dict.fromkeys(term_sequence(turn_query.words)))[:_MAX_TERMS]
        if turn_query.words and not terms:
            return []
        conditions, values = _choose(turn_query)
        conditions.append("t.session IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(sessions)))
        source = "FROM turn_lines_1 t"
        columns, order, max_rows = (
            "t.session, t.number, t.place, ''",
            "t.at DESC, t.id DESC",
            4 * limit,
        )
        if terms:
            source += " JOIN turn_terms_1 ON turn_terms_1.rowid = t.id"
            conditions.append("turn_terms_1 MATCH ?")
            values.append(" OR ".join(map(_quote, terms)))
            columns, order = "t.session, t.number, t.place, terms", "bm25(turn_terms_1), t.at DESC"
            max_rows = max(max_rows, _CANDIDATES)
        where = " AND ".join(conditions)
        statement = f"SELECT {columns} {source} WHERE {where} ORDER BY {order} LIMIT ?"
        rows = self._state.query(statement, [*values, max_rows])
        first: dict[tuple[str, int], int] = {}
        for session, number, offset, _ in self._rank(terms, rows):
            first.setdefault((session, number), offset)
        candidates = (
            (*key, self._transcripts.read_at(key[0], offset)) for key, offset in first.items()
        )
        turns = ((s, n, line) for s, n, line in candidates if line is not None)
        return list(islice(turns, limit))

    def _rank(self, terms: Sequence[str], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return rows by BM25 with a weak length norm: turns with all terms rank first.

        SQLite's strong norm would rank a short turn with half of the terms first.
        """
        if not terms:
            return rows
        total = self._state.query("SELECT count(*) FROM turn_lines_1")[0][0]
        count = "SELECT count(*) FROM turn_terms_1 WHERE turn_terms_1 MATCH ?"
        counts = {term: self._state.query(count, [_quote(term)])[0][0] for term in terms}
        rarity = {term: log1p(total / (1 + number)) for term, number in counts.items()}

        def score(row: tuple[Any, ...]) -> float:
            frequencies = Counter(row[3].split())
            norm = _SATURATION * (1 - _NORM + _NORM * frequencies.total() / _AVERAGE_TURN_TERMS)
            return -sum(
                rarity[term] * frequencies[term] / (frequencies[term] + norm) for term in terms
            )

        return sorted(rows, key=score)

    def _update_batch(self, session: str) -> bool:
        """Index the next lines of a transcript; return whether there might be more."""
        with self._state.transaction():
            query = "SELECT mark FROM turn_marks_1 WHERE session = ?"
            mark = "".join(str(value) for (value,) in self._state.query(query, [session]))
            count = 0
            for offset, after, line in self._transcripts.read_from(session, mark):
                if not count and after.rpartition(" ")[0] != mark.rpartition(" ")[0]:
                    self._drop(session)
                self._add(session, offset, line)
                mark, count = after, count + 1
                if count == _BATCH:
                    break
            if count:
                statement = "INSERT OR REPLACE INTO turn_marks_1 VALUES (?, ?)"
                self._state.execute(statement, [session, mark])
        return count == _BATCH

    def _add(self, session: str, offset: int, line: TranscriptLine) -> None:
        row = self._state.execute(
            "INSERT INTO turn_lines_1 (session, number, place, at, files, command) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [
                session,
                line.number,
                offset,
                read_timestamp(line.at) or 0.0,
                "".join(f"/{file}\n" for file in line.files),
                line.command,
            ],
        )
        terms = " ".join(term_sequence(line.text))
        self._state.execute("INSERT INTO turn_terms_1 (rowid, terms) VALUES (?, ?)", [row, terms])

    def _drop(self, session: str) -> None:
        lines = "(SELECT id FROM turn_lines_1 WHERE session = ?)"
        self._state.execute(f"DELETE FROM turn_terms_1 WHERE rowid IN {lines}", [session])
        self._state.execute("DELETE FROM turn_lines_1 WHERE session = ?", [session])
        self._state.execute("DELETE FROM turn_marks_1 WHERE session = ?", [session])


def _quote(term: str) -> str:
    """Return a term as a string of FTS5's query language."""
    text = term.replace('"', '""')
    return f'"{text}"'


def _choose(turn_query: TurnQuery) -> tuple[list[str], list[object]]:
    """Return the SQL conditions of a query's filters, and their values."""
    conditions, values = list[str](), list[object]()
    if file := turn_query.file.strip().strip("/"):
        # Match the end of a path or a folder in it; without files, match the command.
        conditions.append(
            "(instr(t.files, ?) OR instr(t.files, ?) OR (t.files = '' AND instr(t.command, ?)))"
        )
        values += [f"/{file}\n", f"/{file}/", file]
    if turn_query.command:
        conditions.append("instr(lower(t.command), lower(?))")
        values.append(turn_query.command)
    if turn_query.since is not None:
        conditions.append("t.at >= ?")
        values.append(turn_query.since)
    if turn_query.until is not None:
        conditions.append("t.at <= ?")
        values.append(turn_query.until)
    return conditions, values
