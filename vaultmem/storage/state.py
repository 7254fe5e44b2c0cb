"""The state database: what was seen, written and is waiting (SQLite).

A cache but for the write journal, which says who wrote bytes that are not committed yet; if the
database is lost, those count as a person's. Each connection is used by one thread.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vaultmem.errors import VaultError
from vaultmem.storage.lock import hold_lock

_SCHEMA_VERSION = 9

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, blob TEXT NOT NULL,
    title TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, pinned INTEGER NOT NULL,
    context TEXT NOT NULL, tags TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
    confidence REAL, source TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    tokens INTEGER NOT NULL, body_digest TEXT NOT NULL, warnings TEXT NOT NULL,
    sections TEXT NOT NULL, UNIQUE (path, blob)
);
CREATE INDEX documents_pinned ON documents (pinned) WHERE pinned = 1;
CREATE INDEX documents_written ON documents (max(updated, created))
    WHERE pinned = 0 AND path NOT LIKE 'primed/%';
CREATE INDEX documents_tokens ON documents (tokens);
CREATE INDEX documents_session ON documents (session) WHERE session <> '';
CREATE TABLE files (
    path TEXT PRIMARY KEY, blob TEXT NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
    ctime INTEGER NOT NULL, inode INTEGER NOT NULL, document INTEGER, problem TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX files_document ON files (document);
CREATE TABLE views (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE NOT NULL, size INTEGER NOT NULL,
    used REAL NOT NULL
);
CREATE TABLE view_documents (
    view INTEGER NOT NULL, document INTEGER NOT NULL, changed INTEGER NOT NULL,
    PRIMARY KEY (view, document)
) WITHOUT ROWID;
CREATE INDEX view_documents_document ON view_documents (document);
CREATE TABLE committed (
    path TEXT NOT NULL, blob TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (path, blob)
) WITHOUT ROWID;
CREATE TABLE journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, blob TEXT NOT NULL,
    agent TEXT NOT NULL, session TEXT NOT NULL, tool TEXT NOT NULL, at REAL NOT NULL, data BLOB
);
CREATE INDEX journal_path ON journal (path);
CREATE TABLE pending (id INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL);
CREATE TABLE candidates (path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE links (
    document INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL,
    subpath TEXT NOT NULL, text TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
    line INTEGER NOT NULL, embed INTEGER NOT NULL, property TEXT NOT NULL, hidden INTEGER NOT NULL,
    PRIMARY KEY (document, number)
) WITHOUT ROWID;
CREATE INDEX links_property ON links (property);
CREATE TABLE body_links (document INTEGER PRIMARY KEY, links TEXT NOT NULL);
CREATE TABLE aliases (
    document INTEGER NOT NULL, alias TEXT NOT NULL, PRIMARY KEY (document, alias)
) WITHOUT ROWID;
CREATE TRIGGER links_go AFTER DELETE ON documents BEGIN
    DELETE FROM links WHERE document = OLD.id;
    DELETE FROM body_links WHERE document = OLD.id;
    DELETE FROM aliases WHERE document = OLD.id;
END;
CREATE TABLE calls (
    id TEXT PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, query TEXT NOT NULL,
    agent TEXT NOT NULL, session TEXT NOT NULL, sent INTEGER NOT NULL, flat INTEGER NOT NULL,
    found INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE signals (
    call TEXT NOT NULL, number INTEGER NOT NULL, path TEXT NOT NULL, heading TEXT NOT NULL,
    score REAL NOT NULL, PRIMARY KEY (call, number)
) WITHOUT ROWID;
CREATE INDEX signals_path ON signals (path);
CREATE TABLE accounts (
    agent TEXT NOT NULL, session TEXT NOT NULL, kind TEXT NOT NULL, calls INTEGER NOT NULL,
    sent INTEGER NOT NULL, flat INTEGER NOT NULL, empty INTEGER NOT NULL, first REAL NOT NULL,
    last REAL NOT NULL, PRIMARY KEY (agent, session, kind)
) WITHOUT ROWID;
CREATE TABLE surfaced (
    path TEXT PRIMARY KEY, times INTEGER NOT NULL, last REAL NOT NULL, best REAL NOT NULL
) WITHOUT ROWID;
"""


class _DamagedError(Exception):
    """The database's file is none, or not whole."""


class StateDatabase:
    """The database in one folder; opened, repaired or made anew on first use."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "state.sqlite3"
        #: Held by whoever connects, and alone by whoever makes the database or sets it aside:
        #: SQLite takes what lies next to a file for that file's own, whichever file it was.
        self._lock = folder / "state.lock"
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        #: A cache of long queries: each result with the key for which it holds.
        self.kept: dict[str, tuple[object, Any]] = {}

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT."""
        try:
            return self._open().execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._translate(error) from error

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and return the id of the row that it inserted, if any."""
        try:
            return self._open().execute(sql, values).lastrowid or 0
        except sqlite3.DatabaseError as error:
            raise self._translate(error) from error

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row."""
        try:
            self._open().executemany(sql, rows)
        except sqlite3.DatabaseError as error:
            raise self._translate(error) from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything inside durable at once, or not at all."""
        connection = self._open()
        if connection.in_transaction:
            yield
            return
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # Closed already, where it was damaged.
                connection.rollback()
            raise
        self.execute("COMMIT")

    def get(self, key: str) -> str:
        """Return a remembered text, empty if there is none."""
        rows = self.query("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""

    def put(self, key: str, value: str) -> None:
        """Remember a text under a key."""
        self.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def find_damage(self) -> str:
        """Return what SQLite itself finds wrong with the database, empty if nothing.

        Raises:
            VaultError: it is damaged so much that it was set aside.
        """
        told = str(self.query("PRAGMA quick_check(1)")[0][0])
        return "" if told == "ok" else f"the database is damaged ({told})"

    def close(self) -> None:
        """Close the database; it opens again on the next use."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self._connection = self._connect_or_make()
            except sqlite3.DatabaseError as error:
                raise self._translate(error) from error
        return self._connection

    def _connect_or_make(self) -> sqlite3.Connection:
        """Connect; where there is nothing good to connect to, one of those who come makes it."""
        with contextlib.suppress(_DamagedError):
            if connection := self._connect():
                return connection
        with hold_lock(self._lock):
            try:
                connection = self._connect()
            except _DamagedError:
                self._set_aside()
                connection = None
            return connection or self._create()

    def _connect(self) -> sqlite3.Connection | None:
        """Connect to the database, None where there is none of this version.

        Raises:
            _DamagedError: it cannot be read.
        """
        self.kept.clear()
        with hold_lock(self._lock, shared=True), contextlib.ExitStack() as unless_good:
            connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
            unless_good.callback(connection.close)
            try:
                if not self._is_current(connection):
                    return None
            except sqlite3.OperationalError:  # It is in use, or may not be read.
                raise
            except (sqlite3.DatabaseError, FileNotFoundError) as error:
                raise _DamagedError from error
            unless_good.pop_all()
            return connection

    def _is_current(self, connection: sqlite3.Connection) -> bool:
        self._inode = os.stat(self._path).st_ino
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != _SCHEMA_VERSION:
            return False
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("SELECT count(*) FROM meta")
        page = connection.execute("PRAGMA page_size").fetchone()[0]
        if os.stat(self._path).st_size % page:  # SQLite reads what was cut off as zeros.
            raise sqlite3.DatabaseError("the file was cut off")
        return True

    def _create(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        try:
            os.chmod(self._path, 0o600)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(_create_script(connection))
            self._inode = os.stat(self._path).st_ino
        except BaseException:
            connection.close()
            raise
        return connection

    def _translate(self, error: sqlite3.DatabaseError) -> VaultError:
        if "locked" in str(error):
            return VaultError("the vault's state is in use by another process; try again")
        if "malformed" in str(error) or "not a database" in str(error):
            self.close()
            self._drop()
            return VaultError("the vault's state was damaged and is rebuilt; run the command again")
        return VaultError(f"the vault's state cannot be used ({error}); see {self._path}")

    def _drop(self) -> None:
        """Set the database aside, unless another process has, and there is a new one already."""
        with hold_lock(self._lock), contextlib.suppress(FileNotFoundError):
            if os.stat(self._path).st_ino == self._inode:
                self._set_aside()

    def _set_aside(self) -> None:
        for suffix in ("-wal", "-shm", ""):
            damaged = self._path.with_name(self._path.name + suffix)
            with contextlib.suppress(FileNotFoundError):
                os.replace(damaged, damaged.with_name(damaged.name + ".damaged"))


def _create_script(connection: sqlite3.Connection) -> str:
    """Return the statements that make an empty database of whatever there is."""
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    drops = "".join(f'DROP TABLE "{name}";' for (name,) in names)
    return f"BEGIN EXCLUSIVE; {drops} {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;"
