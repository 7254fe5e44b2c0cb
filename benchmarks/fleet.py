"""Measure pools of many vaults: in one process, and over Ray's actors on several nodes.

    python benchmarks/fleet.py --notes DIR [--vaults 10 100 1000] [--each 100] [--nodes 3]

README.md says what each row means. The nodes are processes of this machine, so they share its
cores: what several machines would give is not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fleet_remotes import make_remotes
from generate import SEED
from measure import HERE, isolate, percentile
from queries import make_queries

_QUESTIONS = 100

#: Rows of the table: what is shown, of which figure, and how.
_ROWS = (
    ("clone and index", "fill_s", "{:,.1f} s"),
    ("... CPU", "fill_cpu_s", "{:,.1f} s"),
    ("clones on disk", "clone_mb", "{:,.0f} MB"),
    ("indexes on disk", "index_mb", "{:,.0f} MB"),
    ("memory, all processes", "memory_mb", "{:,.0f} MB"),
    ("recall of one vault, p50", ("one", 0.5), "{:,.1f} ms"),
    ("... p95", ("one", 0.95), "{:,.1f} ms"),
    ("recall of ten, p50", ("ten", 0.5), "{:,.1f} ms"),
    ("... p95", ("ten", 0.95), "{:,.1f} ms"),
    ("recall of all, first", "all_first_ms", "{:,.0f} ms"),
    ("recall of all, p50", ("all", 0.5), "{:,.0f} ms"),
    ("... p95", ("all", 0.95), "{:,.0f} ms"),
    ("questions a second", "per_second", "{:,.0f}"),
    ("a node's vaults back after", "back_s", "{:,.1f} s"),
    ("... vaults that it had", "back_vaults", "{:,}"),
    ("... one of them asked alone", "back_first_s", "{:,.1f} s"),
    ("writes of ten meanwhile", "writes", "{:,}"),
    ("... lost", "writes_lost", "{:,}"),
)


def main() -> None:
    """Measure each size and print a table for it."""
    given = _read_arguments()
    notes = sorted(given.notes.rglob("*.md"))
    with tempfile.TemporaryDirectory(prefix="vaultmem-fleet-", dir=given.scratch) as name:
        scratch = Path(name).resolve()
        isolate(scratch)
        asked = scratch / "questions.json"
        asked.write_text(json.dumps(make_queries(given.notes, _QUESTIONS, SEED)))
        results = []
        for each in given.each:
            remotes = (given.remotes or scratch) / f"{max(given.vaults)}x{each}"
            make_remotes(notes, remotes, max(given.vaults), each)
            for vaults in given.vaults:
                measured = [
                    _run(engine, remotes, scratch / engine, asked, vaults, given.nodes)
                    for engine in given.engines
                ]
                results += measured
                print(_format(measured, vaults, each), flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=Path, required=True, help="A folder of markdown.")
    parser.add_argument("--vaults", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--each", type=int, nargs="+", default=[100])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--remotes", type=Path, help="Where made repositories are kept.")
    parser.add_argument("--scratch", type=Path, help="Where the clones are, for the time of it.")
    parser.add_argument("--json", type=Path)
    engines = ["local", *(["ray"] if find_spec("ray") else [])]
    parser.add_argument("--engines", nargs="+", default=engines, choices=["local", "ray"])
    return parser.parse_args()


def _run(
    engine: str, remotes: Path, folder: Path, asked: Path, vaults: int, nodes: int
) -> dict[str, Any]:
    """Measure one engine in a process of its own."""
    worker = [sys.executable, HERE / "fleet_worker.py", engine, remotes, folder, asked]
    options = ["--vaults", vaults, "--nodes", nodes, *(["--kill"] if engine == "ray" else [])]
    done = subprocess.run(
        list(map(str, [*worker, *options])), stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _format(measured: list[dict[str, Any]], vaults: int, each: int) -> str:
    """Return a table: a column for each engine, and the second as a multiple of the first."""
    sections, megabytes = measured[0]["sections"], measured[0]["clone_mb"]
    lines = [
        f"\n{vaults:,} vaults of {each:,} notes: {sections:,} sections, {megabytes:,.0f} MB of "
        f"clones; {os.cpu_count()} cores\n",
        f"{'':<28}" + "".join(f"{one['engine']:>14}" for one in measured) + f"{'ratio':>9}",
    ]
    for what, name, shown in _ROWS:
        values = [_find(one, name) for one in measured]
        if not any(value is not None for value in values):
            continue
        cells = ["" if value is None else shown.format(value) for value in values]
        first, last = values[0], values[-1]
        ratio = f"{last / first:9.2f}" if len(values) > 1 and first and last else ""
        lines.append(f"{what:<28}" + "".join(f"{cell:>14}" for cell in cells) + ratio)
    if len(measured) > 1:
        same = len({one["digest"] for one in measured}) == 1
        told = "the same" if same else "NOT THE SAME"
        lines.append(f"Answers of both: {told} (paths, sections, scores of {_QUESTIONS * 3 + 3})")
    left_out = sum(one[f"{what}_missing"] for one in measured for what in ("one", "ten", "all"))
    lines += [f"Vaults that were missing in answers: {left_out}"] if left_out else []
    return "\n".join(lines)


def _find(measured: dict[str, Any], name: str | tuple[str, float]) -> float | None:
    if isinstance(name, str):
        return measured.get(name)
    values = measured[name[0]]
    return statistics.median(values) if name[1] == 0.5 else percentile(values, name[1])


if __name__ == "__main__":
    main()
