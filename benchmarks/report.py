"""Show the results: an aligned table, what was left out, and facts of the machine."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from baselines import WHOOSH_SAMPLE, find_ripgrep
from measure import Row
from memory import can_read_trees

_PACKAGES = (
    "vaultmem-notes",
    "whoosh3",
    "numpy",
    "PyStemmer",
    "PyYAML",
    "typer",
    "click",
    "GitPython",
)
_HEADS = ("what", "vaultmem", "compared with", "other", "ratio")


def format_table(rows: Sequence[Row]) -> str:
    """Return the rows as one plain-text table, figures to the right."""
    lines = [_HEADS, *(_format_row(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADS))]
    lines.insert(1, tuple("-" * width for width in widths))
    aligned = [
        f"{what:<{widths[0]}}  {ours:>{widths[1]}}  {versus:<{widths[2]}}  "
        f"{other:>{widths[3]}}  {ratio:>{widths[4]}}"
        for what, ours, versus, other, ratio in lines
    ]
    return "\n".join(line.rstrip() for line in aligned)


def list_unmeasured(sizes: Sequence[int]) -> list[str]:
    """Return what the tables lack, and why."""
    left_out = [
        "a cold disk: all files are in the system's cache, as after an earlier command",
        "how good the answers are: that needs questions with known answers",
    ]
    if find_ripgrep() is None:
        left_out.insert(0, "ripgrep: `rg` is not installed")
    if not can_read_trees():
        left_out.insert(0, "memory of a full index: this system has no /proc/PID/smaps_rollup")
    if any(size > WHOOSH_SAMPLE for size in sizes):
        left_out.append(
            f"plain Whoosh beyond {WHOOSH_SAMPLE:,} notes: it is slow, so its rate and its search "
            "time are those of a sample of that size"
        )
    return left_out


def describe_machine() -> dict[str, Any]:
    """Return what the figures depend on: machine, Python and versions."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def row_as_json(row: Row) -> dict[str, Any]:
    """Return a row with all its samples as plain values."""
    return asdict(row) | {"ratio": row.ratio}


def _format_row(row: Row) -> tuple[str, str, str, str, str]:
    other = "" if row.theirs is None else _format_figure(row.theirs, row.unit)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return row.what, _format_figure(row.ours, row.unit), row.versus or "-", other, ratio


def _format_figure(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    digits = 3 if unit == "s" else 0 if unit == "notes/s" else digits
    return f"{value:,.{digits}f} {unit}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
