"""The state database's tables of links and aliases, by document."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.core.indexing.rows import decode_links
from vaultmem.core.text.paths import NOT_NOTES
from vaultmem.storage.state import StateDatabase

if TYPE_CHECKING:
    from vaultmem.core.indexing.rows import NoteRows
    from vaultmem.core.notes.link_syntax import Link

_COLUMNS = 'kind, path, subpath, text, start, "end", line, embed, property, hidden'


def find_attachments(root: Path) -> Iterator[str]:
    """Yield the files in the root folders without notes (`NOT_NOTES`); links are not followed."""
    pending = [root / name for name in sorted(NOT_NOTES)]
    while pending:
        folder = pending.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    yield Path(entry.path).relative_to(root).as_posix()


class LinkStore:
    """The links and aliases of each document, as written."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def put(self, notes: Iterable[tuple[int, NoteRows]]) -> None:
        """Store the links and aliases of new documents."""
        linking = [
            (document, note)
            for document, note in notes
            if note.links or note.properties or note.aliases
        ]
        self._state.execute_many(
            "INSERT INTO body_links VALUES (?, ?)",
            [(document, note.links) for document, note in linking if note.links],
        )
        marks = ", ".join("?" * 12)
        self._state.execute_many(
            f"INSERT INTO links (document, number, {_COLUMNS}) VALUES ({marks})",
            [(document, *link) for document, note in linking for link in note.properties],
        )
        self._state.execute_many(
            "INSERT INTO aliases VALUES (?, ?)",
            [(document, alias) for document, note in linking for alias in note.aliases],
        )

    def links(self, documents: Iterable[int]) -> dict[int, list[Link]]:
        """Return the links of these documents."""
        numbers = ", ".join(str(int(document)) for document in documents)
        return self._read_all(f"WHERE document IN ({numbers})")

    def cites(self, documents: Iterable[int]) -> dict[int, list[Link]]:
        """Return the links in the properties `cites` and `refs` of these documents."""
        numbers = list(documents)
        marks = ", ".join("?" * len(numbers))  # With marks, the statement is compiled only once.
        return self._read(
            f"WHERE document IN ({marks}) AND +property IN ('cites', 'refs')", numbers
        )

    def citing(self, paths: Iterable[str]) -> dict[int, list[str]]:
        """Return, by document of any view, its items in `cites` and `refs` with these paths."""
        citations: dict[int, list[str]] = {}
        sql = (
            "SELECT document, iif(text <> '', text, path) FROM links "
            "WHERE property IN ('cites', 'refs') AND kind = 'path' "
            "AND path IN (SELECT value FROM json_each(?))"
        )
        for document, text in self._state.query(sql, [json.dumps([*paths])]):
            citations.setdefault(document, []).append(text)
        return citations

    def all_links(self) -> dict[int, list[Link]]:
        """Return the links of all documents of all views."""
        return self._read_all("")

    def _read_all(self, where: str) -> dict[int, list[Link]]:
        links = self._read(where)
        sql = f"SELECT document, links FROM body_links {where}"
        for document, encoded in self._state.query(sql):
            links.setdefault(document, []).extend(decode_links(encoded))
        return dict(sorted(links.items()))

    def links_in(self, properties: Sequence[str]) -> dict[int, list[Link]]:
        """Return the links in properties of these names, in documents of all views."""
        marks = ", ".join("?" * len(properties))
        return self._read(f"WHERE property IN ({marks})", properties)

    def targets_in(self, name: str) -> dict[int, list[str]]:
        """Return the paths that documents of all views link to in the property `name`."""
        targets: dict[int, list[str]] = {}
        sql = "SELECT document, path FROM links WHERE property = ?"
        for document, path in self._state.query(f"{sql} ORDER BY document, number", [name]):
            targets.setdefault(document, []).append(path)
        return targets

    def aliases(self) -> dict[int, list[str]]:
        """Return the aliases of all documents of all views."""
        return self._read_aliases("")

    def aliases_of(self, documents: Iterable[int]) -> dict[int, list[str]]:
        """Return the aliases of these documents."""
        numbers = ", ".join(str(int(document)) for document in documents)
        return self._read_aliases(f"WHERE document IN ({numbers})")

    def aliases_among(self, names: Iterable[str]) -> dict[int, list[str]]:
        """Return the aliases that equal one of these names, ignoring the case of ASCII letters."""
        values = list(names)
        marks = ", ".join("?" * len(values))
        return self._read_aliases(f"WHERE alias COLLATE NOCASE IN ({marks})", values)

    def _read_aliases(self, where: str, values: Sequence[Any] = ()) -> dict[int, list[str]]:
        aliases: dict[int, list[str]] = {}
        rows = self._state.query(f"SELECT document, alias FROM aliases {where}", values)
        for document, alias in rows:
            aliases.setdefault(document, []).append(alias)
        return aliases

    def _read(self, where: str, values: Sequence[Any] = ()) -> dict[int, list[Link]]:
        sql = f"SELECT document, {_COLUMNS} FROM links {where} ORDER BY document, number"
        links: dict[int, list[Link]] = {}
        rows = self._state.query(sql, values)
        if not rows:
            return links
        from vaultmem.core.notes.link_syntax import Link, LinkKind

        for document, kind, path, subpath, text, start, end, line, embed, name, is_hidden in rows:
            position = (start, end, line, bool(embed), name, bool(is_hidden))
            link = Link(LinkKind(kind), path, subpath, text, *position)
            links.setdefault(document, []).append(link)
        return links
