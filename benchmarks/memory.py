"""How much memory and time processes take: a tree as it is or at its peak, or the largest of it."""

from __future__ import annotations

import os
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
            peak = max(peak, read_shares(process.pid))
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{output}")
    return seconds, peak


def measure_largest(command: Sequence[str | Path]) -> float:
    """Run a process to its end; return the largest resident memory of it or of a child, in MB."""
    peak = int(run_command([sys.executable, "-I", "-S", "-c", _STARTER, *command]))
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def read_shares(process: int) -> float:
    """Return the MB of a process and all below it; what n processes share counts 1/n in each."""
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
        own = int(rollup.split("Pss:")[1].split()[0]) / 1024
    except (OSError, IndexError):  # It has ended meanwhile, or this system does not tell.
        return 0.0
    return own + sum(map(read_shares, list_children(process)))


def read_resident(process: int) -> float:
    """Return the resident MB of a process and all below it; what they share counts in each."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    own = int(status.split("VmRSS:")[1].split()[0]) / 1024
    return own + sum(map(read_resident, list_children(process)))


def read_cpu(process: int) -> float:
    """Return the seconds that a process and all below it, ended ones too, have had of a core."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(read_cpu, list_children(process)))


def list_children(parent: int) -> list[int]:
    """Return the processes that a process started and that are there still (Linux tells)."""
    try:
        found = Path(f"/proc/{parent}/task").glob("*/children")
        return [int(pid) for file in found for pid in file.read_text("ascii").split()]
    except OSError:
        return []
