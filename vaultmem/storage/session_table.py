"""What is known of each session note without reading it again; a cache beside the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from vaultmem.core.plain import as_named
from vaultmem.core.sessions.session import Edge, Relation, SessionFacts
from vaultmem.storage.state import State

#: Named after the form of its rows: another form is another table.
_NAME = "session_facts_1"
_TABLE = (
    f"CREATE TABLE IF NOT EXISTS {_NAME} "
    "(document INTEGER PRIMARY KEY, id TEXT NOT NULL, facts TEXT NOT NULL)"
)

#: Every path below `sessions/`: "0" comes next to "/".
_INSIDE = "f.path > 'sessions/' AND f.path < 'sessions0'"

_FACTS = f"SELECT s.facts FROM files f JOIN {_NAME} s ON s.document = f.document WHERE {_INSIDE}"


class SessionTable:
    """The state database's table of session facts, by document."""

    def __init__(self, state: State) -> None:
        self._state = state
        state.execute(_TABLE)

    def unknown(self) -> list[tuple[int, str, str]]:
        """Return document, path and blob of the folder's session notes that were not read yet."""
        rows = self._state.query(
            f"SELECT f.document, f.path, f.blob FROM files f LEFT JOIN {_NAME} s "
            f"ON s.document = f.document WHERE f.document IS NOT NULL AND s.document IS NULL "
            f"AND {_INSIDE}"
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
        """Return the facts of all session notes of the folder that were read."""
        return self._read("")

    def find(self, session: str) -> SessionFacts | None:
        """Return the facts of an id; of two notes with one name, the first path counts."""
        return next(iter(self._read("AND s.id = ? ORDER BY f.path", session)), None)

    def at_path(self, path: str) -> SessionFacts | None:
        """Return the facts of the session note at a path."""
        return next(iter(self._read("AND f.path = ?", path)), None)

    def naming(self, session: str) -> list[SessionFacts]:
        """Return the facts of the sessions that have an edge to one."""
        found = self._read("AND instr(s.facts, ?) > 0", json.dumps(session))
        return [each for each in found if session in {edge.session for edge in each.edges}]

    def _read(self, condition: str, *values: str) -> list[SessionFacts]:
        return [_decode(facts) for (facts,) in self._state.query(f"{_FACTS} {condition}", values)]


def _decode(text: str) -> SessionFacts:
    value: dict[str, Any] = json.loads(text)
    edges = (Edge(Relation(each["relation"]), each["session"]) for each in value["edges"])
    return SessionFacts(**{**value, "edges": tuple(edges)})
