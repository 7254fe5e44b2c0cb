"""Kill every command that writes at its system calls, or fail those; look at what comes of it.

`python campaign.py --kills 10000 --faults 2000 --jobs 2 [--events NAME,...] [--seed N]
[--json FILE]`; `--list` names the events. For each run there is a vault as it was, a process that
does the event and is killed right before its n-th call that changes a file (with git, and all else
that it started), or whose n-th call fails; and then the commands that somebody else gives next,
without a hand: recall, status, remember, checkpoint.

Each job is a process of its own, with everything imported, that forks one child for each run.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import json
import mmap
import os
import pkgutil
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from judge import judge, judge_words, read_answer, tabulate  # noqa: E402
from place import Site  # noqa: E402
from plan import FAULTS, KILLED, Fault, Plan, build_library  # noqa: E402
from terminal import sitting_at_terminal  # noqa: E402

MEMORY = Path("/dev/shm")

#: Runs of an event that one job does, one after the other, with what it has prepared.
RUNS = 60


def work(folder: Path) -> None:
    """Be a job: do each task that comes as a line, and tell what came of it as one."""
    sys.path.insert(0, str(HERE))
    file = os.open(os.environ["FAULTS"], os.O_RDWR)
    plan = Plan.from_buffer(mmap.mmap(file, ctypes.sizeof(Plan)))
    site = Site(folder, plan)
    answers = os.fdopen(os.dup(1), "w")
    import_everything()
    gc.freeze()
    from events import EVENTS

    tasks = os.fdopen(os.dup(0))
    with sitting_at_terminal():
        for line in tasks:
            task = json.loads(line)
            try:
                for row in do_task(site, EVENTS[task["event"]], task):
                    print(json.dumps({**row, "event": task["event"]}), file=answers, flush=True)
            except BaseException:  # noqa: BLE001
                row = {"event": task["event"], "failed": traceback.format_exc()}
                print(json.dumps(row), file=answers, flush=True)
            print("{}", file=answers, flush=True)


def do_task(site: Site, event: Any, task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    chance = random.Random(f"{task['seed']} {task['event']} {task['part']}")
    site.prepare(event)
    site.restore()
    absent = site.come_next(event)
    site.restore()
    ended = site.run(event, KILLED, 0)
    assert ended.code in (0, -15, 143), ended
    whole = site.come_next(event)
    assert not absent.hand, absent.hand
    assert not whole.hand, whole.hand
    yield {"calls": ended.calls, "changed": absent.files != whole.files, "out": ended.out[:300]}
    parts = task["parts"]
    points = spread(ended.calls, task["kills"], chance)[task["part"] :: parts]
    for fault, at in [(KILLED, at) for at in points] + [*pick_faults(ended.each, task, chance)]:
        site.restore()
        done = site.run(event, fault, at)
        hits = site.plan.hits
        row = {"fault": fault.name, "at": at, "told": done.told, "hit": hits > 0}
        if event.given and fault is not KILLED:
            done = read_answer(done)
        found = judge(event, done, site.come_next(event, at % 4 == 0), absent, whole)
        if fault is not KILLED and hits:
            found["troubles"] |= judge_words(event, done, found["sides"])
            row |= {"code": done.code, "err": done.err[:600]}
        yield {**row, **found}


def spread(calls: int, wanted: int, chance: random.Random) -> list[int]:
    """Return so many calls, spread over all of them."""
    step = calls / max(wanted, 1)
    return sorted(min(calls, int(step * (n + chance.random())) + 1) for n in range(wanted))


def pick_faults(
    each: tuple[int, ...], task: dict[str, Any], chance: random.Random
) -> Iterator[tuple[Fault, int]]:
    """Return faults of each kind at calls that are spread over those that it may happen to."""
    rounds = -(-task["faults"] // len(FAULTS))
    for n in range(task["part"], task["faults"], task["parts"]):
        fault = FAULTS[(n + len(task["event"])) % len(FAULTS)]
        calls = sum(count for kind, count in enumerate(each) if fault.kinds & 1 << kind)
        share = (n // len(FAULTS) + chance.random()) / rounds
        yield fault, min(calls, int(share * calls) + 1)


def import_everything() -> None:
    import vaultmem

    for module in pkgutil.walk_packages(vaultmem.__path__, "vaultmem."):
        if not module.name.startswith(("vaultmem.__main__", "vaultmem.integrations")):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in ("git", "jsonschema", "typer", "yaml", "whoosh.index", "whoosh.qparser"):
        importlib.import_module(name)
    for name in ("whoosh.writing", "anyio", "mcp.server.stdio", "mcp.server.lowlevel", "asyncio"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def run_campaign(
    events: list[str], kills: int, faults: int, jobs: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Run it, and yield a row for each run."""
    place = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="vaultmem-kills-", dir=place) as name:
        folder = Path(name)
        library = build_library(folder)
        share = [divide(n, len(events)) for n in (kills, faults)]
        tasks = []
        for event, k, f in zip(events, *share, strict=True):
            parts = max(1, (k + f) // RUNS)
            task = {"event": event, "kills": k, "faults": f, "parts": parts, "seed": seed}
            tasks += [{**task, "part": part} for part in range(parts)]
        tasks.sort(key=lambda task: not task["event"].startswith("watch"))  # They take longest.
        workers = [Worker(folder / f"job{n}", library) for n in range(jobs)]
        try:
            yield from collect(workers, tasks)
        finally:
            for worker in workers:
                worker.end()


def divide(whole: int, parts: int) -> list[int]:
    return [whole * (n + 1) // parts - whole * n // parts for n in range(parts)]


class Worker:
    """A job's process, at the other end of a pair of pipes."""

    def __init__(self, folder: Path, library: Path) -> None:
        folder.mkdir()
        plan = folder / "plan"
        plan.write_bytes(bytes(ctypes.sizeof(Plan)))
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work", folder / "site"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "LD_PRELOAD": str(library), "FAULTS": str(plan)},
        )

    def serve(self, waiting: Any, rows: Any) -> None:
        """Do tasks until there is none, and pass on what comes of them."""
        with contextlib.suppress(queue.Empty):
            while True:
                task = waiting.get_nowait()
                self.process.stdin.write(json.dumps(task).encode() + b"\n")
                self.process.stdin.flush()
                while row := json.loads(self.process.stdout.readline() or '{"failed": "ended"}'):
                    rows.put(row)
        rows.put(None)

    def end(self) -> None:
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def collect(workers: list[Worker], tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Give each job that has nothing to do the next task, and return all rows that come."""
    waiting = queue.SimpleQueue()
    rows = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    threads = [threading.Thread(target=w.serve, args=(waiting, rows), daemon=True) for w in workers]
    for thread in threads:
        thread.start()
    ended = 0
    while ended < len(workers):
        row = rows.get()
        if row is None:
            ended += 1
            continue
        yield row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--faults", type=int, default=0)
    parser.add_argument("--events", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(Path(given.work))
        return 0
    sys.path.insert(0, str(HERE))
    from events import EVENTS

    if given.list:
        print("\n".join(EVENTS))
        return 0
    events = [name.strip() for name in given.events.split(",") if name.strip()] or list(EVENTS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started, rows = time.monotonic(), []
    try:
        for row in run_campaign(events, given.kills, given.faults, given.jobs, given.seed):
            rows.append(row)
            keep_row(row, given.json)
    finally:
        for kind, number in (("kills", given.kills), ("faults", given.faults)):
            if number:
                print(f"\n{tabulate(rows, kind)}")
        used = os.times()
        cpu = used.children_user + used.children_system
        print(f"\n{time.monotonic() - started:.0f} s, {cpu:.0f} s of CPU", flush=True)
    return int(any(row.get("troubles") or "failed" in row for row in rows))


def keep_row(row: dict[str, Any], file: str) -> None:
    """Tell of trouble at once, and add the row to the file, a line each."""
    line = json.dumps(row)
    if row.get("troubles") or "failed" in row:
        print(line, file=sys.stderr, flush=True)
    if file:
        with open(file, "a") as rows:
            rows.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
