"""Sessions as the state folder knows them: what their notes say, and which are open here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.core.json_values import as_named
from vaultmem.core.sessions.session import Edge, Relation, SessionFacts
from vaultmem.storage.kept import KeptFolder, read_value_if_sound
from vaultmem.storage.processes import Process, is_gone
from vaultmem.storage.state import StateDatabase
from vaultmem.storage.views import View

#: Named after the form of its rows: another form is another table.
_NAME = "session_facts_2"
_TABLE = (
    f"CREATE TABLE IF NOT EXISTS {_NAME} "
    "(document INTEGER PRIMARY KEY, id TEXT NOT NULL, facts TEXT NOT NULL)"
)

#: Every path below `sessions/`: "0" comes next to "/".
_INSIDE = "v.path > 'sessions/' AND v.path < 'sessions0'"


class SessionTable:
    """The state database's table of session facts, by document; those of a view are read."""

    def __init__(self, state: StateDatabase, view: View) -> None:
        self._state = state
        self._documents = f"({view.relation}) v"
        state.execute(_TABLE)

    def unknown(self) -> list[tuple[int, str, str]]:
        """Return document, path and blob of the view's session notes that were not read yet."""
        rows = self._state.query(
            f"SELECT v.document, v.path, d.blob FROM {self._documents} "
            f"JOIN documents d ON d.id = v.document LEFT JOIN {_NAME} s "
            f"ON s.document = v.document WHERE s.document IS NULL AND {_INSIDE}"
        )
        return [(int(document), str(path), str(blob)) for document, path, blob in rows]

    def put(self, found: Iterable[tuple[int, SessionFacts]]) -> None:
        """Remember facts by document, and forget those of documents that are gone."""
        rows = [(document, facts.id, json.dumps(as_named(facts))) for document, facts in found]
        with self._state.transaction():
            self._state.execute_many(f"INSERT OR REPLACE INTO {_NAME} VALUES (?, ?, ?)", rows)
            self._state.execute(
                f"DELETE FROM {_NAME} WHERE document NOT IN (SELECT id FROM documents)"
            )

    def all(self) -> list[SessionFacts]:
        """Return the facts of all session notes of the view that were read."""
        return self._read("")

    def find(self, session: str) -> SessionFacts | None:
        """Return the facts of an id; of two notes with one name, the first path counts."""
        return next(iter(self._read("AND s.id = ? ORDER BY v.path", session)), None)

    def at_path(self, path: str) -> SessionFacts | None:
        """Return the facts of the session note at a path."""
        return next(iter(self._read("AND v.path = ?", path)), None)

    def naming(self, session: str) -> list[SessionFacts]:
        """Return the facts of the sessions that have an edge to one."""
        found = self._read("AND instr(s.facts, ?) > 0", json.dumps(session))
        return [each for each in found if session in {edge.session for edge in each.edges}]

    def _read(self, condition: str, *values: str) -> list[SessionFacts]:
        joined = f"FROM {self._documents} JOIN {_NAME} s ON s.document = v.document"
        rows = self._state.query(f"SELECT s.facts {joined} WHERE {_INSIDE} {condition}", values)
        return [_decode(facts) for (facts,) in rows]


def _decode(text: str) -> SessionFacts:
    value: dict[str, Any] = json.loads(text)
    edges = (Edge(Relation(each["relation"]), each["session"]) for each in value["edges"])
    return SessionFacts(**{**value, "edges": tuple(edges)})


#: Processes that one session may have at once; the oldest are forgotten.
_MAX_PROCESSES = 16


class ActiveSession(NamedTuple):
    """A session that was started here; `at` is when it was last begun or taken up (seconds).

    `workspace` is an absolute folder. `recovered` says that its processes were gone and that its
    note was closed for it. `ref` is the branch that it was begun on, "" if on none.
    """

    id: str
    agent: str
    workspace: str
    at: float
    processes: tuple[Process, ...] = ()
    recovered: bool = False
    ref: str = ""

    @property
    def is_gone(self) -> bool:
        """Tell whether all its processes are known to have ended; False if it never had any."""
        return bool(self.processes) and all(map(is_gone, self.processes))

    @property
    def is_there(self) -> bool:
        """Tell whether one of its processes is known to be there."""
        return bool(self.processes) and not self.is_gone


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
        return read_value_if_sound(self.file_of(session), ActiveSession)

    def all(self) -> list[ActiveSession]:
        """Return all sessions, those last begun or taken up first."""
        try:
            files = sorted(self.folder.glob("*.json"))
        except OSError:
            return []
        read = (read_value_if_sound(file, ActiveSession) for file in files)
        found = [record for record in read if record is not None]
        return sorted(found, key=lambda record: (-record.at, record.id))

    def list_open(self, workspace: str) -> list[ActiveSession]:
        """Return the sessions that are open in a workspace, those last begun or taken up first."""
        return [each for each in self.all() if each.workspace == workspace and not each.recovered]

    def _write(self, record: ActiveSession) -> None:
        KeptFolder(self.folder).write_value(self.file_of(record.id).name, record)
