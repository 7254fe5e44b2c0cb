"""Measure what `remember` sees as known: how well on labelled pairs, and at what cost.

    python benchmarks/dedup.py                        # the pairs alone, some seconds
    python benchmarks/dedup.py --notes 1000 10000     # and what it costs in vaults of that size

dedup_pairs.jsonl has a fact in each line (`a`), said again or nearly (`b`), whether a reader would
call both the same, and what was done to it. The part `held-out` was written last and looked at
only to be counted. Each `a` is remembered in the made-up vault, then each `b`: what is caught
there is caught by way of the index too. Times are of the processor, which other work on the machine
hardly changes; they are taken in turns, with the look-up and without.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from generate import generate_vault
from measure import isolate

PAIRS = Path(__file__).parent / "dedup_pairs.jsonl"

Pair = dict[str, Any]
Score = Callable[[str, str], float]


def main() -> None:
    """Print the tables that the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure duplicates seen and what it costs.")
    parser.add_argument("--notes", type=int, nargs="*", default=[], metavar="N")
    parser.add_argument("--rounds", type=int, default=60, help="memories timed for each size")
    given = parser.parse_args()
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    _print_quality(pairs)
    _print_others(pairs)
    first = None
    for notes in given.notes:
        with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
            row = _measure_cost(Path(name).resolve(), notes, pairs, given.rounds)
        first = first or row
        _print_cost(notes, row, first)


def _print_quality(pairs: list[Pair]) -> None:
    from vaultmem.config import Config
    from vaultmem.core.similarity.compare import KnownText, compare_texts

    def is_same(pair: Pair) -> bool:
        found = compare_texts(pair["b"], KnownText(pair["a"]))
        return not found.differences and found.similarity >= Config().same_above

    for part in ("tuning", "held-out"):
        chosen = [pair for pair in pairs if pair["part"] == part]
        seen = Counter((pair["same"], is_same(pair)) for pair in chosen)
        print(
            f"{part}: {_share(seen, True)} duplicates caught, {_share(seen, False)} merged wrongly"
        )
    for same in (True, False):
        by_kind: dict[str, Counter[bool]] = {}
        for pair in pairs:
            if pair["same"] is same:
                by_kind.setdefault(pair["category"], Counter())[is_same(pair)] += 1
        told = [f"{k} {c[True]}/{c.total()}" for k, c in sorted(by_kind.items())]
        print(("caught: " if same else "merged: ") + ", ".join(told))


def _share(seen: Counter[tuple[bool, bool]], same: bool) -> str:
    count, whole = seen[same, True], seen[same, True] + seen[same, False]
    return f"{count} of {whole} ({count / whole:.1%})"


def _print_others(pairs: list[Pair]) -> None:
    """Print what others catch where they merge no near-miss, and where they merge one in 100."""
    for name, score in _other_scores():
        wrong = sorted((score(p["a"], p["b"]) for p in pairs if not p["same"]), reverse=True)
        right = [score(pair["a"], pair["b"]) for pair in pairs if pair["same"]]
        told = []
        for bar, what in ((wrong[0], "no"), (wrong[len(wrong) // 100], "1 % of the")):
            caught = sum(value > bar for value in right)
            told.append(f"{caught / len(right):.1%} with {what} near-misses merged")
        print(f"{name}: {', '.join(told)}")


def _other_scores() -> Iterable[tuple[str, Score]]:
    try:
        from rapidfuzz import fuzz
    except ImportError:
        print("rapidfuzz: not installed, not compared")
    else:
        for name in ("ratio", "token_sort_ratio", "token_set_ratio"):
            measure = getattr(fuzz, name)
            yield f"rapidfuzz {name}", lambda a, b, m=measure: m(a.lower(), b.lower()) / 100
    try:
        from datasketch import MinHash
    except ImportError:
        print("datasketch: not installed, not compared")
    else:

        def estimate(a: str, b: str) -> float:
            hashes = []
            for text in (a, b):
                words = text.lower().split()
                each = MinHash(128)
                for shingle in pairwise(words):
                    each.update(" ".join(shingle).encode())
                hashes.append(each)
            return float(hashes[0].jaccard(hashes[1]))

        yield "datasketch MinHash of word pairs", estimate


def _measure_cost(scratch: Path, notes: int, pairs: list[Pair], rounds: int) -> dict[str, Any]:
    isolate(scratch)
    folder = scratch / "vault"
    generate_vault(folder, notes)
    from vaultmem.services.likeness.similar import Asked, find_similar
    from vaultmem.services.notes.remember import Memory, remember
    from vaultmem.services.reading.sync import sync_vault
    from vaultmem.vault import open_vault

    vault = open_vault(folder)
    sync_vault(vault)
    facts = list(dict.fromkeys(pair["a"] for pair in pairs))
    plain: list[float] = []
    looked: list[float] = []
    lookups: list[float] = []
    for fact in facts[: 2 * rounds : 2]:  # Warm caches would flatter the second of two alike.
        plain.append(_time(lambda f=fact: remember(vault, Memory(f), force=True)))
    for fact in facts[1 : 2 * rounds : 2]:
        lookups.append(_time(lambda f=fact: find_similar(vault, Asked(f))))
    for number, fact in enumerate(facts[2 * rounds : 4 * rounds]):
        force = number % 2 == 0
        seconds = _time(lambda f=fact, x=force: remember(vault, Memory(f), force=x))
        (plain if force else looked).append(seconds)
    for fact in facts:
        remember(vault, Memory(fact))
    outcomes: Counter[tuple[bool, bool]] = Counter()
    for pair in pairs[:: max(1, len(pairs) // 400)]:
        similar = find_similar(vault, Asked(pair["b"]))
        first = similar[0].likeness if similar else None
        known = bool(first and not first.differences and first.similarity >= 0.85)
        outcomes[pair["same"], known] += 1
    vault.close()
    return {
        "plain": statistics.median(plain[rounds:]) * 1_000,
        "looked": statistics.median(looked) * 1_000,
        "lookup": statistics.median(lookups) * 1_000,
        "outcomes": outcomes,
    }


def _time(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def _print_cost(notes: int, row: dict[str, Any], first: dict[str, Any]) -> None:
    print(f"\n{notes:,} notes")
    print(f"  remember --force       {row['plain']:7.1f} ms")
    times = row["looked"] / row["plain"]
    print(f"  remember               {row['looked']:7.1f} ms, {times:.2f} times")
    print(f"  the look-up alone      {row['lookup']:7.1f} ms")
    grown = (row["looked"] / first["looked"], row["lookup"] / first["lookup"])
    print(f"  beside the smallest    {grown[0]:.2f} times, the look-up {grown[1]:.2f} times")
    print(f"  among these notes      {_share(row['outcomes'], True)} duplicates caught")
    print(f"                         {_share(row['outcomes'], False)} near-misses merged")


if __name__ == "__main__":
    main()
