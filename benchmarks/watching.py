"""Rows on a watched vault: from a save to its being found, and commands that a watcher answers."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from baselines import Fts5, init_repository, list_notes, write_fts5_script
from finding import content_of
from generate import SEED, generate_vault
from indexing import Bench, Effort
from measure import Row, find_command, isolate, percentile, run_command, time_in_turns
from memory import read_cpu, read_resident
from queries import make_queries
from report import format_table


def measure_watching(bench: Bench, saves: int, idle: float) -> list[Row]:
    """Start a watcher, save notes as editors do, leave it alone, and ask from other processes."""
    with watched(bench.vault) as watcher:
        rows = [*_measure_saves(bench, saves), *_measure_recall(bench)]
        return [*rows, *_measure_idle(watcher, idle)]


@contextmanager
def watched(vault: Path) -> Iterator[int]:
    """Have a watcher, given by its process id, for the time of a `with`."""
    command = [*find_command(), "watch", "--vault", vault]
    begun = subprocess.run(
        [*map(str, command), "--daemon", "--json"], check=True, capture_output=True
    )
    try:
        yield int(json.loads(begun.stdout)["watcher"]["pid"])
    finally:
        run_command([*command, "--stop"])


def _measure_saves(bench: Bench, saves: int) -> list[Row]:
    """Time from the end of a save until the index has it, looked at every 10 ms from outside."""
    from vaultmem.core.search.query import NoteFilter, parse_query
    from vaultmem.services.search.recall import recall
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
    """Save a note with a new word: renamed onto it, in place, as vim does, with sed, or anew."""
    text = f"{note.read_text('utf-8', errors='replace')}\n{word}\n"
    kind = number % 5
    if kind == 0:
        spare = note.with_name(f".{note.name}.tmp")
        spare.write_text(text, "utf-8")
        os.replace(spare, note)
    elif kind == 1:
        note.write_text(text, "utf-8")
    elif kind == 2:
        backup = note.with_name(f"{note.name}~")
        os.rename(note, backup)
        note.write_text(text, "utf-8")
        backup.unlink()
    elif kind == 3:
        run_command(["sed", "-i", f"$ a {word}", note])
    else:
        folder = note.with_name(f"new{number}")
        folder.mkdir()
        (folder / note.name).write_text(text, "utf-8")


def _measure_recall(bench: Bench) -> list[Row]:
    query = bench.queries[0]
    ours = [*find_command(), "recall", "--vault", bench.vault, *query.split()]
    theirs = write_fts5_script(bench.scratch, bench.database, content_of(query))
    actions = {
        "vaultmem": lambda: run_command(ours),
        "SQLite FTS5 in a script": lambda: run_command(theirs),
        "python -c pass": lambda: run_command([sys.executable, "-c", "pass"]),
    }
    run_command(ours)
    taken = time_in_turns(list(actions.values()), bench.effort.process * 4)
    samples = dict(zip(actions, taken, strict=True))
    middle = {name: statistics.median(each) for name, each in samples.items()}
    return [
        Row("vaultmem recall, watched", "s", middle["vaultmem"], other, middle[other], samples)
        for other in list(actions)[1:]
    ]


def _measure_idle(watcher: int, seconds: float) -> list[Row]:
    """Read what the watcher takes while nothing happens, where the system tells it (Linux)."""
    if not Path("/proc/self/stat").exists():
        return []
    time.sleep(15)  # What it does after the last change is done by then.
    before, memory = read_cpu(watcher), [read_resident(watcher)]
    started = time.perf_counter()
    while (left := started + seconds - time.perf_counter()) > 0:
        time.sleep(min(left, 10))
        memory.append(read_resident(watcher))
    share = (read_cpu(watcher) - before) / (time.perf_counter() - started) * 100
    return [
        Row(f"idle watcher, {seconds:.0f} s", "% CPU", share),
        Row("idle watcher, memory", "MB", memory[-1], "at first", memory[0], {"MB": memory}),
    ]


def main() -> None:
    """Measure this alone: `python benchmarks/watching.py --notes 10000 --saves 500 --idle 600`."""
    parser = argparse.ArgumentParser(description="Measure a watched vault.")
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--saves", type=int, default=500)
    parser.add_argument("--idle", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
        scratch = Path(name).resolve()
        isolate(scratch)
        folder = scratch / "vault"
        generate_vault(folder, given.notes)
        init_repository(folder)
        effort = Effort(index=1, sync=1, queries=20, process=15)
        queries = make_queries(folder, effort.queries, SEED)
        bench = Bench(folder, scratch, given.notes, queries, effort)
        table = Fts5(bench.database)
        table.build(folder)
        table.close()
        run_command([*find_command(), "index", "--vault", folder])
        print(format_table(measure_watching(bench, given.saves, given.idle)))


if __name__ == "__main__":
    main()
