"""Time what a vault's resident process serves: pages over HTTP, and sessions of agents.

    python benchmarks/serve.py --folder ~/notes        # a copy of your own markdown
    python benchmarks/serve.py                         # 10,000 made-up notes
    python benchmarks/serve.py --notes 1000 --short    # a look

The notes get a history: each grows over up to five of 200 commits by three people. Beside each page
stands an app that answers every address with an empty one, beside each session a server of the SDK
that only answers "ok"; both are asked in turns with vaultmem, as a client waits for them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
from pathlib import Path
from typing import NamedTuple

from baselines import list_notes
from generate import SEED
from mcp_calls import EMPTY, OURS, Command, write_empty_server
from measure import Row, find_command, isolate, run_command
from past import grow_history
from queries import make_queries
from report import describe_machine, format_table
from serve_agents import measure_sessions, measure_starts_beside
from serve_pages import measure_first_page, measure_pages
from sources import Source, describe_source, write_source


class Effort(NamedTuple):
    """How often things are asked: notes, questions typed, packs, other pages, starts, saves."""

    notes: int
    typed: int
    packs: int
    pages: int
    starts: int
    saves: int


_EFFORT = Effort(notes=200, typed=12, packs=40, pages=30, starts=5, saves=10)
_SHORT = Effort(notes=40, typed=4, packs=10, pages=10, starts=2, saves=4)


def main() -> None:
    """Measure what the command line asks for and print a table."""
    parser = argparse.ArgumentParser(description="Time pages and sessions of a served vault.")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="your own markdown, as a copy")
    parser.add_argument("--notes", type=int, default=10_000, metavar="N", help="made-up notes")
    parser.add_argument("--commits", type=int, default=200, metavar="N")
    parser.add_argument("--short", action="store_true", help="ask less often")
    given = parser.parse_args()
    effort = _SHORT if given.short else _EFFORT
    machine = describe_machine()
    print(f"Python {machine['python']}, {machine['cores']} cores, {machine['processor']}")
    with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
        scratch = Path(name).resolve()
        isolate(scratch)
        vault = scratch / "vault"
        source = Source(1 if given.folder else given.notes, given.folder)
        write_source(source, vault)
        print(describe_source(source, list_notes(vault)), f"{given.commits} commits", sep=", ")
        grow_history(vault, given.commits)
        run_command([*find_command(), "index", "--vault", vault])
        rows = _measure(vault, scratch, effort)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end\n")
        print(format_table(rows), flush=True)


def _measure(vault: Path, scratch: Path, effort: Effort) -> list[Row]:
    servers: dict[str, Command] = {
        OURS: [*find_command(), "mcp", "--vault", vault],
        EMPTY: write_empty_server(scratch),
    }
    questions = make_queries(vault, effort.typed + effort.packs + 20, SEED)
    notes = [note.relative_to(vault).as_posix() for note in list_notes(vault)]
    asked = random.Random(SEED).sample(notes, min(effort.notes, len(notes)))
    typed, packs = questions[: effort.typed], questions[effort.typed : -20]
    return [
        *measure_first_page(vault, scratch, asked[0], effort.starts),
        *measure_pages(vault, scratch, asked, typed, packs, effort.pages, effort.saves),
        *asyncio.run(measure_starts_beside(vault, servers, questions[-1], effort.starts)),
        *asyncio.run(measure_sessions(vault, servers, questions[-20:])),
    ]


if __name__ == "__main__":
    main()
