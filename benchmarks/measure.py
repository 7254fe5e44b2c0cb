"""Time things: repeated, in turns, and summed up as medians."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

Action = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """A line of the table: a figure of vaultmem's, and the same figure of something else.

    `ratio` is ours divided by theirs: above 1 is better for rates and worse for times. `samples`
    are all measurements behind the two figures, for the JSON file.
    """

    what: str
    unit: str
    ours: float
    versus: str = ""
    theirs: float | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Our figure in shares of the other."""
        return None if not self.theirs else self.ours / self.theirs


def time_in_turns(
    actions: Sequence[Action], repeats: int, prepare: Action | None = None
) -> list[list[float]]:
    """Run the actions A B A B ... and return the seconds of each, so that load hits all alike.

    `prepare` runs before each round and is not timed.
    """
    seconds: list[list[float]] = [[] for _ in actions]
    for _ in range(repeats):
        if prepare is not None:
            prepare()
        for taken, action in zip(seconds, actions, strict=True):
            started = time.perf_counter()
            action()
            taken.append(time.perf_counter() - started)
    return seconds


def compare(
    what: str,
    actions: Mapping[str, Action],
    repeats: int,
    *,
    unit: str = "s",
    prepare: Action | None = None,
) -> Row:
    """Time one action, or two in turns, by name, and return the row of their medians."""
    scale = {"s": 1.0, "ms": 1_000.0}[unit]
    taken = time_in_turns(list(actions.values()), repeats, prepare)
    samples = {
        name: [seconds * scale for seconds in each]
        for name, each in zip(actions, taken, strict=True)
    }
    medians = [statistics.median(each) for each in samples.values()]
    names = list(actions)
    if len(names) == 1:
        return Row(what, unit, medians[0], samples=samples)
    return Row(what, unit, medians[0], names[1], medians[1], samples)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share (0 to 1) of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def find_command() -> list[str | Path]:
    """Return how `vaultmem` is started: its script beside this Python, else as a module."""
    script = Path(sys.executable).with_name("vaultmem")
    return [script] if script.exists() else [sys.executable, "-m", "vaultmem"]


def run_command(command: Sequence[str | Path], folder: Path | None = None) -> str:
    """Run a process to its end and return its output.

    Raises:
        SystemExit: it failed with an exit code above 1 (1 is grep's "nothing found").
    """
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True)
    if done.returncode > 1 or (done.returncode and "rg" not in Path(command[0]).name):
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def run_worker(task: str, *arguments: str | Path) -> dict[str, Any]:
    """Run a task of worker.py in a process of its own and return what it measured."""
    return dict(json.loads(run_command(worker_command(task, *arguments))))


def worker_command(task: str, *arguments: str | Path) -> list[str | Path]:
    """Return how a task of worker.py is started."""
    return [sys.executable, HERE / "worker.py", task, *arguments]


def isolate(scratch: Path) -> None:
    """Point home, state and configuration of this process and its children into a folder."""
    for name in list(os.environ):
        if name.startswith(("VAULTMEM_", "GIT_")) or name == "PYTHONDONTWRITEBYTECODE":
            del os.environ[name]
    for name in ("home", "state", "config", "data"):
        (scratch / name).mkdir()
    os.environ["HOME"] = str(scratch / "home")
    os.environ["XDG_STATE_HOME"] = str(scratch / "state")
    os.environ["XDG_CONFIG_HOME"] = str(scratch / "config")
    os.environ["XDG_DATA_HOME"] = str(scratch / "data")
    settings = "[user]\n\tname = Bench\n\temail = bench@localhost\n[gc]\n\tauto = 0\n"
    (scratch / "home" / ".gitconfig").write_text(settings, encoding="utf-8")
