"""What work over many vaults made of each, so that who asks again asks only what changed (SQLite).

A cache: without it, all vaults are asked again.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from pathlib import Path
from typing import Any, Self

from vaultmem.core.json_values import as_plain
from vaultmem.errors import BusyError, FaultError, VaultError
from vaultmem.storage.atomic import make_private_folder

_NAME = "work.sqlite3"

#: Seconds after which what nobody asked for again is dropped.
_KEPT_FOR = 30 * 86_400

#: Seconds that another process is waited for.
_PATIENCE = 10.0

_TABLE = """
CREATE TABLE IF NOT EXISTS done (
    work TEXT NOT NULL, vault TEXT NOT NULL, stand TEXT NOT NULL, at REAL NOT NULL,
    value BLOB NOT NULL, PRIMARY KEY (work, vault)
) WITHOUT ROWID
"""


class KeptWork:
    """What was made of vaults, by work and vault; `stand` is what it was made of, as a commit.

    Values are what JSON has. `now` is when the work is done, in seconds since the epoch.
    """

    def __init__(self, folder: Path, now: float) -> None:
        self.now = now
        make_private_folder(folder)
        file = folder / _NAME
        try:
            self._connection = _connect(file)
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise _translate(error) from error
            for ending in ("", "-wal", "-shm"):
                file.with_name(_NAME + ending).unlink(missing_ok=True)
            self._connection = _connect(file)
        self._run("DELETE FROM done WHERE at < ?", now - _KEPT_FOR)

    def list_stands(self, work: str) -> dict[str, str]:
        """Return of what a work's results were made, by vault."""
        rows = self._run("SELECT vault, stand FROM done WHERE work = ?", work)
        return {str(vault): str(stand) for vault, stand in rows}

    def read(self, work: str, vault: str) -> Any:
        """Return what a work made of a vault.

        Raises:
            VaultError: it is not kept.
        """
        found = self._run("SELECT value FROM done WHERE work = ? AND vault = ?", work, vault)
        if not found:
            raise VaultError(f"{vault}: what was kept of it is gone; run the command again")
        return json.loads(zlib.decompress(found[0][0]))

    def keep(self, work: str, vault: str, stand: str, value: Any) -> None:
        """Keep what a work made of a vault, in the place of what it made before."""
        data = zlib.compress(json.dumps(as_plain(value), separators=(",", ":")).encode(), 1)
        row = (work, vault, stand, self.now, data)
        self._run("INSERT OR REPLACE INTO done VALUES (?, ?, ?, ?, ?)", *row)

    def forget(self, work: str) -> None:
        """Drop all that a work made."""
        self._run("DELETE FROM done WHERE work = ?", work)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise _translate(error) from error


def _connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=_PATIENCE, isolation_level=None)
    with contextlib.ExitStack() as unless_good:
        unless_good.callback(connection.close)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_TABLE)
        unless_good.pop_all()
    return connection


def _translate(error: sqlite3.DatabaseError) -> VaultError:
    if "locked" in str(error):
        return BusyError("other work over these vaults is writing what it did; try again")
    return FaultError(f"what was done before cannot be used ({error}); remove {_NAME} of the pool")
