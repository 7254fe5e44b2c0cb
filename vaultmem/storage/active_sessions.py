"""Which sessions are open on this machine, in which workspace, and whose processes they are.

One small file a session in the state folder; the note itself knows nothing of processes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.core.plain import as_named
from vaultmem.errors import VaultError
from vaultmem.storage.processes import Process, is_gone

#: Processes that one session may have at once; the oldest are forgotten.
_MAX_PROCESSES = 16


class ActiveSession(NamedTuple):
    """A session that was started here; `at` is when it was last begun or taken up (seconds).

    `workspace` is an absolute folder. `recovered` says that its processes were gone and that its
    note was closed for it.
    """

    id: str
    agent: str
    workspace: str
    at: float
    processes: tuple[Process, ...] = ()
    recovered: bool = False

    @property
    def is_gone(self) -> bool:
        """Tell whether all its processes are known to have ended; False if it never had any."""
        return bool(self.processes) and all(map(is_gone, self.processes))


class ActiveSessions:
    """The files of one vault's open sessions."""

    def __init__(self, state_folder: Path) -> None:
        self.folder = state_folder / "sessions"

    def file_of(self, session: str) -> Path:
        """Return the file of a session."""
        name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.folder / f"{name}.json"

    def put(self, record: ActiveSession) -> None:
        """Remember a session, with the processes that it had and still has."""
        known = self.find(record.id)
        alive = [each for each in known.processes if not is_gone(each)] if known else []
        fresh = [each for each in record.processes if each not in alive]
        self._write(record._replace(processes=tuple([*alive, *fresh][-_MAX_PROCESSES:])))

    def mark_recovered(self, session: str) -> None:
        """Remember that a session's note was closed because its processes were gone."""
        record = self.find(session)
        if record is not None:
            self._write(record._replace(recovered=True))

    def drop(self, session: str) -> None:
        """Forget a session that has ended."""
        self.file_of(session).unlink(missing_ok=True)

    def find(self, session: str) -> ActiveSession | None:
        """Return what is known of a session, None if nothing is."""
        return _read(self.file_of(session))

    def all(self) -> list[ActiveSession]:
        """Return all sessions, those last begun or taken up first."""
        try:
            files = sorted(self.folder.glob("*.json"))
        except OSError:
            return []
        found = [record for file in files if (record := _read(file)) is not None]
        return sorted(found, key=lambda record: (-record.at, record.id))

    def list_open(self, workspace: str) -> list[ActiveSession]:
        """Return the sessions that are open in a workspace, those last begun or taken up first."""
        return [each for each in self.all() if each.workspace == workspace and not each.recovered]

    def _write(self, record: ActiveSession) -> None:
        file = self.file_of(record.id)
        temporary = file.with_name(f".{os.urandom(6).hex()}.tmp")
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                json.dump(as_named(record), out)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, file)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise VaultError(f"{file}: could not be written: {error.strerror}") from error


def _read(file: Path) -> ActiveSession | None:
    """Return what a file tells, None if it is not there or broken."""
    try:
        value: Any = json.loads(file.read_text(encoding="utf-8"))
        return ActiveSession(
            id=str(value["id"]),
            agent=str(value["agent"]),
            workspace=str(value["workspace"]),
            at=float(value["at"]),
            processes=tuple(_read_processes(value["processes"])),
            recovered=bool(value["recovered"]),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _read_processes(values: Iterable[Any]) -> Iterable[Process]:
    for value in values:
        node, boot, space = map(str, value["place"])
        yield Process(int(value["pid"]), str(value["started"]), (node, boot, space))
