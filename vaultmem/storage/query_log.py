"""The query log: recalls and packs with their hits, and sums of tokens."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.core.text.display import escape_bytes
from vaultmem.storage.leases import open_file
from vaultmem.storage.lock import WRITER, hold_lock
from vaultmem.storage.state import StateDatabase

#: The file's name, next to the state database.
LOG = "calls.log"

#: Sections that are stored for a call.
MAX_SECTIONS = 50

#: The kinds of a context pack, and of what a hook showed before a tool call.
PACK, TOOL = "pack", "tool"

_MAX_LOG_BYTES = 1024 * 1024


class LoggedQuery(NamedTuple):
    """One recall, pack or tool call (`kind`): `sent` is its tokens, `flat` the whole vault's.

    `at` is in seconds since the epoch, `found` the number of hits; `flat` is -1 if not counted.
    """

    at: float
    kind: str
    query: str
    agent: str
    session: str
    sent: int
    flat: int
    found: int


def append(folder: Path, call: LoggedQuery, sections: Sequence[tuple[str, str, float]]) -> int:
    """Append a call with its sections (path, heading, score) to the log file.

    Return the file's size in bytes, 0 if writing failed.
    """
    rows = [[path, heading, round(score, 4)] for path, heading, score in sections[:MAX_SECTIONS]]
    name = f"{time.time_ns():x}{os.urandom(3).hex()}"
    query = escape_bytes(call.query)
    values = (call.at, call.kind, query, call.agent, call.session, call.sent, call.flat)
    line = json.dumps([name, *values, call.found, rows]) + "\n"
    try:
        descriptor = open_file(folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, line.encode())
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
    except OSError:
        return 0


def is_large(size: int) -> bool:
    """Return whether the log file (size in bytes) should be folded into the database now."""
    return size > _MAX_LOG_BYTES


#: Calls that are stored with their signals.
MAX_CALLS = 10_000

_FOLDING = "calls.folding"


class Signal(NamedTuple):
    """One hit of a note's section: `at` (seconds since the epoch), query, rank (from 1), score."""

    at: float
    query: str
    rank: int
    score: float
    kind: str
    session: str
    heading: str


class LoggedHits(NamedTuple):
    """A call and its sections, best first: path, heading, score.

    The score is None if the sections are from a pack's receipt.
    """

    call: LoggedQuery
    sections: tuple[tuple[str, str, float | None], ...]


class NoteUsage(NamedTuple):
    """Usage of a note: the number of calls with it, the last time, and its best score ever.

    `good_sessions` and `bad_sessions` count sessions that used it, by how they ended;
    `passed_assertions` and `failed_assertions` count assertions with it, by how they ended.
    """

    path: str
    times: int
    last: float
    best: float
    good_sessions: int = 0
    bad_sessions: int = 0
    passed_assertions: int = 0
    failed_assertions: int = 0


class UsageTotals(NamedTuple):
    """The sums of one agent's calls of a kind in one session; `empty` counts those without hits."""

    agent: str
    session: str
    kind: str
    calls: int
    sent: int
    flat: int
    empty: int
    first: float
    last: float


_MAX_OUTCOMES = 20_000

#: The prefix of an assertion's name, which replaces a session id; no id has a colon.
ASSERTED = "assert:"

#: The fields of `UsageTotals` that are sums.
_SUMS = ("calls", "sent", "flat", "empty")


class SignalStore:
    """The state database's tables of calls; `folder` has the log file."""

    def __init__(self, state: StateDatabase, folder: Path) -> None:
        self._state = state
        self._folder = folder

    def fold(self, flat: int = 0, patience: float = WRITER) -> None:
        """Move the log file's lines to the database, each once even if interrupted.

        `flat` replaces a call's own `flat` of -1.
        """
        with hold_lock(self._folder / "calls.lock", patience):
            self._fold(self._folder / LOG, self._folder / _FOLDING, flat)

    def _fold(self, log: Path, folding: Path, flat: int) -> None:
        if not folding.exists():
            try:
                os.replace(log, folding)
            except FileNotFoundError:
                return
        size = -1
        while folding.stat().st_size != size:  # A writer might still have the file open.
            size = folding.stat().st_size
            with self._state.transaction():
                for row in _read_lines(folding):
                    self._take(row, flat)
                self._prune()
        folding.unlink()

    def calls(self, limit: int = MAX_CALLS) -> list[LoggedQuery]:
        """Return the newest calls, newest first."""
        sql = f"SELECT {', '.join(LoggedQuery._fields)} FROM calls ORDER BY at DESC LIMIT ?"
        return [LoggedQuery(*row) for row in self._state.query(sql, (limit,))]

    def showings(
        self, limit: int, *, agent: str = "", session: str = "", path: str = "", since: float = 0.0
    ) -> list[LoggedHits]:
        """Return the newest calls with their sections, filtered by the options that are given."""
        filters = {
            "at >= ?": since,
            "agent = ?": agent,
            "session = ?": session,
            "id IN (SELECT call FROM signals WHERE path = ?)": path,
        }
        conditions = {clause: value for clause, value in filters.items() if value}
        rows = self._state.query(
            f"SELECT id, {', '.join(LoggedQuery._fields)} FROM calls "
            f"WHERE {' AND '.join(['1', *conditions])} ORDER BY at DESC, id DESC LIMIT ?",
            [*conditions.values(), limit],
        )
        sql = "SELECT path, heading, score FROM signals WHERE call = ? ORDER BY number"
        return [
            LoggedHits(LoggedQuery(*values), tuple(self._state.query(sql, (name,))))
            for name, *values in rows
        ]

    def signals(self, path: str) -> list[Signal]:
        """Return the hits of a note, newest first."""
        rows = self._state.query(
            "SELECT c.at, c.query, s.number, s.score, c.kind, c.session, s.heading "
            "FROM signals s JOIN calls c ON c.id = s.call WHERE s.path = ? ORDER BY c.at DESC",
            (path,),
        )
        return [Signal(*row) for row in rows]

    def surfaced(self) -> dict[str, NoteUsage]:
        """Return the usage of all notes that ever were a hit, by path; some might be deleted."""
        is_asserted = f"(session LIKE '{ASSERTED}%')"
        ends = [(well, asserted) for asserted in (0, 1) for well in (1, 0)]
        sums = ", ".join(f"sum(well = {well} AND {is_asserted} = {a})" for well, a in ends)
        counts = f"SELECT path, {sums} FROM outcomes GROUP BY path"
        outcomes = {path: totals for path, *totals in self._state.query(counts)}
        rows = [
            (*row, *outcomes.get(row[0], ()))
            for row in self._state.query("SELECT path, times, last, best FROM surfaced")
        ]
        return {each.path: each for each in (NoteUsage(*row) for row in rows)}

    def shown_to(self, session: str) -> list[str]:
        """Return the notes with sections shown to a session, from the stored calls."""
        calls = "(SELECT id FROM calls WHERE session = ?)"
        sql = f"SELECT DISTINCT path FROM signals WHERE call IN {calls}"
        return [path for (path,) in self._state.query(sql, (session,))]

    def put_outcome(self, session: str, paths: Iterable[str], ended_well: bool) -> None:
        """Replace the stored outcome of a session: the notes it used, and how it ended.

        For an assertion, `session` is its name (see `ASSERTED`).
        """
        with self._state.transaction():
            self._state.execute("DELETE FROM outcomes WHERE session = ?", (session,))
            self._state.execute_many(
                "INSERT INTO outcomes (session, path, well) VALUES (?, ?, ?)",
                [(session, path, int(ended_well)) for path in paths],
            )
            last = "(SELECT max(id) FROM outcomes)"
            self._state.execute(f"DELETE FROM outcomes WHERE id <= {last} - {_MAX_OUTCOMES}")

    def accounts(self) -> list[UsageTotals]:
        """Return the sums of all calls ever, the most recently used first."""
        sql = f"SELECT {', '.join(UsageTotals._fields)} FROM accounts ORDER BY last DESC, kind"
        return [UsageTotals(*row) for row in self._state.query(sql)]

    def rename(self, old: str, new: str) -> None:
        """Move a note's signals and usage to a new path."""
        self.fold()
        with self._state.transaction():
            for table in ("signals", "outcomes"):
                sql = f"UPDATE OR REPLACE {table} SET path = ? WHERE path = ?"
                self._state.execute(sql, (new, old))
            sql = "SELECT times, last, best FROM surfaced WHERE path = ?"
            for times, last, best in self._state.query(sql, (old,)):
                self._surface(new, times, last, best)
            self._state.execute("DELETE FROM surfaced WHERE path = ?", (old,))

    def move_from(self, other: SignalStore) -> None:
        """Move the calls and counts of another vault's state here.

        They are removed there last, so that an interruption loses nothing.
        """
        other.fold()
        with self._state.transaction():
            for table in ("calls", "signals"):
                if rows := other._state.query(f"SELECT * FROM {table}"):
                    marks = ", ".join("?" * len(rows[0]))
                    sql = f"INSERT OR IGNORE INTO {table} VALUES ({marks})"
                    self._state.execute_many(sql, rows)
            for each in other.surfaced().values():
                self._surface(*each[:4])
            rows = other._state.query("SELECT session, path, well FROM outcomes")
            sql = "INSERT OR IGNORE INTO outcomes (session, path, well) VALUES (?, ?, ?)"
            self._state.execute_many(sql, rows)
            self._add_accounts(other.accounts())
        with other._state.transaction():
            for table in ("calls", "signals", "surfaced", "accounts", "outcomes"):
                other._state.execute(f"DELETE FROM {table}")

    def _add_accounts(self, rows: Iterable[UsageTotals]) -> None:
        columns = ", ".join(UsageTotals._fields)
        sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)
        self._state.execute_many(
            f"INSERT INTO accounts ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
            f"ON CONFLICT (agent, session, kind) DO UPDATE SET {sums}, "
            "first = min(first, excluded.first), last = max(last, excluded.last)",
            rows,
        )

    def _take(self, row: list[Any], flat: int) -> None:
        name, at, kind, query, agent, session, sent, counted, hit_count, sections = row
        whole = flat if counted < 0 else counted
        if self._state.query("SELECT 1 FROM calls WHERE id = ?", (name,)):
            return
        values = (name, at, kind, query, agent, session, sent, whole, hit_count)
        columns = f"id, {', '.join(LoggedQuery._fields)}"
        self._state.execute(
            f"INSERT INTO calls ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values
        )
        rows = ((name, number, *each) for number, each in enumerate(sections, 1))
        columns = "call, number, path, heading, score"
        self._state.execute_many(f"INSERT INTO signals ({columns}) VALUES (?, ?, ?, ?, ?)", rows)
        best: dict[str, float] = {}
        for path, _, score in sections:
            best[path] = max(score, best.get(path, score))
        for path, score in best.items():
            self._surface(path, 1, at, score)
        is_empty = int(bool(query) and not hit_count)
        self._add_accounts([UsageTotals(agent, session, kind, 1, sent, whole, is_empty, at, at)])

    def _surface(self, path: str, times: int, last: float, best: float) -> None:
        self._state.execute(
            "INSERT INTO surfaced (path, times, last, best) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (path) DO UPDATE SET "
            "times = times + excluded.times, last = max(last, excluded.last), "
            "best = max(best, excluded.best)",
            (path, times, last, best),
        )

    def _prune(self) -> None:
        """Delete the oldest calls beyond `MAX_CALLS`; their sums stay."""
        row = self._state.query(f"SELECT at FROM calls ORDER BY at DESC LIMIT 1 OFFSET {MAX_CALLS}")
        if row:
            old = "(SELECT id FROM calls WHERE at <= ?)"
            self._state.execute(f"DELETE FROM signals WHERE call IN {old}", row[0])
            self._state.execute("DELETE FROM calls WHERE at <= ?", row[0])


def _read_lines(file: Path) -> Iterator[list[Any]]:
    """Yield the valid lines of a log file; truncated ones are skipped."""
    with open(file, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                if isinstance(row, list) and len(row) == 10:
                    yield row
