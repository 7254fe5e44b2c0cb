"""The state database (SQLite): its schema, its connection, and a fallback without a disk.

A cache but for the write journal, which says who wrote bytes that are not committed yet; if the
database is lost, those count as a person's. Each connection is used by one thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.core.text.display import escape_bytes
from vaultmem.errors import DamagedError, LockTimeoutError, SystemFailureError, VaultError
from vaultmem.storage.atomic import claim_private_folder, drop_file, write_atomically
from vaultmem.storage.lock import WRITER, hold_lock

# The tables of the state database, and the version that they are of.

#: A database of another one is made anew.
VERSION = 25

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, blob TEXT NOT NULL,
    title TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, pinned INTEGER NOT NULL,
    context TEXT NOT NULL, tags TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
    confidence REAL, source TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    tokens INTEGER NOT NULL, body_digest TEXT NOT NULL, full_text TEXT NOT NULL,
    project TEXT NOT NULL, valid_from TEXT NOT NULL, valid_until TEXT NOT NULL,
    wishes TEXT NOT NULL, warnings TEXT NOT NULL, sections TEXT NOT NULL,
    UNIQUE (path, blob)
);
CREATE INDEX documents_pinned ON documents (pinned) WHERE pinned = 1;
CREATE INDEX documents_written ON documents (max(updated, created))
    WHERE pinned = 0 AND path NOT LIKE 'primed/%';
CREATE INDEX documents_quarantined ON documents (state) WHERE state = 'quarantined';
CREATE INDEX documents_wishes ON documents (id) WHERE wishes <> '[]';
CREATE INDEX documents_blob ON documents (blob);
CREATE INDEX documents_kind ON documents (kind, state);
CREATE INDEX documents_tokens ON documents (tokens);
CREATE INDEX documents_session ON documents (session) WHERE session <> '';
CREATE TABLE files (
    path TEXT PRIMARY KEY, blob TEXT NOT NULL, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
    ctime INTEGER NOT NULL, inode INTEGER NOT NULL, problem TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX files_problem ON files (problem) WHERE problem <> '';
CREATE TABLE views (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE NOT NULL, size INTEGER NOT NULL,
    used REAL NOT NULL
);
CREATE TABLE view_documents (
    view INTEGER NOT NULL, path TEXT NOT NULL, document INTEGER NOT NULL,
    changed INTEGER NOT NULL, problem TEXT NOT NULL,
    project TEXT NOT NULL COLLATE NOCASE, PRIMARY KEY (view, path)
) WITHOUT ROWID;
CREATE INDEX view_documents_document ON view_documents (document);
CREATE INDEX view_documents_problem ON view_documents (view) WHERE problem <> '';
CREATE TABLE head_files (
    path TEXT PRIMARY KEY, mode TEXT NOT NULL, blob TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE committed (
    path TEXT NOT NULL, blob TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (path, blob)
) WITHOUT ROWID;
CREATE TABLE journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, blob TEXT NOT NULL,
    agent TEXT NOT NULL, session TEXT NOT NULL, tool TEXT NOT NULL, at REAL NOT NULL, data BLOB
);
CREATE INDEX journal_path ON journal (path);
CREATE INDEX journal_blob ON journal (blob);
CREATE TABLE operations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, files TEXT NOT NULL DEFAULT '',
    staged TEXT NOT NULL DEFAULT '', event TEXT NOT NULL
);
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
    DELETE FROM session_facts WHERE document = OLD.id;
END;
CREATE TABLE session_facts (
    document INTEGER PRIMARY KEY, id TEXT NOT NULL, facts TEXT NOT NULL
);
CREATE TABLE command_ends (
    project TEXT NOT NULL COLLATE NOCASE, command TEXT NOT NULL, session TEXT NOT NULL,
    at REAL NOT NULL, trouble TEXT NOT NULL, PRIMARY KEY (project, command)
) WITHOUT ROWID;
CREATE TABLE anchor_checks (
    repository TEXT NOT NULL, anchor TEXT NOT NULL, stamp TEXT NOT NULL, status TEXT NOT NULL,
    lines INTEGER NOT NULL, moved_to TEXT NOT NULL, PRIMARY KEY (repository, anchor)
) WITHOUT ROWID;
CREATE TABLE cited_blobs (blob TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
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
CREATE TABLE outcomes (
    id INTEGER PRIMARY KEY, session TEXT NOT NULL, path TEXT NOT NULL, well INTEGER NOT NULL,
    UNIQUE (session, path)
);
"""

_NAME = re.compile(r"state-[0-9a-f]{16}\.sqlite3")

#: What SQLite says where pages, tables or files are not what they were.
_DAMAGE = ("CORRUPT", "NOTADB", "IOERR_SHORT_READ", "READONLY_DBMOVED", "SCHEMA")


#: Seconds that a database is waited for at least: the last to close it may be putting it in order.
_LEAST = 1.0


class StateDatabase:
    """The database in one folder; opened, or made anew, on first use.

    SQLite takes what lies next to a file for that file's own, whichever file it was. So a new
    database gets a name of its own, made whole before the pointer names it, and nobody who is still
    connected to another one can harm it. Whoever writes to it is waited for `patience` seconds; who
    only reads waits for nobody.
    """

    def __init__(self, folder: Path, patience: float = WRITER) -> None:
        self._folder = folder
        self._patience = max(patience, _LEAST)
        #: It names the database in use.
        self._pointer = folder / "state"
        self._connection: sqlite3.Connection | None = None
        #: The file in use, one that proved to be damaged, and the inodes of pointer and file.
        self._path = self._damaged = folder
        self._inodes = (0, 0)
        #: A cache of long queries: each result with the key for which it holds.
        self.kept: dict[str, tuple[object, Any]] = {}
        #: What was made of views, which connections to one vault's databases may share.
        self.made: dict[str, tuple[object, Any]] = {}

    @property
    def in_use(self) -> str:
        """The name of the database that this was connected to last; each has another."""
        return self._path.name

    @property
    def path(self) -> Path:
        """The file of the database in use; where nothing names it, the one written to last."""
        with contextlib.suppress(FileNotFoundError):
            name = self._pointer.read_text(encoding="ascii", errors="replace")
            if _NAME.fullmatch(name):
                return self._folder / name
        found = self._folder.glob("state*.sqlite3")
        return max(found, key=os.path.getmtime, default=self._folder / "state.sqlite3")

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT."""
        try:
            return self._open().execute(sql, values).fetchall()
        except UnicodeEncodeError:
            return self.query(sql, _as_text(values))
        except sqlite3.DatabaseError as error:
            raise self._translate(error) from error

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and return the id of the row that it inserted, if any."""
        try:
            return self._open().execute(sql, values).lastrowid or 0
        except UnicodeEncodeError:
            return self.execute(sql, _as_text(values))
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

    def keep(self, key: str, value: str) -> None:
        """Remember what can be found out again, unless another process is writing just now."""
        self.query("PRAGMA busy_timeout = 0")
        try:
            with contextlib.suppress(LockTimeoutError):
                self.put(key, value)
        finally:
            self.query(f"PRAGMA busy_timeout = {int(self._patience * 1_000)}")

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
        """Return the connection.

        Raises:
            DamagedError: another process has made a new database, or the file is gone.
        """
        if self._connection is None:
            try:
                self._connection = self._connect() or self._replace()
            except sqlite3.DatabaseError as error:
                raise self._translate(error) from error
        elif not self._connection.in_transaction and self._find_inodes() != self._inodes:
            self.close()
            raise _damage()
        return self._connection

    def _find_inodes(self) -> tuple[int, int]:
        """Return what differs when another database is in use, or when this one is gone."""
        return _find_inode(self._pointer), _find_inode(self._path)

    def _connect(self) -> sqlite3.Connection | None:
        """Connect to the database in use, None where it is none of this version, or damaged."""
        self.kept.clear()
        self._path = self.path
        self._inodes = self._find_inodes()
        if self._path == self._damaged or not self._path.exists():
            return None
        with contextlib.ExitStack() as unless_good:
            connection = _connect(self._path, self._patience)
            unless_good.callback(connection.close)
            try:
                if not _is_current(connection, self._path):
                    return None
            except sqlite3.OperationalError:
                if self._find_inodes() == self._inodes:  # It is in use, or may not be read.
                    raise
                return None  # Another process has put it away meanwhile.
            except sqlite3.DatabaseError:
                self._damaged = self._path
                return None
            unless_good.pop_all()
            return connection

    def _replace(self) -> sqlite3.Connection:
        """Make a new database, unless another process has meanwhile."""
        with hold_lock(self._folder / "state.lock"):
            if connection := self._connect():
                return connection
            path = self._folder / f"state-{os.urandom(8).hex()}.sqlite3"
            connection = _connect(path, self._patience)
            try:
                _lay_out(connection, path)
                write_atomically(self._pointer, path.name.encode())
            except BaseException:
                connection.close()
                drop_file(path)
                raise
            self._set_aside(path)
            self._path = path
            self._inodes = self._find_inodes()
            return connection

    def _set_aside(self, new: Path) -> None:
        """Put all other databases away: one that is damaged is kept in place of the one before."""
        for file in self._folder.glob("state*.sqlite3*"):
            if file.name.startswith(new.name) or file.suffix == ".damaged":
                continue
            name, ending = file.name.split(".sqlite3")
            with contextlib.suppress(OSError):  # Others may have it open, where that matters.
                if f"{name}.sqlite3" == self._damaged.name:
                    file.replace(self._folder / f"state.sqlite3{ending}.damaged")
                else:  # Of an older version, or of a process that was killed.
                    file.unlink()

    def _translate(self, error: sqlite3.DatabaseError) -> VaultError:
        name = getattr(error, "sqlite_errorname", "")
        if "locked" in str(error):
            return LockTimeoutError("the vault's state is in use by another process; try again")
        if any(damage in name for damage in _DAMAGE) or "no such table" in str(error):
            self._damaged = self._path
            self.close()
            with contextlib.suppress(sqlite3.DatabaseError):  # Then the next use says why not.
                self._connection = self._replace()
            return _damage()
        return SystemFailureError(f"the vault's state cannot be used ({error}); see {self._path}")


def _find_inode(file: Path) -> int:
    try:
        return os.stat(file).st_ino
    except FileNotFoundError:
        return 0


def _damage() -> DamagedError:
    return DamagedError("the vault's state was damaged and is built again; run the command again")


def _is_current(connection: sqlite3.Connection, path: Path) -> bool:
    """Tell whether a database is one of this version.

    Raises:
        sqlite3.DatabaseError: it is damaged.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        return False
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("SELECT count(*) FROM meta")
    page = connection.execute("PRAGMA page_size").fetchone()[0]
    if os.stat(path).st_size % page:  # SQLite reads what was cut off as zeros.
        raise sqlite3.DatabaseError("the file was cut off")
    return True


def _connect(path: Path, patience: float) -> sqlite3.Connection:
    # A pool lends an open vault to one thread after the other.
    return sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)


def _lay_out(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new database."""
    os.chmod(path, 0o600)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")


def _as_text(values: Sequence[Any]) -> list[Any]:
    """Return values with escapes for bytes that are no UTF-8, such as of a folder's name."""
    return [escape_bytes(value) if isinstance(value, str) else value for value in values]


def query_state(folder: Path, sql: str) -> list[tuple[str, ...]]:
    """Return rows of a vault's database as it is, without a lock; none where it cannot be read."""
    from urllib.parse import quote

    try:
        file = quote(os.fspath(StateDatabase(folder).path))
        connection = sqlite3.connect(f"file:{file}?mode=ro", timeout=0, uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()
    except (sqlite3.Error, OSError):
        return []


# A folder for a vault's state where the user's own cannot be written, as in a sandbox.

#: Where Linux keeps files in memory.
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made in it is its user's alone.


class StateFolder(NamedTuple):
    """Where a vault's state is, and why the user's own could not be written ("" if it could).

    A spare folder is one of a cache: what is in it was made from the notes, never copied, for the
    user's own may hold a change that is half done. Locks in it hold nobody off who uses the other.
    """

    path: Path
    lack: str = ""
    is_new: bool = False


def claim_state_folder(folder: Path) -> StateFolder:
    """Return a folder for the state of a vault: this one, else a spare one of the same name.

    Raises:
        VaultError: it is somebody else's, or no other folder can be written either.
    """
    try:
        claimed = claim_private_folder(folder)
        if os.access(claimed, os.W_OK):
            return StateFolder(claimed)
        raise SystemFailureError(
            f"{folder}: the state folder cannot be written ({_find_reason(folder)})"
        )
    except SystemFailureError as error:
        for spare in _list_spares(folder.name):
            is_new = not spare.exists()
            try:
                return StateFolder(claim_private_folder(spare), error.fault, is_new)
            except SystemFailureError:
                continue
        raise


def _list_spares(name: str) -> Iterator[Path]:
    """Yield folders that a temporary one can be made in, none of which is the current one."""
    found = Path(tempfile.gettempdir())  # The current folder, where no other can be written.
    user = f"vaultmem-{os.geteuid()}" if os.name == "posix" else "vaultmem"
    places = [] if found == Path.cwd() else [found]
    for place in (*places, _IN_MEMORY):
        if place.is_dir():
            yield place / user / name


def _find_reason(folder: Path) -> str:
    """Return why the system lets nobody write into a folder."""
    if os.name == "posix" and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return os.strerror(errno.EROFS)
    return os.strerror(errno.EACCES)
