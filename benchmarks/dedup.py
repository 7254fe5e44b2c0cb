"""Measure what `remember` takes for known: how much of labelled pairs, and at what cost.

    python benchmarks/dedup.py                        # the pairs alone, some seconds
    python benchmarks/dedup.py PAIRS.jsonl.gz         # and pairs of yours: a, b, same in each line
    python benchmarks/dedup.py --vault PAIRS.jsonl    # each `a` and then `b` remembered in a vault
    python benchmarks/dedup.py --notes 1000 10000     # and what it costs in vaults of that size

dedup_pairs.jsonl has a fact in each line (`a`), said again or nearly (`b`), whether a reader would
call both the same, and what was done to it. Most of what a reader calls the same is in other words,
and stays two notes: what counts is that no pair that differs becomes one. More pairs are made by
rule from the sample vault. Times are of the processor, which other work on the machine hardly
changes; they are taken in turns, with the look-up and without.
"""

from __future__ import annotations

import argparse
import gzip
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
from rule_pairs import make_rule_pairs

PAIRS = Path(__file__).parent / "dedup_pairs.jsonl"
SAMPLE = Path(__file__).parents[1] / "sample-vault"

Pair = dict[str, Any]
Score = Callable[[str, str], float]


def main() -> None:
    """Print the tables that the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure duplicates seen and what it costs.")
    parser.add_argument("files", type=Path, nargs="*", metavar="PAIRS", help=".jsonl or .jsonl.gz")
    parser.add_argument("--vault", action="store_true", help="remember the pairs, one by one")
    parser.add_argument("--notes", type=int, nargs="*", default=[], metavar="N")
    parser.add_argument("--rounds", type=int, default=60, help="memories timed for each size")
    given = parser.parse_args()
    pairs = read_pairs(PAIRS)
    sets = {PAIRS.name: pairs, "by rule, sample-vault": list(make_rule_pairs(SAMPLE))}
    sets |= {file.name: read_pairs(file) for file in given.files}
    for name, chosen in sets.items():
        _print_quality(name, chosen)
    if given.vault:
        for file in given.files or [PAIRS]:
            _print_remembered(file.name, read_pairs(file))
    _print_others(pairs)
    first = None
    for notes in given.notes:
        with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
            row = _measure_cost(Path(name).resolve(), notes, pairs, given.rounds)
        first = first or row
        _print_cost(notes, row, first)


def read_pairs(file: Path) -> list[Pair]:
    """Return the pairs of a file, packed or not."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _print_quality(name: str, pairs: list[Pair]) -> None:
    """Print how many of each sort are the same by the rule, and the different ones by category."""
    from vaultmem.core.similarity.canonical import say_same

    found = [(pair, say_same(pair["a"], pair["b"])) for pair in pairs]
    seen = Counter((pair["same"], is_same) for pair, is_same in found)
    print(
        f"{name}: {_share(seen, True)} same, {_share(seen, False)} of different ones taken for one"
    )
    by_name = Counter(p.get("category", "") for p, is_same in found if is_same and not p["same"])
    for category, count in sorted(by_name.items()):
        print(f"  {category or 'no category'}: {count}")


def _print_remembered(name: str, pairs: list[Pair]) -> None:
    """Print how many of each sort are known when both were remembered, in a vault of their own."""
    with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as scratch:
        isolate(Path(scratch))
        from vaultmem.services.memory.create_vault import create_vault
        from vaultmem.services.memory.remember import Memory, Outcome, remember
        from vaultmem.services.views.update_index import sync_vault
        from vaultmem.vault import open_vault

        folder = Path(scratch).resolve() / "vault"
        create_vault(folder)
        vault = open_vault(folder)
        sync_vault(vault)
        seen: Counter[tuple[bool, bool]] = Counter()
        for pair in pairs:
            first = remember(vault, Memory(pair["a"]))
            done = remember(vault, Memory(pair["b"]))
            is_known = done.outcome is Outcome.KNOWN and done.path == first.path
            seen[pair["same"], is_known] += 1
        vault.close()
    print(
        f"{name}, remembered: {_share(seen, True)} known, {_share(seen, False)} of different ones"
    )


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
    from vaultmem.services.memory.remember import Memory, remember
    from vaultmem.services.similarity.similar import SimilarityQuery, find_similar
    from vaultmem.services.views.update_index import sync_vault
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
        lookups.append(_time(lambda f=fact: find_similar(vault, SimilarityQuery(f))))
    for number, fact in enumerate(facts[2 * rounds : 4 * rounds]):
        force = number % 2 == 0
        seconds = _time(lambda f=fact, x=force: remember(vault, Memory(f), force=x))
        (plain if force else looked).append(seconds)
    for fact in facts:
        remember(vault, Memory(fact))
    outcomes: Counter[tuple[bool, bool]] = Counter()
    for pair in pairs[:: max(1, len(pairs) // 400)]:
        similar = find_similar(vault, SimilarityQuery(pair["b"]))
        outcomes[pair["same"], bool(similar and similar[0].is_same)] += 1
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
    print(f"  among these notes      {_share(row['outcomes'], True)} said again")
    print(f"                         {_share(row['outcomes'], False)} near-misses known")


if __name__ == "__main__":
    main()
