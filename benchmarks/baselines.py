"""What vaultmem is compared with: SQLite FTS5, plain Whoosh, ripgrep and git."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import run_command

#: Plain Whoosh takes minutes for more notes, and its rate falls little with their number.
WHOOSH_SAMPLE = 2_000

_FTS5_SCRIPT = """\
import sqlite3, sys
words = " OR ".join(f'"{word}"' for word in sys.argv[2:])
query = "SELECT path FROM notes WHERE notes MATCH ? ORDER BY bm25(notes) LIMIT 10"
for (path,) in sqlite3.connect(sys.argv[1]).execute(query, (words,)):
    print(path)
"""


def list_notes(folder: Path) -> list[Path]:
    """Return the folder's markdown files in a fixed order that mixes folders."""
    return sorted(folder.rglob("*.md"), key=lambda path: (path.stem[::-1], str(path)))


class Fts5:
    """Whole notes in an FTS5 table with Porter stemming, in a database file."""

    def __init__(self, database: Path) -> None:
        self._connection = sqlite3.connect(database)

    def build(self, folder: Path) -> int:
        """Index all notes in one transaction and return their number."""
        notes = list_notes(folder)
        self.create()
        self.add(notes)
        return len(notes)

    def create(self) -> None:
        """Make an empty table."""
        self._connection.execute(
            "CREATE VIRTUAL TABLE notes USING fts5"
            "(path UNINDEXED, body, tokenize = 'porter unicode61')"
        )

    def add(self, notes: Sequence[Path]) -> None:
        """Index notes in one transaction."""
        rows = ((str(note), note.read_text("utf-8", errors="replace")) for note in notes)
        with self._connection:
            self._connection.executemany("INSERT INTO notes VALUES (?, ?)", rows)

    def search(self, words: Sequence[str], limit: int = 10) -> list[tuple[str, str]]:
        """Return path and text of the best notes with any of the words."""
        wanted = " OR ".join(f'"{word}"' for word in words)
        sql = "SELECT path, body FROM notes WHERE notes MATCH ? ORDER BY bm25(notes) LIMIT ?"
        return self._connection.execute(sql, (wanted, limit)).fetchall() if wanted else []

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def write_fts5_script(folder: Path, database: Path, words: Sequence[str]) -> list[str | Path]:
    """Write a script that asks the table and return how it is asked for these words."""
    script = folder / "fts5.py"
    script.write_text(_FTS5_SCRIPT, encoding="utf-8")
    return [sys.executable, script, database, *words]


class PlainWhoosh:
    """Whole notes in Whoosh as its documentation has it: a stemmed text field, note by note."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._searcher: Any = None

    def build(self, folder: Path, limit: int = WHOOSH_SAMPLE) -> int:
        """Index the first `limit` notes and return their number."""
        self.create()
        notes = list_notes(folder)[:limit]
        self.add(notes)
        return len(notes)

    def create(self) -> None:
        """Make an empty index."""
        from whoosh.analysis import StemmingAnalyzer
        from whoosh.fields import ID, TEXT, Schema
        from whoosh.index import create_in

        self._folder.mkdir(parents=True)
        create_in(
            str(self._folder),
            Schema(path=ID(stored=True), body=TEXT(analyzer=StemmingAnalyzer())),
        )

    def add(self, notes: Sequence[Path]) -> None:
        """Index notes in one commit."""
        from whoosh.index import open_dir

        writer = open_dir(str(self._folder)).writer()
        for note in notes:
            writer.add_document(path=str(note), body=note.read_text("utf-8", errors="replace"))
        writer.commit()
        self.close()

    def search(self, words: Sequence[str], limit: int = 10) -> list[str]:
        """Return the paths of the best notes with any of the words."""
        from whoosh.index import open_dir
        from whoosh.qparser import OrGroup, QueryParser

        if self._searcher is None:
            self._searcher = open_dir(str(self._folder)).searcher()
        parser = QueryParser("body", self._searcher.schema, group=OrGroup)
        return [
            hit["path"] for hit in self._searcher.search(parser.parse(" ".join(words)), limit=limit)
        ]

    def close(self) -> None:
        """Close the index."""
        if self._searcher is not None:
            self._searcher.close()
            self._searcher = None


def find_ripgrep() -> str | None:
    """Return ripgrep's program, None where it is not installed."""
    return shutil.which("rg")


def search_ripgrep(program: str, folder: Path, words: Sequence[str]) -> None:
    """Count the lines of each file that have any of the words."""
    patterns = [part for word in words for part in ("-e", word)]
    run_command([program, "-c", "-i", *patterns, folder])


def init_repository(folder: Path) -> None:
    """Put all that is in a folder under git, in one commit."""
    run_command(["git", "init", "-q", "-b", "main"], folder)
    commit_all(folder, "all notes")


def commit_all(folder: Path, subject: str) -> None:
    """Commit all changes as a person would."""
    run_command(["git", "add", "-A"], folder)
    run_command(["git", "commit", "-q", "-m", subject], folder)
