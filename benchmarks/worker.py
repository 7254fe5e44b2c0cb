"""One full index in a process of its own; prints seconds and notes as JSON.

Imports are done before the clock starts.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from baselines import Fts5, PlainWhoosh


def index_vaultmem(vault: Path) -> Callable[[], int]:
    """Prepare a sync of a vault that has no state yet."""
    from vaultmem.services.views.update_index import sync_vault
    from vaultmem.vault import open_vault

    opened = open_vault(vault)
    return lambda: sync_vault(opened).added


def index_fts5(vault: Path, database: Path) -> Callable[[], int]:
    """Prepare an FTS5 table of the vault's notes."""
    table = Fts5(database)
    return lambda: table.build(vault)


def index_whoosh(vault: Path, folder: Path) -> Callable[[], int]:
    """Prepare a plain Whoosh index of a sample of the vault's notes."""
    import whoosh.analysis
    import whoosh.fields
    import whoosh.index  # noqa: F401

    index = PlainWhoosh(folder)
    return lambda: index.build(vault)


_TASKS: dict[str, Callable[..., Callable[[], int]]] = {
    "vaultmem": index_vaultmem,
    "fts5": index_fts5,
    "whoosh": index_whoosh,
}


def main() -> None:
    """Run the task that the command line names."""
    task, *arguments = sys.argv[1:]
    action = _TASKS[task](*map(Path, arguments))
    started = time.perf_counter()
    notes = action()
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "notes": notes}))


if __name__ == "__main__":
    main()
