"""The state database (SQLite): its schema, its connection, and a fallback folder.

It is a cache, except for the write journal, which records the author of uncommitted bytes; without
it, the author is the owner. Each connection is used by one thread at a time.
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

# The tables of the state database, and their version.

#: A database of another version is replaced by a new one.
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

#: Parts of SQLite's error names for damaged pages, tables or files.
_DAMAGE = ("CORRUPT", "NOTADB", "IOERR_SHORT_READ", "READONLY_DBMOVED", "SCHEMA")


#: The least lock timeout in seconds: the last process to close a database checkpoints it.
_MIN_LOCK_SECONDS = 1.0


class StateDatabase:
    """The database in one folder, opened or created on first use.

    SQLite uses a file's `-wal` and `-shm` by name only. So a new database gets a new name, and is
    complete before the pointer names it; connections to an older one cannot damage it. Writers wait
    for each other for `patience` seconds; readers do not wait.
    """

    def __init__(self, folder: Path, patience: float = WRITER) -> None:
        self._folder = folder
        self._patience = max(patience, _MIN_LOCK_SECONDS)
        #: The file with the name of the database in use.
        self._pointer = folder / "state"
        self._connection: sqlite3.Connection | None = None
        #: The file in use, a damaged file, and the inodes of pointer and file.
        self._path = self._damaged = folder
        self._inodes = (0, 0)
        #: A cache of slow queries: each result with the key for which it is valid.
        self.kept: dict[str, tuple[object, Any]] = {}
        #: A cache of data about views, which connections to one vault's databases can share.
        self.made: dict[str, tuple[object, Any]] = {}

    @property
    def in_use(self) -> str:
        """The unique file name of the database last connected to."""
        return self._path.name

    @property
    def path(self) -> Path:
        """The file of the database in use; without a pointer, the one last written."""
        with contextlib.suppress(FileNotFoundError):
            name = self._pointer.read_text(encoding="ascii", errors="replace")
            if _NAME.fullmatch(name):
                return self._folder / name
        files = self._folder.glob("state*.sqlite3")
        return max(files, key=os.path.getmtime, default=self._folder / "state.sqlite3")

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT."""
        try:
            return self._open().execute(sql, values).fetchall()
        except UnicodeEncodeError:
            return self.query(sql, _as_text(values))
        except sqlite3.DatabaseError as error:
            raise self._translate(error) from error

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and return the id of the last inserted row, 0 if none."""
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
        """Commit all statements of the block together, or none; nested uses are one transaction."""
        connection = self._open()
        if connection.in_transaction:
            yield
            return
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # A damaged database is already closed.
                connection.rollback()
            raise
        self.execute("COMMIT")

    def get(self, key: str) -> str:
        """Return the text stored under a key, empty if there is none."""
        rows = self.query("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else ""

    def put(self, key: str, value: str) -> None:
        """Store a text under a key; nothing is written if it is there already."""
        sql = (
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value "
            "WHERE value <> excluded.value"
        )
        self.execute(sql, (key, value))

    def disable_fsync(self) -> None:
        """Commit without fsync until the database is closed.

        A killed process then loses nothing, a power failure the last transactions.
        """
        self.query("PRAGMA synchronous = NORMAL")

    def keep(self, key: str, value: str) -> None:
        """Store a text that can be computed again, unless another process is writing."""
        self.query("PRAGMA busy_timeout = 0")
        try:
            with contextlib.suppress(LockTimeoutError):
                self.put(key, value)
        finally:
            self.query(f"PRAGMA busy_timeout = {int(self._patience * 1_000)}")

    def find_damage(self) -> str:
        """Return the damage that SQLite finds in the database, empty if none.

        Raises:
            DamagedError: it was so damaged that it was replaced.
        """
        report = str(self.query("PRAGMA quick_check(1)")[0][0])
        return "" if report == "ok" else f"the database is damaged ({report})"

    def close(self) -> None:
        """Close the database; it opens again on the next use."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _open(self) -> sqlite3.Connection:
        """Return the connection.

        Raises:
            DamagedError: another process has created a new database, or the file is gone.
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
        """Return the inodes of pointer and database, 0 for a missing file."""
        return _find_inode(self._pointer), _find_inode(self._path)

    def _connect(self) -> sqlite3.Connection | None:
        """Connect to the database in use; None if missing, damaged or of another version."""
        self.kept.clear()
        self._path = self.path
        self._inodes = self._find_inodes()
        if self._path == self._damaged or not self._path.exists():
            return None
        with contextlib.ExitStack() as cleanup:
            connection = _connect(self._path, self._patience)
            cleanup.callback(connection.close)
            try:
                if not _is_current(connection, self._path):
                    return None
            except sqlite3.OperationalError:
                if self._find_inodes() == self._inodes:  # It is locked or not readable.
                    raise
                return None  # Another process has removed it meanwhile.
            except sqlite3.DatabaseError:
                self._damaged = self._path
                return None
            cleanup.pop_all()
            return connection

    def _replace(self) -> sqlite3.Connection:
        """Create a new database, unless another process has done so meanwhile."""
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
        """Remove all other databases; the damaged one replaces the older `.damaged` one."""
        for file in self._folder.glob("state*.sqlite3*"):
            if file.name.startswith(new.name) or file.suffix == ".damaged":
                continue
            name, ending = file.name.split(".sqlite3")
            with contextlib.suppress(OSError):  # Windows keeps files that are open elsewhere.
                if f"{name}.sqlite3" == self._damaged.name:
                    file.replace(self._folder / f"state.sqlite3{ending}.damaged")
                else:  # From an older version or a killed process.
                    file.unlink()

    def _translate(self, error: sqlite3.DatabaseError) -> VaultError:
        name = getattr(error, "sqlite_errorname", "")
        if "locked" in str(error):
            return LockTimeoutError("the vault's state is in use by another process; try again")
        if any(damage in name for damage in _DAMAGE) or "no such table" in str(error):
            self._damaged = self._path
            self.close()
            with contextlib.suppress(sqlite3.DatabaseError):  # The next use will raise it.
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
    """Return whether a database is of this version.

    Raises:
        sqlite3.DatabaseError: the database is damaged.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        return False
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("SELECT count(*) FROM meta")
    page = connection.execute("PRAGMA page_size").fetchone()[0]
    if os.stat(path).st_size % page:  # SQLite reads the missing end as zeros.
        raise sqlite3.DatabaseError("the file was cut off")
    return True


def _connect(path: Path, patience: float) -> sqlite3.Connection:
    # A fleet lends an open vault to one thread after the other.
    return sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)


def _lay_out(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new database."""
    os.chmod(path, 0o600)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")


def _as_text(values: Sequence[Any]) -> list[Any]:
    """Return values with escapes for bytes that are not UTF-8, for example in a folder's name."""
    return [escape_bytes(value) if isinstance(value, str) else value for value in values]


def query_state(folder: Path, sql: str) -> list[tuple[str, ...]]:
    """Return rows of a vault's database without waiting for a lock, none if it is unreadable."""
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


# A spare folder for a vault's state if the user's own is not writable, for example in a sandbox.

#: Linux's folder for files in memory.
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it are private to the user.


class StateFolder(NamedTuple):
    """The folder of a vault's state; `lack` is why the user's own is not writable ("" if it is).

    A spare folder is filled from the notes, never copied: the user's own can contain an unfinished
    change. Its locks do not exclude processes that use the user's own.
    """

    path: Path
    lack: str = ""
    is_new: bool = False


def claim_state_folder(folder: Path) -> StateFolder:
    """Return a vault's state folder: this one, or a spare one of the same name if not writable.

    Raises:
        VaultError: it belongs to another user or is a link, or no spare folder is writable.
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
    """Yield possible spare folders for a vault's state, none in the current folder."""
    temp_folder = Path(tempfile.gettempdir())  # The current folder if no other is writable.
    user = f"vaultmem-{os.geteuid()}" if os.name == "posix" else "vaultmem"
    places = [] if temp_folder == Path.cwd() else [temp_folder]
    for folder in (*places, _IN_MEMORY):
        if folder.is_dir():
            yield folder / user / name


def _find_reason(folder: Path) -> str:
    """Return the system's message for why a folder is not writable."""
    if os.name == "posix" and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return os.strerror(errno.EROFS)
    return os.strerror(errno.EACCES)
