"""Measure which series `remember` takes for contradictions, and which true updates it reports.

    python benchmarks/series.py                    # series.jsonl, beside this file
    python benchmarks/series.py PAIRS.jsonl        # and pairs of others: `a`, `b`, `same`
    python benchmarks/series.py --show             # print what is flagged wrongly, and missed

series.jsonl has three parts. `first` was written before the rules, `second` and `third` when they
were done for the parts before; each was counted before it was looked at. Each line has a `kind`:
the `texts` of a `series` concern different things (day 1 and day 8, room 12 and room 13), those of
an `update` are an older text and a newer value of the same thing. `reported` is what the comparison
of any two texts says, `remembered` what `remember` answers in one vault with all texts of a kind.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

from measure import isolate
from updates import _is_told

SERIES = Path(__file__).parent / "series.jsonl"


def main() -> None:
    """Print the tables that the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure series flagged and updates reported.")
    parser.add_argument("files", type=Path, nargs="*", metavar="PAIRS", help=".jsonl or .jsonl.gz")
    parser.add_argument("--set", type=Path, default=SERIES, metavar="FILE", help="other series")
    parser.add_argument("--show", action="store_true", help="print what is wrong or missed")
    given = parser.parse_args()
    cases = _read_lines(given.set)
    with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
        isolate(Path(name).resolve())
        for kind in ("series", "update"):
            chosen = [case for case in cases if case["kind"] == kind]
            _print_cases(kind, chosen, Path(name).resolve() / kind, given.show)
    for file in given.files:
        _print_pairs(file.name, _read_lines(file))


def _read_lines(file: Path) -> list[dict[str, Any]]:
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _print_cases(kind: str, cases: list[dict[str, Any]], folder: Path, shows: bool) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    remembered = _remember_all(folder, cases)
    for case, is_remembered in zip(cases, remembered, strict=True):
        is_reported = any(_is_told(old, new) for old, new in combinations(case["texts"], 2))
        for about in (f"{case['part']}, {case['about']}", case["part"]):
            counts[about, "all"] += 1
            counts[about, "reported"] += is_reported
            counts[about, "remembered"] += is_remembered
        if shows and (is_reported or is_remembered) != (kind == "update"):
            print(f"  {'missed' if kind == 'update' else 'flagged'}: {' | '.join(case['texts'])}")
    for about in dict.fromkeys(about for about, _ in counts):
        reported, seen = counts[about, "reported"], counts[about, "remembered"]
        print(f"{kind} {about}: reported {reported}, remembered {seen} of {counts[about, 'all']}")


def _remember_all(folder: Path, cases: list[dict[str, Any]]) -> list[bool]:
    """Remember all texts; return for which cases one is answered as a contradiction of another."""
    from vaultmem.services.memory.create_vault import create_vault
    from vaultmem.services.memory.remember import Memory, remember
    from vaultmem.vault import open_vault

    create_vault(folder)
    vault = open_vault(folder)
    found = []
    for case in cases:
        paths: set[str] = set()
        is_flagged = False
        for text in case["texts"]:
            done = remember(vault, Memory(text))
            is_flagged |= any(each.contradicts and each.path in paths for each in done.similar)
            paths.add(done.path)
        found.append(is_flagged)
    vault.close()
    return found


def _print_pairs(name: str, pairs: list[dict[str, Any]]) -> None:
    """Print by category how many pairs are reported as contradictions, in either order."""
    counts: Counter[tuple[str, str]] = Counter()
    for pair in pairs:
        key = f"{'same' if pair['same'] else 'different'} {pair.get('category', '')}".strip()
        counts[key, "all"] += 1
        counts[key, "reported"] += _is_told(pair["a"], pair["b"]) or _is_told(pair["b"], pair["a"])
    for key in sorted({key for key, _ in counts}):
        print(f"{name}, {key}: {counts[key, 'reported']} of {counts[key, 'all']} reported")


if __name__ == "__main__":
    main()
