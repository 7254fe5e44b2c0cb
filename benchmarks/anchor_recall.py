"""Measure what anchors cost recall: 1,000 notes without them, and the same notes with one each.

    python benchmarks/anchor_recall.py REPOSITORY

The notes cite lines of an old commit; the newest one is checked out. Queries run in this process,
in alternation, and each one twice: the first time most of its notes were not checked before.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from pathlib import Path

from anchor_truth import choose_commits, choose_samples, run_git
from generate import generate_vault
from measure import isolate, percentile
from queries import make_queries


def main() -> None:
    """Print the median times of recall without and with anchors."""
    given = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    given.add_argument("repository", type=Path)
    given.add_argument("--notes", type=int, default=1_000)
    given.add_argument("--queries", type=int, default=200)
    asked = given.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(asked.repository, Path(folder), asked.notes, asked.queries)


def measure(repository: Path, folder: Path, notes: int, queries: int) -> None:
    """Make both vaults and time the same queries in both."""
    from vaultmem import Query, create_vault, open_vault, run_query, sync_vault
    from vaultmem.services.projects.project_table import ensure_project

    isolate(folder)
    clone = folder / "code/repository"
    run_git(folder, "clone", "-q", "--shared", str(repository), str(clone))
    plain, anchored = folder / "plain", folder / "anchored"
    for root in (plain, anchored):
        generate_vault(root, notes)
        create_vault(root)
    vaults = [open_vault(root, here=clone) for root in (plain, anchored)]
    project = ensure_project(vaults[1], clone)
    assert project is not None
    add_anchors(anchored, clone, project.name)
    for vault in vaults:
        sync_vault(vault)
    made = make_queries(plain, queries, 44)
    times: dict[tuple[int, int], list[float]] = {}
    for again in (0, 1):
        for number, question in enumerate(made):
            for which in ((0, 1), (1, 0))[number % 2]:
                started = time.perf_counter()
                found = run_query(vaults[which], Query(question, counts=False))
                times.setdefault((again, which), []).append(time.perf_counter() - started)
                assert not which or any(hit.anchors for hit in found.hits) or not found.hits
    for again, name in enumerate(("first", "again")):
        own, other = (times[again, which] for which in (0, 1))
        pairs = [1_000 * (b - a) for a, b in zip(own, other, strict=True)]
        print(
            f"{name}: without {1_000 * statistics.median(own):.2f} ms, "
            f"with {1_000 * statistics.median(other):.2f} ms, "
            f"p95 {1_000 * percentile(own, 0.95):.2f} and "
            f"{1_000 * percentile(other, 0.95):.2f} ms, "
            f"median of the differences {statistics.median(pairs):+.2f} ms"
        )


def add_anchors(root: Path, clone: Path, project: str) -> None:
    """Give each note of a vault an anchor to an old commit of a repository."""
    old, _ = choose_commits(clone, 1)
    samples = choose_samples(clone, old, 400)
    for number, file in enumerate(sorted(root.glob("*/**/*.md"))):
        sample = samples[number % len(samples)]
        blob = run_git(clone, "rev-parse", f"{old}:{sample.path}").strip()
        item = f'cites: ["{sample.place}@{old[:10]}+{blob[:10]} ({project})"]\n'
        text = file.read_text(encoding="utf-8")
        head = re.match(r"---\n", text)
        text = text[:4] + item + text[4:] if head else f"---\n{item}---\n{text}"
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
