"""Let machines with clones of one vault live through rounds of work; look at what comes of it.

`python campaign.py --rounds 50 --jobs 2 [--ways sync,rebase,git,Obsidian-Git] [--machines 2,5]
[--resident no,yes] [--seed N] [--json FILE] [--keep FOLDER]` prints one table. In each round each
machine makes some edits, by hand and by `vaultmem`, and carries them to the remote in its way; some
commands are killed, and some lines are cut. In the end all come together again, twice. The same
seed gives each way the same edits and troubles.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from life import live  # noqa: E402
from terminal import sitting_at_terminal  # noqa: E402

MEMORY = Path("/dev/shm")
COLUMNS = (
    *("machines", "way", "resident", "rounds", "pulls", "kills", "cut", "stopped", "callouts"),
    *("recorded", "lost", "markers", "yaml", "twins", "unequal", "freer", "rescues", "seconds"),
)
HAVE_TO_BE_NONE = ("lost", "markers", "yaml", "twins", "unequal", "freer", "rescues")


def list_rows(given: argparse.Namespace) -> list[tuple[int, str, str]]:
    """Return the rows of the table: how many machines, which way, whether somebody is resident."""
    rows = []
    for way in given.ways.split(","):
        for resident in given.resident.split(","):
            if resident == "no" or way in {"sync", "rebase"}:
                rows += [(int(count), way, resident) for count in given.machines.split(",")]
    return rows


def run_row(given: argparse.Namespace, row: tuple[int, str, str]) -> dict[str, Any]:
    """Run a row as a process of its own."""
    count, way, resident = row
    words = ["--one", f"{count},{way},{resident}", "--rounds", str(given.rounds)]
    words += ["--seed", given.seed, "--keep", given.keep]
    done = subprocess.run(
        [sys.executable, __file__, *words], capture_output=True, text=True, check=False
    )
    try:
        return {**json.loads(done.stdout.splitlines()[-1])}
    except (IndexError, ValueError):
        return {"machines": count, "way": way, "resident": resident, "failed": done.stderr[-3000:]}


def run_one(given: argparse.Namespace) -> None:
    """Be the process of a row."""
    count, way, resident = given.one.split(",")
    started = time.monotonic()
    place = MEMORY if MEMORY.is_dir() and not given.keep else None
    with tempfile.TemporaryDirectory(prefix="vaultmem-machines-", dir=place) as name:
        folder = Path(given.keep or name) / f"{count}-{way}-{resident}"
        folder.mkdir(parents=True)
        found = live(folder, given.seed, given.rounds, int(count), way, resident == "yes")
    used = os.times()
    found["cpu"] = round(used.children_user + used.children_system + used.user + used.system)
    found["seconds"] = round(time.monotonic() - started)
    print(json.dumps({"machines": int(count), "way": way, "resident": resident, **found}))


def tabulate(rows: list[dict[str, Any]]) -> str:
    """Return the table."""
    shown = [[str(_count(row.get(name, ""))) for name in COLUMNS] for row in rows]
    heads = [{"yaml": "bad YAML", "seconds": "s"}.get(name, name) for name in COLUMNS]
    lines = [heads, ["---"] * len(COLUMNS), *shown]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _count(value: Any) -> Any:
    return len(value) if isinstance(value, list) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--machines", default="2,5")
    parser.add_argument("--ways", default="sync,rebase,git,Obsidian-Git")
    parser.add_argument("--resident", default="no,yes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--json", default="")
    parser.add_argument("--keep", default="")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        run_one(given)
        return 0
    rows = list_rows(given)
    order = sorted(rows, key=lambda row: (row[0], row[2]), reverse=True)  # The longest first.
    lock = threading.Lock()

    def run(row: tuple[int, str, str]) -> dict[str, Any]:
        found = run_row(given, row)
        with lock:
            print(json.dumps(found), file=sys.stderr, flush=True)
            if given.json:
                with open(given.json, "a") as file:
                    file.write(f"{json.dumps(found)}\n")
        return found

    with ThreadPoolExecutor(given.jobs) as pool:
        done = dict(zip(order, pool.map(run, order), strict=True))
    print(tabulate([done[row] for row in rows]))
    ours = [done[row] for row in rows if row[1] in {"sync", "rebase"}]
    bad = any(row.get(name) for row in ours for name in HAVE_TO_BE_NONE)
    return int(bad or any("failed" in row for row in done.values()))


if __name__ == "__main__":
    with sitting_at_terminal():
        sys.exit(main())
