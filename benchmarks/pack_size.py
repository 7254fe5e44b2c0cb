"""Show that a pack's size depends on its budget and not on the vault.

    python benchmarks/pack_size.py [--notes 100 1000 10000] [--budget 2000] [--folder DIR ...]

Makes vaults of these sizes (or takes copies of folders of markdown), asks each the same number of
questions, and prints the tokens of the packs beside those of the whole vault, as a table and as a
plot. 100,000 notes take some minutes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from baselines import list_notes
from generate import SEED, generate_vault
from measure import isolate, percentile
from queries import make_queries
from sources import copy_notes

from vaultmem.core.text.display import plot_lines

QUESTIONS = 40


@dataclass(frozen=True)
class Size:
    """A vault: its notes and tokens, and the tokens and milliseconds of its packs."""

    notes: int
    flat: int
    sent: list[int]
    milliseconds: list[float]


def measure_packs(folder: Path, budget: int) -> Size:
    """Make the packs of a vault: one for each question."""
    from vaultmem.services.packs.build import make_pack
    from vaultmem.services.views.update_index import sync_vault
    from vaultmem.vault import open_vault

    queries = make_queries(folder, QUESTIONS, SEED)
    vault = open_vault(folder)
    sync_vault(vault)
    make_pack(vault, queries[0], budget)
    sent, milliseconds = [], []
    for query in queries:
        started = time.perf_counter()
        pack = make_pack(vault, query, budget)
        milliseconds.append((time.perf_counter() - started) * 1_000)
        sent.append(pack.account.sent)
    notes, flat = vault.view.totals()
    vault.close()
    return Size(notes, flat, sent, milliseconds)


def format_sizes(sizes: list[Size], budget: int) -> str:
    """Return the table, the largest difference, and the plot."""
    lines = [
        f"packs for {QUESTIONS} questions each, budget {budget:,} tokens",
        "",
        "|   notes | tokens in the vault | tokens of a pack: mean | least | most | saved | p50 |",
        "|--------:|--------------------:|-----------------------:|------:|-----:|------:|----:|",
    ]
    means = [statistics.mean(size.sent) for size in sizes]
    for size, mean in zip(sizes, means, strict=True):
        lines.append(
            f"| {size.notes:>7,} | {size.flat:>19,} | {mean:>22,.0f} | {min(size.sent):>5,} "
            f"| {max(size.sent):>4,} | {size.flat / mean:>4,.0f}x "
            f"| {percentile(size.milliseconds, 0.5):>3.0f} ms |"
        )
    spread = (max(means) - min(means)) / min(means)
    lines += ["", f"largest difference of the means: {spread:.1%}", ""]
    packs = [(float(size.notes), mean) for size, mean in zip(sizes, means, strict=True)]
    flat = [(float(size.notes), float(size.flat)) for size in sizes]
    plot = plot_lines([("#", flat), ("o", packs)], "notes", "tokens: o a pack, # flat memory")
    return "\n".join([*lines, plot])


def main() -> None:
    """Measure the vaults that the command line names."""
    parser = argparse.ArgumentParser(description="Pack size against vault size.")
    parser.add_argument("--notes", type=int, nargs="*", default=[100, 1_000, 10_000], metavar="N")
    parser.add_argument("--budget", type=int, default=2_000, metavar="TOKENS")
    parser.add_argument("--folder", type=Path, nargs="*", default=[], help="folders of markdown")
    given = parser.parse_args()
    sizes = []
    for source in [*given.notes, *given.folder]:
        with tempfile.TemporaryDirectory(prefix="vaultmem-packs-") as name:
            scratch = Path(name).resolve()
            isolate(scratch)
            folder = scratch / "vault"
            if isinstance(source, Path):
                copy_notes(source, folder)
            else:
                generate_vault(folder, source)
            if len(list_notes(folder)) < QUESTIONS:
                raise SystemExit(f"{source}: too few notes to ask {QUESTIONS} questions")
            sizes.append(measure_packs(folder, given.budget))
    print(format_sizes(sorted(sizes, key=lambda size: size.notes), given.budget))


if __name__ == "__main__":
    main()
