"""What each start-up trick buys: whole processes with it and without it, in turns.

    python benchmarks/startup.py                      # 2,000 made-up notes, 15 runs of each
    python benchmarks/startup.py --vault DIR --runs 31 --only typer

The product has no switch for any of them: where one is left out, a line of Python takes it away
before the command is run. CPU time is user and system time of the process and of all that it
waited for; wall time is worth something on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from baselines import init_repository
from generate import SEED, generate_vault
from measure import find_command, isolate, run_command
from queries import make_queries
from report import describe_machine
from watching import watched

_RUN = "import sys\nfrom vaultmem.cli.start import main\nmain()\n"

#: As many classes and fields as `recall` loads, each way.
_CLASSES = """
import dataclasses, typing
fields = [(f"field{number}", int) for number in range(7)]
for number in range(32):
    MAKE
"""

#: What a client sends as it starts: the handshake, and which tools there are.
_HANDSHAKE = [
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
]
_SPOKEN = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in _HANDSHAKE)

_ASKED = json.dumps({"session_id": "bench", "prompt": "QUESTION"})


class Trick(NamedTuple):
    """A trick, the command it is for, and programs that run this with it and without it."""

    what: str
    command: str
    kept: str
    left_out: str
    arguments: tuple[str, ...] = ()
    given: str = ""
    watched: bool = False
    environment: tuple[tuple[str, str], ...] = ()  # Of the program without it.


class Spent(NamedTuple):
    """Seconds that a process took."""

    cpu: float
    wall: float


def list_tricks(question: str) -> list[Trick]:
    """Return all tricks, with this question where one is asked."""
    asked = ("recall", question)
    hook, given = ("hook", "prompt"), _ASKED.replace("QUESTION", question)
    quick = "import vaultmem.cli.quick_typer as quick\n"
    app = "import vaultmem.cli.app as app\n"
    start = "import vaultmem.cli.start as start\n"
    threads = (("OPENBLAS_NUM_THREADS", str(os.cpu_count())),)
    return [
        Trick(
            "parameters converted without pydantic (`cli/quick_typer.py`)",
            "recall",
            quick + _RUN,
            quick + "quick._simplify = lambda params: None\n" + _RUN,
            asked,
        ),
        Trick(
            "one command built of all (`cli/app.py`)",
            "recall",
            app + _RUN,
            app + "app.build_commands()\n" + _RUN,
            asked,
        ),
        Trick(
            "arguments read without Typer (`cli/arguments.py`)",
            "hook prompt",
            start + _RUN,
            start + "start._run_hook = lambda arguments: None\n" + _RUN,
            hook,
            given,
        ),
        Trick(
            "one thread for OpenBLAS (`cli/start.py`)",
            "recall",
            _RUN,
            _RUN,
            asked,
            environment=threads,
        ),
        Trick(
            "`TYPE_CHECKING = False`, not `import typing`",
            "recall, watched",
            _RUN,
            "import typing\n" + _RUN,
            asked,
            watched=True,
        ),
        Trick(
            "named tuples, not frozen dataclasses with slots",
            "32 classes of 7 fields",
            _CLASSES.replace("MAKE", "typing.NamedTuple(f'Value{number}', fields)"),
            _CLASSES.replace(
                "MAKE",
                "dataclasses.make_dataclass(f'Value{number}', fields, frozen=True, slots=True)",
            ),
        ),
        Trick(
            "a live watcher answers (`storage/watch_socket.py`)",
            "recall, watched",
            _RUN,
            _RUN,
            asked,
            watched=True,
            environment=(("VAULTMEM_NO_WATCHER", "1"),),
        ),
        Trick(
            "a live resident process answers (`serve/relay.py`)",
            "mcp, first answers",
            _RUN,
            _RUN,
            ("mcp",),
            _SPOKEN,
            watched=True,
            environment=(("VAULTMEM_NO_WATCHER", "1"),),
        ),
    ]


def main() -> None:
    """Measure all tricks and print a table."""
    parser = argparse.ArgumentParser(description="Measure what each start-up trick buys.")
    parser.add_argument("--notes", type=int, default=2_000, metavar="N")
    parser.add_argument("--vault", type=Path, metavar="DIR", help="a vault that is there")
    parser.add_argument("--runs", type=int, default=15, metavar="N")
    parser.add_argument("--only", default="", metavar="WORD", help="tricks with this in the name")
    given = parser.parse_args()
    source = given.vault.resolve() if given.vault else None
    with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
        scratch = Path(name).resolve()
        isolate(scratch)
        vault = source or scratch / "vault"
        if source is None:
            generate_vault(vault, given.notes)
            init_repository(vault)
        run_command([*find_command(), "index", "--vault", vault])
        tricks = list_tricks(make_queries(vault, 1, SEED)[0])
        tricks = [each for each in tricks if given.only in each.what]
        cold = [each for each in tricks if not each.watched]
        warm = [each for each in tricks if each.watched]
        before = os.getloadavg()[0]
        rows = measure_tricks(cold, vault, scratch, given.runs)
        with watched(vault):
            rows += measure_tricks(warm, vault, scratch, given.runs)
        print_machine(given.runs, before)
        print_table(rows)


def measure_tricks(
    tricks: Sequence[Trick], vault: Path, scratch: Path, runs: int
) -> list[tuple[Trick, Spent, Spent]]:
    """Return the medians of each trick, with it and without it; round by round, in turns."""
    spent: list[tuple[list[Spent], list[Spent]]] = [([], []) for _ in tricks]
    for turn in range(runs + 1):  # The first fills the caches of files and bytecode.
        for trick, both in zip(tricks, spent, strict=True):
            for which in (0, 1) if turn % 2 else (1, 0):
                taken = run_trick(trick, bool(which), vault, scratch)
                if turn:
                    both[which].append(taken)
    return [(trick, *map(_middle, both)) for trick, both in zip(tricks, spent, strict=True)]


def run_trick(trick: Trick, is_left_out: bool, vault: Path, scratch: Path) -> Spent:
    """Run a trick's command once.

    Raises:
        SystemExit: it failed.
    """
    script = scratch / "vaultmem"
    script.write_text(trick.left_out if is_left_out else trick.kept, encoding="utf-8")
    asked = scratch / "given"
    asked.write_text(trick.given, encoding="utf-8")
    environment = {**os.environ, "VAULTMEM_VAULT": str(vault)}
    environment |= dict(trick.environment) if is_left_out else {}
    command = [sys.executable, "-P", str(script), *trick.arguments]
    with asked.open() as stdin, (scratch / "out").open("w") as out:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=stdin, stdout=out, env=environment, cwd=vault)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or (trick.given and not (scratch / "out").stat().st_size):
        raise SystemExit(f"{trick.what}: {command} failed")
    return Spent(used.ru_utime + used.ru_stime, wall)


def _middle(taken: Sequence[Spent]) -> Spent:
    return Spent(median(each.cpu for each in taken), median(each.wall for each in taken))


def print_machine(runs: int, before: float) -> None:
    """Say what the figures depend on."""
    machine = describe_machine()
    print(f"Python {machine['python']}, {machine['cores']} cores, {machine['processor']}")
    print(f"medians of {runs}; load {before:.1f} before, {os.getloadavg()[0]:.1f} after\n")


def print_table(rows: Sequence[tuple[Trick, Spent, Spent]]) -> None:
    """Print the table of docs/decisions/0020: milliseconds, and what share is saved."""
    print("| trick | command | CPU with, without | saved | wall with, without | saved |")
    print("|---|---|---|---|---|---|")
    for trick, kept, left_out in rows:
        figures = " | ".join(
            f"{1_000 * with_it:.0f}, {1_000 * without:.0f} ms | {1 - with_it / without:.0%}"
            for with_it, without in zip(kept, left_out, strict=True)
        )
        print(f"| {trick.what} | {trick.command} | {figures} |")


if __name__ == "__main__":
    main()
