"""Measure vaultmem side by side with SQLite FTS5, plain Whoosh, ripgrep and git.

    python benchmarks/run.py [--folder DIR [--copies 1 12]] [--notes 1000 10000] [--short]

README.md says what each row means.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from baselines import init_repository, list_notes
from finding import measure_recall
from generate import SEED
from history import measure_history
from indexing import Bench, Effort, measure_index, measure_syncs
from measure import Row, isolate
from processes import measure_checkpoint, measure_commands
from queries import make_queries
from report import describe_machine, format_table, list_unmeasured, row_as_json
from sources import Source, describe_source, write_source
from watching import measure_watching

SHORT = Effort(index=1, sync=5, queries=40, process=3)
FULL = Effort(index=3, sync=21, queries=250, process=15)
LARGE = Effort(index=1, sync=5, queries=150, process=5)

#: From this many notes on, the slow steps are measured less often.
LARGE_VAULT = 50_000


def main() -> None:
    """Measure the vaults that the command line names and print a table for each."""
    given = _read_arguments()
    machine = describe_machine()
    print(_machine_line(machine))
    results = [_measure_source(source, given.short) for source in _list_sources(given)]
    left_out = list_unmeasured([result["notes"] for result in results])
    print("\nNot measured:")
    print("\n".join(f"- {reason}" for reason in left_out))
    if given.json:
        result = {"machine": machine, "seed": SEED, "vaults": results, "not_measured": left_out}
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _list_sources(given: argparse.Namespace) -> list[Source]:
    """Return what to measure, real notes first; without a word on it, made-up ones."""
    real = [Source(copies, given.folder) for copies in given.copies] if given.folder else []
    sizes = given.notes or ([] if real else [1_000] if given.short else [1_000, 10_000])
    return real + [Source(size) for size in sizes]


def _measure_source(source: Source, short: bool) -> dict[str, Any]:
    """Make a vault of the source's notes, measure it and remove it."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
        scratch = Path(name).resolve()
        isolate(scratch)
        folder = scratch / "vault"
        write_source(source, folder)
        files = list_notes(folder)
        notes, described = len(files), describe_source(source, files)
        effort = SHORT if short else LARGE if notes >= LARGE_VAULT else FULL
        queries = make_queries(folder, effort.queries, SEED)
        if notes < effort.sync or len(queries) < effort.queries // 2:
            raise SystemExit(f"{described}: too few with words to measure anything")
        init_repository(folder)
        prepared = time.perf_counter() - started
        rows = _measure_vault(Bench(folder, scratch, notes, queries, effort))
    seconds = time.perf_counter() - started
    print(f"\n{described}")
    print(f"(prepared in {prepared:.0f} s, measured in {seconds - prepared:.0f} s)\n")
    print(format_table(rows), flush=True)
    return {
        "source": described,
        "notes": notes,
        "seconds": seconds,
        "rows": [row_as_json(row) for row in rows],
    }


def _measure_vault(bench: Bench) -> list[Row]:
    from vaultmem.vault import open_vault

    rows = measure_index(bench)
    vault = open_vault(bench.vault)
    syncs = measure_syncs(bench, vault)
    found = measure_recall(bench, vault)
    vault.close()
    rows += [*syncs, *found, *measure_commands(bench)]
    if bench.notes < LARGE_VAULT:
        rows += measure_history(bench, 40 if bench.effort is SHORT else 300)
    rows += measure_checkpoint(bench)
    saves, idle = {SHORT: (8, 5.0), FULL: (150, 20.0), LARGE: (30, 20.0)}[bench.effort]
    return [*rows, *measure_watching(bench, saves, idle)]


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure vaultmem beside other tools.")
    parser.add_argument("--folder", type=Path, help="measure a copy of this folder of markdown")
    copies_help = "so many copies of the folder in one vault; each number is measured by itself"
    parser.add_argument("--copies", type=int, nargs="+", default=[1], metavar="N", help=copies_help)
    notes_help = "made-up notes; 1000 and 10000 if nothing is named"
    parser.add_argument("--notes", type=int, nargs="+", metavar="N", help=notes_help)
    parser.add_argument("--short", action="store_true", help="few repetitions, 1,000 made-up notes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to a file")
    return parser.parse_args()


def _machine_line(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    head = f"Python {machine['python']}, {machine['cores']} cores, {machine['processor']}"
    return f"{head}, {machine['system']}\nSQLite {machine['sqlite']}, {packages}"


if __name__ == "__main__":
    main()
