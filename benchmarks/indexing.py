"""Rows on the index: building it, its memory, and keeping it up to date."""

from __future__ import annotations

import shutil
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baselines import WHOOSH_SAMPLE, list_notes
from measure import Row, compare, run_command, run_worker

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
    speed = {
        name: [each[name]["notes"] / each[name]["seconds"] for each in rounds] for name in rounds[0]
    }
    memory = {name: [each[name]["memory"] for each in rounds] for name in rounds[0]}
    return [
        _median_row("full index", "notes/s", speed, "SQLite FTS5"),
        _median_row("full index", "notes/s", speed, "plain Whoosh", whoosh_label(bench)),
        _median_row("full index, peak memory", "MB", memory, "SQLite FTS5"),
    ]


def measure_syncs(bench: Bench, vault: Vault) -> list[Row]:
    """Sync where nothing changed, then where one note did; both look at every file."""
    from vaultmem.services.reading.sync import sync_vault

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
        compare("sync, nothing changed", actions, bench.effort.sync, unit="ms"),
        compare(
            "sync, one note changed",
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


def _index_once(bench: Bench) -> dict[str, dict[str, Any]]:
    shutil.rmtree(bench.scratch / "state")
    (bench.scratch / "state").mkdir()
    bench.database.unlink(missing_ok=True)
    shutil.rmtree(bench.whoosh, ignore_errors=True)
    return {
        "vaultmem": run_worker("vaultmem", bench.vault),
        "SQLite FTS5": run_worker("fts5", bench.vault, bench.database),
        "plain Whoosh": run_worker("whoosh", bench.vault, bench.whoosh),
    }


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
