"""Measure vaultmem side by side with SQLite FTS5, plain Whoosh, ripgrep and git.

    python benchmarks/run.py [--notes 1000 10000] [--folder DIR] [--short] [--json FILE]

README.md says what each row means.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from baselines import init_repository, list_notes
from finding import measure_recall
from generate import SEED, generate_vault
from history import measure_history
from indexing import Bench, Effort, measure_index, measure_syncs
from measure import Row, isolate
from processes import measure_checkpoint, measure_commands
from queries import make_queries
from report import describe_machine, format_table, list_unmeasured, row_as_json
from watching import measure_watching

SHORT = Effort(index=2, sync=7, queries=75, process=5)
FULL = Effort(index=3, sync=21, queries=250, process=15)
LARGE = Effort(index=1, sync=5, queries=150, process=5)

#: From this many notes on, the slow steps are measured less often.
LARGE_VAULT = 50_000


def main() -> None:
    """Measure the vaults that the command line names and print a table for each."""
    given = _read_arguments()
    machine = describe_machine()
    print(_machine_line(machine))
    sources: list[int | Path] = [given.folder] if given.folder else list(given.notes)
    results = [_measure_source(source, given.short) for source in sources]
    left_out = list_unmeasured([result["notes"] for result in results])
    print("\nNot measured:")
    print("\n".join(f"- {reason}" for reason in left_out))
    if given.json:
        result = {"machine": machine, "seed": SEED, "vaults": results, "not_measured": left_out}
        given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _measure_source(source: int | Path, short: bool) -> dict[str, Any]:
    """Make a vault (of a size, or a copy of a folder), measure it and remove it."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
        scratch = Path(name).resolve()
        isolate(scratch)
        folder = scratch / "vault"
        if isinstance(source, Path):
            _copy_notes(source, folder)
        else:
            generate_vault(folder, source)
        notes = len(list_notes(folder))
        effort = SHORT if short else LARGE if notes >= LARGE_VAULT else FULL
        queries = make_queries(folder, effort.queries, SEED)
        if notes < effort.sync or len(queries) < effort.queries // 2:
            raise SystemExit(f"{source}: too few notes with words to measure anything")
        init_repository(folder)
        prepared = time.perf_counter() - started
        rows = _measure_vault(Bench(folder, scratch, notes, queries, effort))
    seconds = time.perf_counter() - started
    print(f"\n{source if isinstance(source, Path) else 'made-up vault'}, {notes:,} notes")
    print(f"(prepared in {prepared:.0f} s, measured in {seconds - prepared:.0f} s)\n")
    print(format_table(rows), flush=True)
    return {
        "source": str(source),
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
    saves = {SHORT: 12, FULL: 150, LARGE: 30}[bench.effort]
    return [*rows, *measure_watching(bench, saves)]


def _copy_notes(source: Path, folder: Path) -> None:
    """Copy a folder's markdown, so that nothing of a person's is ever changed."""
    for note in sorted(source.rglob("*.md")):
        inside = note.relative_to(source)
        hidden = any(part.startswith(".") for part in inside.parts)
        if note.is_file() and not note.is_symlink() and not hidden:
            (folder / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(note, folder / inside)


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure vaultmem beside other tools.")
    parser.add_argument("--notes", type=int, nargs="+", default=[1_000, 10_000], metavar="N")
    parser.add_argument("--folder", type=Path, help="measure a copy of this folder of markdown")
    parser.add_argument("--short", action="store_true", help="1,000 notes, few repetitions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to a file")
    given = parser.parse_args()
    if given.short:
        given.notes = [1_000]
    return given


def _machine_line(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    head = f"Python {machine['python']}, {machine['cores']} cores, {machine['processor']}"
    return f"{head}, {machine['system']}\nSQLite {machine['sqlite']}, {packages}"


if __name__ == "__main__":
    main()
