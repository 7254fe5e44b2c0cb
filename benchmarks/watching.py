"""Rows on a watched vault: from a save to its being found, and commands that a watcher answers."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from baselines import list_notes
from indexing import Bench
from measure import Row, compare, percentile, run_command
from processes import find_command

_FTS5_SCRIPT = """\
import sqlite3, sys
words = " OR ".join(f'"{word}"' for word in sys.argv[2:])
query = "SELECT path FROM notes WHERE notes MATCH ? ORDER BY bm25(notes) LIMIT 10"
for (path,) in sqlite3.connect(sys.argv[1]).execute(query, (words,)):
    print(path)
"""


def measure_watching(bench: Bench, saves: int) -> list[Row]:
    """Start a watcher, save notes as editors do, and ask from other processes."""
    with _watched(bench):
        return [*_measure_saves(bench, saves), _measure_recall(bench)]


@contextmanager
def _watched(bench: Bench) -> Iterator[None]:
    command = [*find_command(), "watch", "--vault", bench.vault]
    run_command([*command, "--daemon"])
    try:
        yield
    finally:
        run_command([*command, "--stop"])


def _measure_saves(bench: Bench, saves: int) -> list[Row]:
    """Time from the end of a save until the index has it, looked at every 10 ms from outside."""
    from vaultmem.core.finding.query import NoteFilter, parse_query
    from vaultmem.services.finding.recall import recall
    from vaultmem.vault import open_vault

    vault = open_vault(bench.vault)
    notes = itertools.cycle(reversed(list_notes(bench.vault)))
    everything = NoteFilter(any_state=True)
    seconds = []
    for number in range(saves):
        word = f"quagga{number}x{os.getpid()}"
        _save(next(notes), word, number)
        started = time.perf_counter()
        while not recall(vault, parse_query(word, note_filter=everything)):
            if time.perf_counter() - started > 30:
                raise SystemExit(f"{word}: saved and never found")
            time.sleep(0.01)
        seconds.append(time.perf_counter() - started)
    vault.close()
    samples = {"vaultmem": seconds}
    return [
        Row(f"save to found, {name}", "s", percentile(seconds, share), samples=samples)
        for name, share in (("median", 0.5), ("95 of 100", 0.95))
    ]


def _save(note: Path, word: str, number: int) -> None:
    """Save a note with a new word: by atomic rename, in place, or as vim does."""
    text = f"{note.read_text('utf-8')}\n{word}\n"
    if number % 3 == 0:
        spare = note.with_name(f".{note.name}.tmp")
        spare.write_text(text, "utf-8")
        os.replace(spare, note)
    elif number % 3 == 1:
        note.write_text(text, "utf-8")
    else:
        backup = note.with_name(f"{note.name}~")
        os.rename(note, backup)
        note.write_text(text, "utf-8")
        backup.unlink()


def _measure_recall(bench: Bench) -> Row:
    words = bench.queries[0].split()
    ours = [*find_command(), "recall", "--vault", bench.vault, *words]
    script = bench.scratch / "fts5.py"
    script.write_text(_FTS5_SCRIPT, encoding="utf-8")
    theirs = [sys.executable, script, bench.database, *words]
    subprocess.run(list(map(str, ours)), check=True, capture_output=True)
    actions = {
        "vaultmem": lambda: run_command(ours),
        "SQLite FTS5 in a script": lambda: run_command(theirs),
    }
    return compare("vaultmem recall, watched", actions, bench.effort.process * 2)
