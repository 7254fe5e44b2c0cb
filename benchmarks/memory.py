"""How much memory processes take: all of a tree at its peak, or the largest of them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from measure import run_command

#: Seconds between two looks at a tree's memory.
_INTERVAL = 0.05

#: Linux counts a parent's memory into `ru_maxrss` of the processes that it starts, so a Python that
#: has imported next to nothing starts what is measured.
_STARTER = """\
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def can_read_trees() -> bool:
    """Tell whether this system says what each process's share of memory is (Linux does)."""
    return Path("/proc/self/smaps_rollup").exists()


def run_sampled(command: Sequence[str | Path]) -> tuple[float, float]:
    """Run a process to its end; return its seconds, and the most MB that its tree had together.

    The second figure is 0 where the system does not tell it.
    """
    started = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peak = 0.0
    while True:
        try:
            output, _ = process.communicate(timeout=_INTERVAL)
            break
        except subprocess.TimeoutExpired:
            peak = max(peak, _read_tree(process.pid))
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{output}")
    return seconds, peak


def measure_largest(command: Sequence[str | Path]) -> float:
    """Run a process to its end; return the largest resident memory of it or of a child, in MB."""
    peak = int(run_command([sys.executable, "-I", "-S", "-c", _STARTER, *command]))
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def _read_tree(process: int) -> float:
    """Return the MB of a process and all below it; what n processes share counts 1/n in each."""
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
        own = int(rollup.split("Pss:")[1].split()[0]) / 1024
        tasks = Path(f"/proc/{process}/task").glob("*/children")
        children = [int(child) for task in tasks for child in task.read_text("ascii").split()]
    except (OSError, IndexError):  # It has ended meanwhile, or this system does not tell.
        return 0.0
    return own + sum(map(_read_tree, children))
