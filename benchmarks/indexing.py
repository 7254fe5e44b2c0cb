"""Rows on the index: building it, its memory, and keeping it up to date."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from baselines import WHOOSH_SAMPLE, list_notes
from measure import Row, compare, find_command, run_command, run_worker, worker_command
from memory import can_read_trees, run_sampled

if TYPE_CHECKING:
    from vaultmem.vault import Vault


@dataclass(frozen=True)
class Effort:
    """How often each thing is measured."""

    index: int
    sync: int
    queries: int
    process: int


@dataclass(frozen=True)
class Bench:
    """One vault under measurement; `scratch` has state, databases and the copy for git."""

    vault: Path
    scratch: Path
    notes: int
    queries: list[str]
    effort: Effort

    @property
    def database(self) -> Path:
        """Where the FTS5 table of the last full index is."""
        return self.scratch / "notes.fts5"

    @property
    def whoosh(self) -> Path:
        """Where the plain Whoosh index of the last full index is."""
        return self.scratch / "whoosh"


def measure_index(bench: Bench) -> list[Row]:
    """Index everything from nothing, the three engines in turns, each in a new process."""
    rounds = [_index_once(bench) for _ in range(bench.effort.index)]
    speed, seconds, memory, disk = (
        {name: [float(each[figure][name]) for each in rounds] for name in rounds[0][figure]}
        for figure in ("speed", "seconds", "memory", "disk")
    )
    whoosh = "plain Whoosh", whoosh_label(bench)
    script = "SQLite FTS5 in a script"
    in_memory = [_median_row("full index, memory", "MB", memory, script)]
    return [
        _median_row("full index", "notes/s", speed, "SQLite FTS5"),
        _median_row("full index", "notes/s", speed, *whoosh),
        _median_row("vaultmem index, from nothing", "s", seconds, script),
        *(in_memory if can_read_trees() else []),
        _median_row("full index, disk", "x notes", disk, "SQLite FTS5"),
        _median_row("full index, disk", "x notes", disk, *whoosh),
    ]


def measure_syncs(bench: Bench, vault: Vault) -> list[Row]:
    """Sync where nothing changed, then where one note did; both look at every file."""
    from vaultmem.services.views.update_index import sync_vault

    def find_status() -> None:
        run_command(["git", "status", "--porcelain"], bench.vault)

    def sync() -> None:
        sync_vault(vault)

    edited = iter(list_notes(bench.vault))

    def edit_note() -> None:
        append_line(next(edited))
        time.sleep(0.12)  # A younger change is looked at twice, which people do not wait for.

    sync()
    time.sleep(0.12)
    sync()
    actions = {"vaultmem": sync, "git status (process)": find_status}
    return [
        compare("index, nothing changed", actions, bench.effort.sync, unit="ms"),
        compare(
            "index, one note changed",
            {"vaultmem": sync},
            bench.effort.sync,
            unit="ms",
            prepare=edit_note,
        ),
    ]


def append_line(note: Path) -> None:
    """Change a note as an editor does that adds a line."""
    with note.open("a", encoding="utf-8") as file:
        file.write("One more line about the timeout of the release queue.\n")


def _index_once(bench: Bench) -> dict[str, dict[str, float]]:
    """Time each engine, then look at the memory of two, which would slow down what is timed."""
    _remove_indexes(bench)
    shutil.rmtree(bench.whoosh, ignore_errors=True)
    built = {
        "vaultmem": run_worker("vaultmem", bench.vault),
        "SQLite FTS5": run_worker("fts5", bench.vault, bench.database),
        "plain Whoosh": run_worker("whoosh", bench.vault, bench.whoosh),
    }
    disk = _measure_disk(bench)
    _remove_indexes(bench)
    commands = {
        "vaultmem": [*find_command(), "index", "--vault", bench.vault],
        "SQLite FTS5 in a script": worker_command("fts5", bench.vault, bench.database),
    }
    sampled = {name: run_sampled(command) for name, command in commands.items()}
    return {
        "speed": {name: each["notes"] / each["seconds"] for name, each in built.items()},
        "disk": disk,
        "seconds": {name: seconds for name, (seconds, _) in sampled.items()},
        "memory": {name: peak for name, (_, peak) in sampled.items()},
    }


def _remove_indexes(bench: Bench) -> None:
    shutil.rmtree(bench.scratch / "state")
    (bench.scratch / "state").mkdir()
    bench.database.unlink(missing_ok=True)


def _measure_disk(bench: Bench) -> dict[str, float]:
    """Return what each engine wrote, in shares of the bytes of the notes that it read."""
    notes = list_notes(bench.vault)
    whole, sample = _sum_sizes(notes), _sum_sizes(notes[:WHOOSH_SAMPLE])
    return {
        "vaultmem": _sum_sizes((bench.scratch / "state").rglob("*")) / whole,
        "SQLite FTS5": _sum_sizes([bench.database]) / whole,
        "plain Whoosh": _sum_sizes(bench.whoosh.iterdir()) / sample,
    }


def _sum_sizes(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.is_file())


def _median_row(
    what: str, unit: str, samples: dict[str, list[float]], versus: str, label: str = ""
) -> Row:
    ours, theirs = samples["vaultmem"], samples[versus]
    both = {"vaultmem": ours, versus: theirs}
    medians = statistics.median(ours), statistics.median(theirs)
    return Row(what, unit, medians[0], label or versus, medians[1], both)


def whoosh_label(bench: Bench) -> str:
    """Return how plain Whoosh is named, with its sample where it has one."""
    sampled = bench.notes > WHOOSH_SAMPLE
    return f"plain Whoosh, {WHOOSH_SAMPLE:,} notes" if sampled else "plain Whoosh"
