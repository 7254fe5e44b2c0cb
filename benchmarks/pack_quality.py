"""Measure how much of what answers a question is in its pack, beside SQLite FTS5.

    python benchmarks/pack_quality.py FOLDER [--tasks NAME ...] [--budgets 500 1000 2000]
        [--long 24 --form items] [--only-vaultmem] [--json FILE]

FOLDER is as `recall_quality.py` has it. Two shares are told of a question's evidence: "note" is
the notes that a pack shows, be it in part; "words" the notes whose every word is in it.

A question with `asof` is asked when only the notes with a smaller `seq` are there: later ones
count neither for a word's weight nor as neighbours. FTS5 has the earlier ones alone in its table,
and fills the budget with whole notes in the order of its bm25: for each a line with its path and
its text without properties, one that does not fit making way for the next. Where not even the
first fits, its beginning is shown.

With `--long N` the notes of a vault are put together first, N in a row in one note without
headings, as list items, as turns of two people or as one paragraph. Then all notes are there.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from baselines import Fts5
from growing import grow
from measure import isolate
from recall_quality import describe_figure, read_lines

from vaultmem.core.search.evaluation import measure_share, summarise
from vaultmem.core.text.token_count import count_tokens

BUDGETS = (500, 1_000, 2_000)

Question = Mapping[str, Any]


class Shown(NamedTuple):
    """A pack: the names of the notes in it, and its words in a row."""

    notes: frozenset[str]
    words: str


class Task(NamedTuple):
    """A vault's folder, its notes' order, what each note has to show, and where that stands.

    `words` and `holder` are by the names that questions use.
    """

    folder: Path
    order: Mapping[str, int]
    words: Mapping[str, str]
    holder: Mapping[str, str]
    is_grown: bool


Fill = Callable[[Question, int], Shown]


def main() -> None:
    """Measure the tasks of the folder that the command line names."""
    given = _read_arguments()
    names = given.tasks or sorted(path.parent.name for path in given.folder.glob("*/queries.jsonl"))
    results = {}
    with tempfile.TemporaryDirectory(prefix="vaultmem-packs-") as name:
        scratch = Path(name).resolve()
        isolate(scratch)
        for task in names:
            results[task] = measure_task(given.folder / task, scratch / task, given)
            print_task(task, results[task], given)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def measure_task(folder: Path, scratch: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Fill each budget for all questions of a task: by engine, note and words for each budget."""
    queries = read_lines(folder / "queries.jsonl")
    seq = {note["id"]: note["seq"] for note in read_lines(folder / "notes.jsonl")}
    engines: dict[str, Callable[[Task, Path], Fill]] = {"vaultmem": open_vaultmem}
    if not given.only_vaultmem:
        engines["SQLite FTS5"] = open_fts5
    values: dict[str, list[list[float]]] = {name: [] for name in engines}
    for vault in sorted({query["vault"] for query in queries}):
        asked = sorted(
            (query for query in queries if query["vault"] == vault),
            key=lambda query: query.get("asof", 0),
        )
        made = scratch / vault
        made.mkdir(parents=True)
        task = (
            join_notes(folder / vault, seq, made / "long", given.long, given.form)
            if given.long
            else read_task(folder / vault, seq)
        )
        for name, open_engine in engines.items():
            fill = open_engine(task, made)
            for query in asked:
                packs = [fill(query, budget) for budget in given.budgets]
                values[name].append([n for each in packs for n in judge(each, query, task)])
    return {
        "questions": len(queries),
        "engines": {name: summarise(np.array(rows)) for name, rows in values.items()},
    }


def judge(shown: Shown, query: Question, task: Task) -> list[float]:
    """Return the shares of a question's notes that are shown, and shown in every word."""
    notes = [task.holder[name] for name in query["relevant"]]
    words = [task.words[name] for name in query["relevant"]]
    return [measure_share(notes, shown.notes), measure_share(words, shown.words)]


def read_task(folder: Path, order: Mapping[str, int]) -> Task:
    """Return the vault in a folder as it is."""
    words = {note.stem: list_words(read_body(note)) for note in folder.glob("*.md")}
    return Task(folder, order, words, {name: name for name in words}, is_grown=True)


def join_notes(folder: Path, order: Mapping[str, int], made: Path, many: int, form: str) -> Task:
    """Write a vault of long notes, `many` notes of a folder in each, and return it."""
    made.mkdir()
    notes = sorted(folder.glob("*.md"), key=lambda note: (order[note.stem], note.stem))
    holder = {}
    for start in range(0, len(notes), many):
        name = f"long-{start // many:04}"
        properties = notes[start].read_text(encoding="utf-8").split("---\n")[1]
        facts = [" ".join(read_body(note).split()) for note in notes[start : start + many]]
        text = f"---\n{properties}---\n\n{_join_facts(facts, form)}\n"
        (made / f"{name}.md").write_text(text, encoding="utf-8")
        holder |= {note.stem: name for note in notes[start : start + many]}
    words = {note.stem: list_words(read_body(note)) for note in notes}
    return Task(made, order, words, holder, is_grown=False)


def _join_facts(facts: Sequence[str], form: str) -> str:
    if form == "prose":
        return " ".join(facts)
    marks = ("- ", "- ") if form == "items" else ("Mira: ", "Tom: ")
    return "\n".join(f"{marks[n % 2]}{fact}" for n, fact in enumerate(facts))


def open_vaultmem(task: Task, _: Path) -> Fill:
    """Index a vault and return what makes its packs."""
    from vaultmem.core.search.query import MAX_QUERY_CHARS
    from vaultmem.environment import open_named_vault
    from vaultmem.services.packs.build import make_pack
    from vaultmem.services.views.update_index import sync_vault

    vault = open_named_vault(task.folder)
    sync_vault(vault)
    grown = {}

    def fill(query: Question, budget: int) -> Shown:
        asof = query.get("asof") if task.is_grown else None
        if asof not in grown:
            grown.clear()
            grown[asof] = grow(vault, task.order, asof)
        pack = make_pack(grown[asof], query["query"][:MAX_QUERY_CHARS], budget)
        return Shown(
            frozenset(Path(item.hit.record.path).stem for item in pack.items),
            list_words(pack.text),
        )

    return fill


def open_fts5(task: Task, scratch: Path) -> Fill:
    """Return what fills budgets from an FTS5 table that grows with the questions."""
    table = Fts5(scratch / "notes.fts5")
    table.create()
    waiting = sorted(task.folder.glob("*.md"), key=lambda note: task.order.get(note.stem, 0))

    def fill(query: Question, budget: int) -> Shown:
        asof = query.get("asof") if task.is_grown else None
        many = sum(asof is None or task.order[note.stem] < asof for note in waiting)
        table.add(waiting[:many])
        del waiting[:many]
        words = re.findall(r"\w+", query["query"].lower())
        return fill_budget((Path(path) for path, _ in table.search(words, 100)), budget)

    return fill


def fill_budget(notes: Iterable[Path], budget: int) -> Shown:
    """Take whole notes while they fit, the first one's beginning where it does not."""
    shown: list[Path] = []
    text = ""
    for note in islice(notes, 100):
        more = f"{note.name}\n{read_body(note)}\n\n"
        if not shown and count_tokens(more) > budget:
            while count_tokens(more) > budget:
                more = more[: int(len(more) * 0.98)].rpartition(" ")[0]
        if count_tokens(text + more) <= budget:
            text += more
            shown.append(note)
    return Shown(frozenset(note.stem for note in shown), list_words(text))


def read_body(note: Path) -> str:
    """Return a note's text without its properties."""
    text = note.read_text(encoding="utf-8")
    return text.split("---\n", 2)[2].strip() if text.startswith("---\n") else text.strip()


def list_words(text: str) -> str:
    """Return the words of a text in a row, each between blanks."""
    return " ".join(["", *re.findall(r"\w+", text.lower()), ""])


def print_task(name: str, result: dict[str, Any], given: argparse.Namespace) -> None:
    """Print a task's table, with 95 % intervals by bootstrap over the questions."""
    form = f", {given.long} notes in one ({given.form})" if given.long else ""
    print(f"\n{name}{form}, {result['questions']:,} questions\n")
    print(f"{'':20}" + "".join(f"{f'{budget:,} tokens':>24}" for budget in given.budgets))
    for engine, columns in result["engines"].items():
        for place, what in enumerate(("note", "words")):
            row = "".join(f"{describe_figure(each):>24}" for each in columns[place::2])
            print(f"{engine + ', ' + what:20}{row}")


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what is in packs.")
    parser.add_argument("folder", type=Path, help="the folder of tasks")
    parser.add_argument("--tasks", nargs="+", metavar="NAME", help="only these tasks")
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS, metavar="TOKENS")
    parser.add_argument("--long", type=int, default=0, metavar="N", help="notes in a long one")
    parser.add_argument("--form", choices=("items", "turns", "prose"), default="items")
    parser.add_argument("--only-vaultmem", action="store_true", help="fill with nothing else")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
