"""Many vaults against one of all their notes: the same ten notes, in what time.

    python benchmarks/vaults.py FOLDER... [--questions FILE] --notes 20000 --vaults 20

Each FOLDER has notes of one source, and FILE a question a line (JSON, `query`); without it, the
questions are made of words of the notes. The notes are dealt out twice: at random, and source by
source, in the order of their paths. Neighbours and recency are weighted inside each vault: the
first figure is of the questions whose hits in the one vault have no gain of neighbours, asked
without weight for new notes; the second is of all, asked with the default settings.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from queries import make_queries

if TYPE_CHECKING:
    from vaultmem.core.search.query import Hit
    from vaultmem.vault import Vault

#: Notes that are compared.
DEPTH = 10

#: A note's place in the one vault, and its file.
Dealt = tuple[str, Path]


def main() -> None:
    """Print one table: a row for each way to deal the notes out."""
    given = _read_arguments()
    rng = random.Random(given.seed)
    notes = list_notes(given.folders, given.notes, rng)
    if given.questions:
        questions = choose_questions(given.questions, given.count, rng)
    else:
        own = -(-given.count // len(given.folders))
        made = (make_queries(folder, own, given.seed) for folder in given.folders)
        questions = [question for each in made for question in each][: given.count]
    print(f"{len(notes):,} notes, {len(questions)} questions, {given.vaults} vaults")
    head = (
        "notes dealt",
        "same ten, plain",
        "same ten, all",
        "same order, all",
        *(f"{what} {how}" for what in ("wall p50", "CPU p50", "CLI") for how in ("one", "many")),
    )
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    with tempfile.TemporaryDirectory() as name:
        scratch = given.keep or Path(name)
        one = make_vault(scratch / "one", notes)
        for how in ("at random", "by source"):
            dealt = rng.sample(notes, len(notes)) if how == "at random" else notes
            size = -(-len(dealt) // given.vaults)
            folders = [
                make_vault(
                    scratch / how.replace(" ", "-") / f"v{start // size:02}",
                    dealt[start : start + size],
                )
                for start in range(0, len(dealt), size)
            ]
            print(measure_split(how, one, folders, questions, given.show), flush=True)


def measure_split(
    how: str, one: Path, many: Sequence[Path], questions: Sequence[str], shows: bool
) -> str:
    """Return the row of one way to deal the notes out."""
    plain = same_plain = 0
    ask_one, ask_many = open_all([one], recency=0.0), open_all(many, recency=0.0)
    for question in questions:
        hits = ask_one(question)
        if not any(hit.neighbours for hit in hits):
            plain += 1
            same_plain += list_notes_of(hits) == list_notes_of(ask_many(question))
    ask_one, ask_many = open_all([one]), open_all(many)
    for question in questions[: len(questions) // 5]:
        ask_one(question)
        ask_many(question)
    wall: tuple[list[float], ...] = ([], [])
    cpu: tuple[list[float], ...] = ([], [])
    sets = orders = 0
    for question in questions:
        answers = []
        for ask, walls, cpus in zip((ask_one, ask_many), wall, cpu, strict=True):
            started, worked = time.perf_counter(), time.process_time()
            hits = ask(question)
            walls.append(1_000 * (time.perf_counter() - started))
            cpus.append(1_000 * (time.process_time() - worked))
            answers.append([hit.record.path for hit in hits])
        sets += set(answers[0]) == set(answers[1])
        orders += answers[0] == answers[1]
        if shows and answers[0] != answers[1]:
            print(f"{question[:80]!r}\n  one   {answers[0]}\n  many  {answers[1]}")
    cold = [time_command(folders, questions[0]) for folders in ([one], many)]
    times = [*map(statistics.median, (*wall, *cpu)), *(1_000 * each for each in cold)]
    cells = (
        how,
        f"{same_plain} of {plain}",
        f"{sets} of {len(questions)}",
        f"{orders}",
        *(f"{each:.1f} ms" for each in times),
    )
    return f"| {' | '.join(cells)} |"


def list_notes_of(hits: Sequence[Hit]) -> set[str]:
    """Return the notes of hits, whichever vault they are in."""
    return {hit.record.path for hit in hits}


def open_all(folders: Sequence[Path], recency: float | None = None) -> Callable[[str], list[Hit]]:
    """Return what asks vaults that stay open."""
    from vaultmem import open_vault, sync_vault
    from vaultmem.core.search.query import parse_query
    from vaultmem.services.search.recall import find_sections
    from vaultmem.services.search.vault_set import VaultSet

    opened: list[Vault] = []
    for folder in folders:
        vault = replace(open_vault(folder), name=folder.name)
        if recency is not None:
            vault = replace(vault, config=vault.config._replace(recency=recency))
        sync_vault(vault)
        opened.append(vault)
    vaults = VaultSet(opened)

    def ask(question: str) -> list[Hit]:
        query = parse_query(question, DEPTH)
        return find_sections(vaults, query, vaults.count(query), DEPTH, by_note=True)

    return ask


def time_command(folders: Sequence[Path], question: str) -> float:
    """Return the seconds that the command takes, the best of three."""
    named = [word for folder in folders for word in ("--vault", str(folder))]
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        words = [sys.executable, "-m", "vaultmem", "recall", question[:200], *named]
        subprocess.run(words, check=True, capture_output=True)
        taken.append(time.perf_counter() - started)
    return min(taken)


def list_notes(folders: Sequence[Path], count: int, rng: random.Random) -> list[Dealt]:
    """Return as many notes, of all sources, each with its place in the one vault."""
    found = [
        (f"{number}-{folder.name}/{file.relative_to(folder)}", file)
        for number, folder in enumerate(folders)
        for file in sorted(folder.rglob("*.md"))
    ]
    kept = set(rng.sample(range(len(found)), min(count, len(found))))
    return [each for number, each in enumerate(found) if number in kept]


def choose_questions(files: Sequence[Path], count: int, rng: random.Random) -> list[str]:
    """Return as many questions, as many of each file."""
    chosen = []
    for file in files:
        lines = [json.loads(line)["query"] for line in file.read_text("utf-8").splitlines()]
        chosen += rng.sample(lines, min(-(-count // len(files)), len(lines)))
    return chosen[:count]


def make_vault(folder: Path, notes: Sequence[Dealt]) -> Path:
    """Copy notes into a new vault, unless it is there; return its folder."""
    if (folder / "vaultmem.yaml").is_file():
        return folder
    for name, file in notes:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, folder / name)
    (folder / "vaultmem.yaml").write_text("", encoding="utf-8")
    return folder


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare many vaults with one of all their notes.")
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="FOLDER", help="notes of one source"
    )
    parser.add_argument("--questions", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--notes", type=int, default=20_000)
    parser.add_argument("--vaults", type=int, default=20)
    parser.add_argument("--count", type=int, default=100, help="questions")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="make the vaults there, or use those there"
    )
    parser.add_argument("--show", action="store_true", help="print where the answers differ")
    return parser.parse_args()


if __name__ == "__main__":
    main()
