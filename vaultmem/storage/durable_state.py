"""What of the state database cannot be made again from notes and git, as lines of JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

from vaultmem.errors import RefusedError
from vaultmem.storage.state import StateDatabase

#: Tables and columns that travel; what else there is, the notes give.
_TABLES = {
    "journal": ("path", "blob", "agent", "session", "tool", "at", "data"),
    "operations": ("event",),
    "candidates": ("path",),
    "calls": ("id", "at", "kind", "query", "agent", "session", "sent", "flat", "found"),
    "signals": ("call", "number", "path", "heading", "score"),
    "accounts": ("agent", "session", "kind", "calls", "sent", "flat", "empty", "first", "last"),
    "surfaced": ("path", "times", "last", "best"),
    "meta": ("key", "value"),
}

#: Of these the rows' order says which came first.
_NUMBERED = frozenset({"journal", "operations"})

#: What of `meta` is no cache: this machine's id, what arrived, and how far was imported what.
_KEYS = ("machine", "arrived", "arrived_found")
_BEGINNINGS = ("imported ", "record ", "transcript ", "wishes ")

_MAX_LINE = 16 * 1024 * 1024


def dump_state(state: StateDatabase) -> Iterator[bytes]:
    """Yield each row as a line: its table, and its values in the order of the table's columns."""
    for table, columns in _TABLES.items():
        order = "id" if table in _NUMBERED else ", ".join(columns[:3])
        for row in state.query(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"):
            if table != "meta" or _is_kept(row[0]):
                yield json.dumps([table, *map(_encode, row)]).encode() + b"\n"


def load_state(state: StateDatabase, lines: Iterable[bytes]) -> None:
    """Put lines into a new database, all or none.

    Raises:
        RefusedError: a line is none of these.
    """
    with state.transaction():
        for line in lines:
            try:
                table, *values = json.loads(line[:_MAX_LINE])
                columns, row = _TABLES[table], [_decode(value) for value in values]
            except (ValueError, KeyError, TypeError, RecursionError):
                columns, row = (), [""]
            if len(row) != len(columns) or (table == "meta" and not _is_kept(row[0])):
                raise RefusedError("what it keeps of the vault's use cannot be read")
            marks = ", ".join("?" * len(row))
            names = ", ".join(columns)
            state.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", row)


def _is_kept(key: object) -> bool:
    return isinstance(key, str) and (key in _KEYS or key.startswith(_BEGINNINGS))


def _encode(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    if value is not None and not isinstance(value, str | int | float):
        raise TypeError
    return value
