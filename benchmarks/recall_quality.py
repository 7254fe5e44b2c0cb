"""Measure how good the answers are, beside plain Whoosh, SQLite FTS5 and counting words.

    python benchmarks/recall_quality.py FOLDER [--tasks NAME ...] [--only-vaultmem]
        [--models static onnx endpoint] [--json FILE]

FOLDER holds one folder a task:

    TASK/queries.jsonl       {"id", "vault", "query", "relevant": [note ids], "asof"?} a line
    TASK/notes.jsonl         {"id", "vault", "seq"} a line
    TASK/VAULT/ID.md         the notes; a note's id is its file's name

A question with `asof` is asked when only the notes with a smaller `seq` are there: later ones
count nowhere, neither as neighbours nor in how rare a word is, for no engine. Notes are ranked by
their best section. Everything goes the way of the product: each vault is indexed by `sync_vault`
and asked by `recall`.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from baselines import Fts5, PlainWhoosh, list_notes
from growing import grow
from measure import isolate

from vaultmem.core.search.evaluation import Figure, measure_ndcg, measure_recall, summarise

if TYPE_CHECKING:
    from vaultmem.services.semantic.embed import DenseScorer
    from vaultmem.vault import Vault

#: Notes that are asked for.
DEPTH = 12

#: Answers a question with the names of notes, as it was at a moment (None: with all notes).
#: Moments come in ascending order.
Ask = Callable[[str, int | None], list[str]]
Order = Mapping[str, int]


def main() -> None:
    """Measure the tasks of the folder that the command line names."""
    given = _read_arguments()
    names = given.tasks or sorted(path.parent.name for path in given.folder.glob("*/queries.jsonl"))
    results = {}
    with tempfile.TemporaryDirectory(prefix="vaultmem-quality-") as scratch:
        isolate(Path(scratch))
        for name in names:
            results[name] = measure_task(given.folder / name, Path(scratch), given)
            print_task(name, results[name])
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def measure_task(task: Path, scratch: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Ask each engine all questions of a task; the values are per question."""
    queries = read_lines(task / "queries.jsonl")
    order = {note["id"]: note["seq"] for note in read_lines(task / "notes.jsonl")}
    engines: dict[str, Callable[[Path, Path, Order], Ask]] = {"vaultmem": open_vaultmem}
    engines |= {f"with {model}": partial(open_vaultmem, model=model) for model in given.models}
    if not given.only_vaultmem:
        engines |= {"plain Whoosh": open_whoosh, "SQLite FTS5": open_fts5, "word count": open_count}
    values: dict[str, list[list[float]]] = {name: [] for name in engines}
    seconds = dict.fromkeys(engines, 0.0)
    for vault in sorted({query["vault"] for query in queries}):
        asked = sorted(
            (query for query in queries if query["vault"] == vault),
            key=lambda query: query.get("asof", 0),
        )
        for name, open_engine in engines.items():
            made = scratch / f"{task.name}-{vault}-{len(values[name])}"
            ask = open_engine(task / vault, made, order)
            for query in asked:
                started = time.perf_counter()
                ranked = ask(query["query"], query.get("asof"))
                seconds[name] += time.perf_counter() - started
                values[name].append(judge(ranked, query["relevant"]))
    return {
        "questions": len(queries),
        "engines": {name: summarise(np.array(rows)) for name, rows in values.items()},
        "difference": {
            name: summarise(np.array(values["vaultmem"]) - np.array(rows))
            for name, rows in values.items()
            if name != "vaultmem"
        },
        "seconds": seconds,
    }


def judge(ranked: Sequence[str], relevant: Sequence[str]) -> list[float]:
    """Return recall@10 and nDCG@10 of a ranking, each wanted note as good as another."""
    notes = list(dict.fromkeys(ranked))
    return [measure_recall(notes, relevant, 10), measure_ndcg(notes, relevant, 10)]


def open_vaultmem(folder: Path, _: Path, order: Order, model: str = "") -> Ask:
    """Index a vault and return what asks it, by words alone or with a model beside them."""
    from vaultmem.core.search.query import MAX_QUERY_CHARS, parse_query
    from vaultmem.environment import open_named_vault
    from vaultmem.services.search.recall import recall
    from vaultmem.services.views.update_index import sync_vault

    vault = open_named_vault(folder)
    sync_vault(vault)
    dense = _open_scorer(vault, model) if model else None

    grown = {None: vault}

    def ask(query: str, asof: int | None) -> list[str]:
        if asof not in grown:
            grown.clear()
            grown[asof] = grow(vault, order, asof)
        hits = recall(grown[asof], parse_query(query[:MAX_QUERY_CHARS], DEPTH), dense, by_note=True)
        if dense is not None and dense.problem:
            raise SystemExit(dense.problem)
        return [Path(hit.record.path).stem for hit in hits]

    return ask


def _open_scorer(vault: Vault, model: str) -> DenseScorer:
    """Give every section its vectors; that takes its time and is not counted."""
    from vaultmem.services.semantic.embed import DenseScorer, embed_sections
    from vaultmem.services.semantic.meaning import open_meaning

    meaning = open_meaning(vault, model)
    embed_sections(vault, meaning)
    return DenseScorer(vault, meaning)


def open_whoosh(folder: Path, scratch: Path, order: Order) -> Ask:
    """Index the notes as Whoosh's documentation has it, as the questions come to need them."""
    index = PlainWhoosh(scratch / "whoosh")
    scratch.mkdir()
    index.create()
    grow_to = _feed(folder, order, index.add)

    def ask(query: str, asof: int | None) -> list[str]:
        grow_to(asof)
        return _stems(index.search(_words(query), DEPTH))

    return ask


def open_fts5(folder: Path, scratch: Path, order: Order) -> Ask:
    """Put the notes in an FTS5 table, as the questions come to need them."""
    scratch.mkdir(exist_ok=True)
    table = Fts5(scratch / "notes.fts5")
    table.create()
    grow_to = _feed(folder, order, table.add)

    def ask(query: str, asof: int | None) -> list[str]:
        grow_to(asof)
        return _stems(path for path, _ in table.search(_words(query), DEPTH))

    return ask


def _feed(
    folder: Path, order: Order, add: Callable[[Sequence[Path]], None]
) -> Callable[[int | None], None]:
    """Return what adds the notes that were there at a moment, each once."""
    waiting = sorted(list_notes(folder), key=lambda note: order[note.stem])

    def grow_to(asof: int | None) -> None:
        many = sum(asof is None or order[note.stem] < asof for note in waiting)
        if many:
            add(waiting[:many])
        del waiting[:many]

    return grow_to


def open_count(folder: Path, _: Path, order: Order) -> Ask:
    """Rank notes by how often they have any of the question's words, as `rg -c` would tell."""
    counts = {
        note.stem: Counter(_words(note.read_text(encoding="utf-8"))) for note in list_notes(folder)
    }

    def ask(query: str, asof: int | None) -> list[str]:
        words = set(_words(query))
        found = {
            note: sum(count[word] for word in words)
            for note, count in counts.items()
            if asof is None or order[note] < asof
        }
        ranked = sorted((note for note in found if found[note]), key=lambda n: (-found[n], n))
        return ranked[:DEPTH]

    return ask


def print_task(name: str, result: dict[str, Any]) -> None:
    """Print a task's table, with 95 % intervals by bootstrap over the questions."""
    print(f"\n{name}, {result['questions']:,} questions\n")
    print(f"{'':14}{'recall@10':>24}{'nDCG@10':>24}{'ms a question':>16}")
    for engine, (recall_, ndcg) in result["engines"].items():
        taken = result["seconds"][engine] * 1_000 / result["questions"]
        print(f"{engine:14}{describe_figure(recall_):>24}{describe_figure(ndcg):>24}{taken:16.1f}")
    for engine, (recall_, ndcg) in result["difference"].items():
        print(
            f"{'- ' + engine:14}{describe_figure(recall_, '+'):>24}{describe_figure(ndcg, '+'):>24}"
        )


def describe_figure(values: Figure, sign: str = "") -> str:
    """Return a mean and its interval."""
    mean, low, high = (f"{value:{sign}.3f}" for value in values)
    return f"{mean} [{low} {high}]"


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _stems(paths: Any) -> list[str]:
    return [Path(path).stem for path in paths]


def read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how good the answers are.")
    parser.add_argument("folder", type=Path, help="the folder of tasks")
    parser.add_argument("--tasks", nargs="+", metavar="NAME", help="only these tasks")
    parser.add_argument("--only-vaultmem", action="store_true", help="ask no other engine")
    parser.add_argument(
        "--models",
        nargs="+",
        default=[],
        metavar="NAME",
        help="ask with these models too",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
