"""The log of queries and their results: recall signals and the account of tokens."""

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

#: Sections that are kept of a call.
MAX_SECTIONS = 50

#: The kinds of a pack, and of what a hook showed before a tool call, unasked.
PACK, TOOL = "pack", "tool"

_LARGE = 1024 * 1024


class LoggedQuery(NamedTuple):
    """One recall, pack or tool call (`kind`): `sent` is its tokens, `flat` the whole vault's.

    `at` is in seconds since the epoch; `found` counts sections that answered the question. `flat`
    is -1 where nobody counted it.
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
    """Note down a call with its sections (path, heading, score); return the file's size.

    A failure to write is no failure of the command: then 0 is returned.
    """
    kept = [[path, heading, round(score, 4)] for path, heading, score in sections[:MAX_SECTIONS]]
    name = f"{time.time_ns():x}{os.urandom(3).hex()}"
    query = escape_bytes(call.query)
    values = (call.at, call.kind, query, call.agent, call.session, call.sent, call.flat)
    line = json.dumps([name, *values, call.found, kept]) + "\n"
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
    """Tell whether the lines should be taken into the database now."""
    return size > _LARGE


#: Calls that are kept with their signals.
MAX_CALLS = 10_000

_FOLDING = "calls.folding"


class Signal(NamedTuple):
    """A section of a note surfaced: when, for which question, at which rank (from 1), how well."""

    at: float
    query: str
    rank: int
    score: float
    kind: str
    session: str
    heading: str


class LoggedHits(NamedTuple):
    """A call, and the sections that came up in it, best first: path, heading, score.

    The score is None where a pack's receipt names them.
    """

    call: LoggedQuery
    sections: tuple[tuple[str, str, float | None], ...]


class NoteUsage(NamedTuple):
    """How often a note surfaced (once a call), when last, and its best score ever.

    `well` and `badly` count the sessions that used what they were shown of it, by their end;
    `held` and `failed` count the assertions that it met, and those that expected its absence.
    """

    path: str
    times: int
    last: float
    best: float
    well: int = 0
    badly: int = 0
    held: int = 0
    failed: int = 0


class UsageTotals(NamedTuple):
    """The sums of one agent's calls of a kind in one session; `empty` found nothing."""

    agent: str
    session: str
    kind: str
    calls: int
    sent: int
    flat: int
    empty: int
    first: float
    last: float


_MOST_OUTCOMES = 20_000

#: How the name of an assertion begins, in place of a session's id; no id has a colon.
ASSERTED = "assert:"

#: The fields of `UsageTotals` that are sums.
_SUMS = ("calls", "sent", "flat", "empty")


class SignalStore:
    """The state database's tables of calls; `folder` is where the lines are."""

    def __init__(self, state: StateDatabase, folder: Path) -> None:
        self._state = state
        self._folder = folder

    def fold(self, flat: int = 0, patience: float = WRITER) -> None:
        """Store what was noted down; `flat` counts where the whole vault was not counted.

        Each line is stored once, whatever interrupts it.
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
        while folding.stat().st_size != size:  # A writer may have had the file open still.
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
        """Return the newest calls with their sections, of an agent, session or note if named."""
        wanted = {
            "at >= ?": since,
            "agent = ?": agent,
            "session = ?": session,
            "id IN (SELECT call FROM signals WHERE path = ?)": path,
        }
        given = {clause: value for clause, value in wanted.items() if value}
        rows = self._state.query(
            f"SELECT id, {', '.join(LoggedQuery._fields)} FROM calls "
            f"WHERE {' AND '.join(['1', *given])} ORDER BY at DESC, id DESC LIMIT ?",
            [*given.values(), limit],
        )
        sql = "SELECT path, heading, score FROM signals WHERE call = ? ORDER BY number"
        return [
            LoggedHits(LoggedQuery(*values), tuple(self._state.query(sql, (name,))))
            for name, *values in rows
        ]

    def signals(self, path: str) -> list[Signal]:
        """Return when and how a note surfaced, newest first."""
        rows = self._state.query(
            "SELECT c.at, c.query, s.number, s.score, c.kind, c.session, s.heading "
            "FROM signals s JOIN calls c ON c.id = s.call WHERE s.path = ? ORDER BY c.at DESC",
            (path,),
        )
        return [Signal(*row) for row in rows]

    def surfaced(self) -> dict[str, NoteUsage]:
        """Return all notes that ever surfaced, by path; some may be gone."""
        is_asserted = f"(session LIKE '{ASSERTED}%')"
        ends = [(well, asserted) for asserted in (0, 1) for well in (1, 0)]
        sums = ", ".join(f"sum(well = {well} AND {is_asserted} = {a})" for well, a in ends)
        counts = f"SELECT path, {sums} FROM outcomes GROUP BY path"
        ended = {path: counted for path, *counted in self._state.query(counts)}
        rows = [
            (*row, *ended.get(row[0], ()))
            for row in self._state.query("SELECT path, times, last, best FROM surfaced")
        ]
        return {each.path: each for each in (NoteUsage(*row) for row in rows)}

    def shown_to(self, session: str) -> list[str]:
        """Return the notes of which a session was shown something, as far as was stored."""
        calls = "(SELECT id FROM calls WHERE session = ?)"
        sql = f"SELECT DISTINCT path FROM signals WHERE call IN {calls}"
        return [path for (path,) in self._state.query(sql, (session,))]

    def put_outcome(self, session: str, paths: Iterable[str], ended_well: bool) -> None:
        """Store which notes a session used, and how it ended, in place of what was stored of it.

        An assertion is stored under its name, as `NoteUsage` counts it.
        """
        with self._state.transaction():
            self._state.execute("DELETE FROM outcomes WHERE session = ?", (session,))
            self._state.execute_many(
                "INSERT INTO outcomes (session, path, well) VALUES (?, ?, ?)",
                [(session, path, int(ended_well)) for path in paths],
            )
            last = "(SELECT max(id) FROM outcomes)"
            self._state.execute(f"DELETE FROM outcomes WHERE id <= {last} - {_MOST_OUTCOMES}")

    def accounts(self) -> list[UsageTotals]:
        """Return the sums of all calls ever, the latest session first."""
        sql = f"SELECT {', '.join(UsageTotals._fields)} FROM accounts ORDER BY last DESC, kind"
        return [UsageTotals(*row) for row in self._state.query(sql)]

    def rename(self, old: str, new: str) -> None:
        """Let a note keep its signals under another path."""
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
        """Add the calls and counts of another vault's state to these, and remove them there.

        They are removed last, so that nothing is lost where this is interrupted.
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
        name, at, kind, query, agent, session, sent, counted, found, sections = row
        whole = flat if counted < 0 else counted
        if self._state.query("SELECT 1 FROM calls WHERE id = ?", (name,)):
            return
        values = (name, at, kind, query, agent, session, sent, whole, found)
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
        is_empty = int(bool(query) and not found)
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
        """Forget the oldest calls beyond those that are kept; their sums stay."""
        row = self._state.query(f"SELECT at FROM calls ORDER BY at DESC LIMIT 1 OFFSET {MAX_CALLS}")
        if row:
            old = "(SELECT id FROM calls WHERE at <= ?)"
            self._state.execute(f"DELETE FROM signals WHERE call IN {old}", row[0])
            self._state.execute("DELETE FROM calls WHERE at <= ?", row[0])


def _read_lines(file: Path) -> Iterator[list[Any]]:
    """Yield the lines that can be read; one that was cut off is left out."""
    with open(file, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                if isinstance(row, list) and len(row) == 10:
                    yield row
