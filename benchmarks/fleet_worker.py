"""Fill a pool and ask it, in a process of its own; prints what was measured as JSON.

python benchmarks/fleet_worker.py ENGINE REMOTES FOLDER QUESTIONS.json [--nodes 3] [--kill]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fleet_remotes import copy_remotes
from generate import SEED
from memory import read_cpu, read_shares

from vaultmem.services.fleet.clone import VaultSource
from vaultmem.services.fleet.pool import LocalPool, Pool
from vaultmem.services.search.run_query import Ask

#: Callers at once where the questions of a second are counted, and for how many seconds.
_CALLERS, _SPAN = 8, 5.0


@contextlib.contextmanager
def opening_local(
    sources: Sequence[VaultSource], folder: Path, _: int
) -> Iterator[tuple[Pool, Any]]:
    """Hold the vaults in this process."""
    pool = LocalPool(sources, folder)
    try:
        yield pool, None
    finally:
        pool.close()


@contextlib.contextmanager
def opening_ray(
    sources: Sequence[VaultSource], folder: Path, nodes: int
) -> Iterator[tuple[Pool, Any]]:
    """Hold the vaults in a cluster of several nodes on this machine."""
    from fleet_cluster import starting_cluster

    with starting_cluster(sources, folder, nodes) as (pool, cluster):
        yield pool, cluster


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Fill the pool, ask it, and return the figures by name."""
    names = sorted(path.stem for path in given.remotes.glob("*.git"))[: given.vaults or None]
    remotes = given.remotes
    if given.kill:  # Which is written to meanwhile.
        remotes = given.folder / "remotes"
        copy_remotes(names, given.remotes, remotes)
    sources = [VaultSource(name, str(remotes / f"{name}.git")) for name in names]
    questions = json.loads(given.questions.read_text(encoding="utf-8"))
    opening = opening_ray if given.engine == "ray" else opening_local
    before, started = read_cpu(os.getpid()), time.perf_counter()
    with opening(sources, given.folder, given.nodes) as (pool, cluster):
        found: dict[str, Any] = {"engine": given.engine, "vaults": len(names)}
        filled = pool.refresh(names)
        stats = pool.stats(names).results
        found["fill_s"] = time.perf_counter() - started
        found["fill_cpu_s"] = read_cpu(os.getpid()) - before
        found["missing"] = len(filled.missing)
        found["notes"] = sum(each.notes for each in stats.values())
        found["sections"] = sum(each.sections for each in stats.values())
        found["clone_mb"] = sum(each.clone_bytes for each in stats.values()) / 1e6
        found["index_mb"] = sum(each.index_bytes for each in stats.values()) / 1e6
        found |= _ask_all(pool, names, questions)
        found["memory_mb"] = read_shares(os.getpid())
        found["per_second"] = _count_per_second(pool, names, questions)
        if given.kill and cluster is not None:
            from fleet_cluster import kill_and_wait

            found |= kill_and_wait(pool, cluster, sources, given.folder, questions[0])
        return found


def _ask_all(pool: Pool, names: Sequence[str], questions: Sequence[str]) -> dict[str, Any]:
    rng = random.Random(SEED)
    sets: dict[str, Callable[[], list[str]]] = {
        "one": lambda: [rng.choice(names)],
        "ten": lambda: rng.sample(names, min(10, len(names))),
        "all": lambda: list(names),
    }
    found: dict[str, Any] = {}
    digest = hashlib.sha256()
    for what, choose in sets.items():
        taken = []
        left_out = 0
        for turn, question in enumerate([questions[0], *questions]):
            chosen = choose()
            started = time.perf_counter()
            done = pool.recall(chosen, Ask(question))
            if turn:  # The first one finds nothing warm.
                taken.append((time.perf_counter() - started) * 1e3)
            else:
                found[f"{what}_first_ms"] = (time.perf_counter() - started) * 1e3
            left_out += len(done.missing)
            rows = [(h.vault, h.record.path, h.section.ordinal, h.score) for h in done.answer.hits]
            digest.update(json.dumps(rows).encode())
        found[what] = taken
        found[f"{what}_missing"] = left_out
    return {**found, "digest": digest.hexdigest()}


def _count_per_second(pool: Pool, names: Sequence[str], questions: Sequence[str]) -> float:
    """Return how many questions to one vault each are answered in a second, by several callers."""
    end = time.perf_counter() + _SPAN

    def ask(seed: int) -> int:
        rng, done = random.Random(seed), 0
        while time.perf_counter() < end:
            pool.recall([rng.choice(names)], Ask(rng.choice(questions)))
            done += 1
        return done

    with ThreadPoolExecutor(_CALLERS) as callers:
        return sum(callers.map(ask, range(_CALLERS))) / _SPAN


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=["local", "ray"])
    parser.add_argument("remotes", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--vaults", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--kill", action="store_true")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    shutil.rmtree(given.folder, ignore_errors=True)
    print(json.dumps(measure(given)), flush=True)


if __name__ == "__main__":
    main()
