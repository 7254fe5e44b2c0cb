"""What was done in a hub, asked of it and refused: lines of JSON, a file a month, never rewritten.

A line is on the disk before whoever it tells of gets an answer.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from vaultmem.errors import FaultError
from vaultmem.services.hub.folder import Hub
from vaultmem.storage.atomic import sync_folder
from vaultmem.storage.lock import hold_lock


class Entry(NamedTuple):
    """One thing that was done or refused, `at` seconds since the epoch.

    `who` is the grant's name and `grant` its id, both "" where nobody was let in; `origin` is where
    from. `what` is "push", "ask", "grant" and the like; `outcome` is "done", "refused" or "failed",
    and "begun" of a "write" by the front of a fleet, whose "push" follows. `details` are facts of
    that kind: refs of a push, why it was refused, hits of a question.
    """

    at: float
    who: str
    grant: str
    origin: str
    what: str
    vaults: tuple[str, ...]
    outcome: str
    details: Mapping[str, Any] = MappingProxyType({})


def record(hub: Hub, entry: Entry) -> None:
    """Append an entry, durably.

    Raises:
        FaultError: the disk did not take it; then what it tells of must not be done.
    """
    file = hub.folder / "audit" / f"{time.strftime('%Y-%m', time.gmtime(entry.at))}.jsonl"
    line = json.dumps(_as_row(entry), ensure_ascii=True).encode() + b"\n"
    try:
        with hold_lock(hub.folder / "audit" / ".lock"):
            is_new = not file.exists()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
            with os.fdopen(os.open(file, flags, 0o600), "r+b", buffering=0) as opened:
                if opened.seek(0, os.SEEK_END):
                    opened.seek(-1, os.SEEK_END)
                    line = line if opened.read(1) == b"\n" else b"\n" + line  # Cut by a kill.
                opened.write(line)
                os.fsync(opened.fileno())
            if is_new:
                sync_folder(file.parent)
    except OSError as error:
        raise FaultError(f"audit/{file.name}: cannot be written ({error.strerror})") from error


def read_audit(
    hub: Hub,
    who: str = "",
    vault: str = "",
    what: str = "",
    outcome: str = "",
    since: float = 0.0,
    until: float = float("inf"),
) -> Iterator[Entry]:
    """Yield the entries that fit all that is given, newest first; a line cut by a kill is none."""
    for file in sorted((hub.folder / "audit").glob("*.jsonl"), reverse=True):
        for line in reversed(file.read_bytes().splitlines()):
            entry = _read(line)
            if entry is None or not since <= entry.at <= until:
                continue
            fits = (
                (who, (entry.who, entry.grant)),
                (vault, entry.vaults),
                (what, (entry.what,)),
                (outcome, (entry.outcome,)),
            )
            if all(not wanted or wanted in given for wanted, given in fits):
                yield entry


def count_broken(hub: Hub) -> int:
    """Return how many lines of the record say nothing that can be read."""
    files = (hub.folder / "audit").glob("*.jsonl")
    return sum(_read(line) is None for file in files for line in file.read_bytes().splitlines())


def _as_row(entry: Entry) -> dict[str, Any]:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.at))
    return {"time": moment, **entry._asdict(), "details": dict(entry.details)}


def _read(line: bytes) -> Entry | None:
    try:
        row = json.loads(line)
        values = [row[name] for name in Entry._fields]
        return Entry(*values)._replace(vaults=tuple(row["vaults"]))
    except (ValueError, KeyError, TypeError):
        return None
