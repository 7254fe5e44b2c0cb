"""Whether the derived state is whole, and what the database says of all notes at once."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from vaultmem.errors import VaultError
from vaultmem.storage.state import State

if TYPE_CHECKING:
    from vaultmem.storage.index.search_index import SearchIndex

#: One of so many terms is read to see whether an index is whole.
_EACH = 16


def find_damage(state: State) -> str:
    """Return what SQLite itself finds wrong with the database, empty if nothing.

    Raises:
        VaultError: it is damaged so much that it was set aside.
    """
    told = str(state.query("PRAGMA quick_check(1)")[0][0])
    return "" if told == "ok" else f"the database is damaged ({told})"


def find_index_damage(index: SearchIndex) -> str:
    """Return why an index cannot be read, empty if its numbers and a share of its terms can.

    A file of it that was changed is known by its size and time; this finds what bears neither.
    """
    from vaultmem.storage.index.segments import read_column

    try:
        documents: set[int] = set()
        for reader in index.snapshot().readers:
            documents.update(read_column(reader, "document"))
            terms = 0
            for field, term in islice(reader.all_terms(), 0, None, _EACH):
                reader.postings(field, term).id()
                terms += 1
            if reader.doc_count_all() and not terms:
                return "the index has lost its terms"
        for name in ("ordinal", "body_length"):
            index.snapshot().column(name)
        if documents != index.documents():
            return "the index is damaged (its parts do not fit together)"
    except VaultError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged files can raise whatever there is.
        return f"the index is damaged ({type(error).__name__})"
    return ""


def count_notes(state: State, column: str) -> dict[str, int]:
    """Count the work tree's notes by "kind" or "state", the most first."""
    if column not in {"kind", "state"}:
        raise ValueError(column)
    rows = state.query(
        f"SELECT d.{column}, count(*) FROM files f JOIN documents d ON d.id = f.document "
        "GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    return {str(value): int(count) for value, count in rows}


def list_problems(state: State) -> list[tuple[str, str]]:
    """Return path and reason of every file that was not read, or not fully; twins left out."""
    rows = state.query(
        "SELECT path, problem FROM files WHERE problem <> '' UNION ALL "
        "SELECT d.path, w.value FROM documents d JOIN files f ON f.document = d.id, "
        "json_each(d.warnings) w WHERE d.warnings <> '[]' ORDER BY 1"
    )
    return [(str(path), str(problem)) for path, problem in rows]


def list_paths(state: State) -> list[str]:
    """Return the paths of all files that were seen, sorted."""
    return [str(path) for (path,) in state.query("SELECT path FROM files ORDER BY path")]
