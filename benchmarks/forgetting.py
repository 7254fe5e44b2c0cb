"""Compact a year of somebody's facts, and ask what was asked before, and what never was.

    python benchmarks/forgetting.py TASK [--vaults NAME ...] [--json FILE]

TASK is a folder of `recall_quality.py`'s: `queries.jsonl`, `notes.jsonl` and a folder of notes a
vault. Each note is a `remember` on its day of a made-up year, in their order; each second question
is asked, and counted, on the day when it could be. The vault is compacted each week. At the end of
the year all questions are asked of it, and of a vault in which the same notes were left alone; a
question with `asof` finds only the notes that were there then.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from growing import grow
from measure import isolate
from recall_quality import read_lines
from year import Clock
from year_script import DAY, DAYS, START

from vaultmem.core.lifecycle import HIDDEN_STATES, State
from vaultmem.core.notes.note import parse_note
from vaultmem.core.search.evaluation import measure_recall
from vaultmem.core.search.query import MAX_QUERY_CHARS
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.curation.compact import compact
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.search.run_query import Ask, run_query
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault, open_vault

#: Notes that an answer has.
_LIMIT = 10


class Question(NamedTuple):
    """A question, the ids of the notes that answer it, and how many notes there were."""

    text: str
    relevant: tuple[str, ...]
    asof: int | None
    is_asked: bool


class Outcome(NamedTuple):
    """What a year of one vault came to: recall of each question in both vaults, and sizes."""

    is_asked: list[bool]
    kept: list[float]
    untouched: list[float]
    tokens: int
    untouched_tokens: int
    in_play: int
    notes: int
    steps: dict[str, int]


class Year:
    """A vault that is compacted, beside one with the same notes that nobody touches."""

    def __init__(self, folder: Path, notes: list[Path], questions: list[Question]) -> None:
        self.clock = Clock()
        created = create_vault(folder / "kept")
        created.vault.close()
        self.root = folder / "kept"
        (folder / "untouched").mkdir(parents=True)
        self.kept = open_vault(self.root, agent="claude", now=self.clock)
        self.untouched = open_vault(folder / "untouched", agent="claude", now=self.clock)
        self.notes = notes
        self.questions = questions
        self.order: dict[str, int] = {}
        self.ids: dict[str, str] = {}
        self.steps: dict[str, int] = {}

    def live(self) -> Outcome:
        """Tell, ask and compact through the year, and ask everything at its end."""
        sync_vault(self.kept)
        waiting = sorted(
            (each for each in self.questions if each.is_asked),
            key=lambda each: len(self.notes) if each.asof is None else each.asof,
        )
        week = 0
        for number, file in enumerate(self.notes):
            self.clock.at = START + number * DAYS * DAY / len(self.notes)
            while self.clock.at >= START + (week + 1) * 7 * DAY:
                week += 1
                self._compact()
            self._tell(number, file)
            while waiting and waiting[0].asof is not None and waiting[0].asof <= number + 1:
                self._ask(self.kept, waiting.pop(0), counts=True)
        self.clock.at = START + DAYS * DAY
        self._compact()
        return self._conclude()

    def _tell(self, number: int, file: Path) -> None:
        note = parse_note(file.relative_to(file.parent), file.read_bytes())
        done = remember(self.kept, Memory(note.body, title=note.title, tags=note.tags), force=True)
        twin = self.untouched.root / done.path
        twin.parent.mkdir(parents=True, exist_ok=True)
        twin.write_bytes((self.root / done.path).read_bytes())
        self.order[Path(done.path).stem] = number
        self.ids[done.path] = file.stem

    def _compact(self) -> None:
        save_checkpoint(self.kept, "the week")
        for step in compact(self.kept).steps:
            self.steps[step.step] = self.steps.get(step.step, 0) + 1

    def _ask(self, vault: Vault, question: Question, counts: bool = False) -> float:
        asked = Ask(question.text[:MAX_QUERY_CHARS], _LIMIT, suggests=True, counts=counts)
        hits = run_query(vault, asked).hits
        found = dict.fromkeys(self.ids.get(hit.record.path, "") for hit in hits)
        return measure_recall(list(found), question.relevant, _LIMIT)

    def _conclude(self) -> Outcome:
        sync_vault(self.kept)
        sync_vault(self.untouched)
        records = self.kept.view.records()
        in_play = [each for each in records if State(each.state) not in HIDDEN_STATES]
        mine = [each for each in in_play if each.path in self.ids]
        untouched = self.untouched.view.records()
        return Outcome(
            [each.is_asked for each in self.questions],
            self._ask_all(self.kept),
            self._ask_all(self.untouched),
            sum(each.tokens for each in mine),
            sum(each.tokens for each in untouched),
            len(mine),
            len(untouched),
            self.steps,
        )

    def _ask_all(self, vault: Vault) -> list[float]:
        others = {Path(record.path).stem: len(self.notes) for record in vault.view.records()}
        order: Mapping[str, int] = {**others, **self.order}
        return [self._ask(grow(vault, order, each.asof), each) for each in self.questions]

    def close(self) -> None:
        """Close both vaults."""
        self.kept.close()
        self.untouched.close()


def live_years(task: Path, names: list[str], scratch: Path) -> Iterator[tuple[str, Outcome]]:
    """Yield each vault of a task with what its year came to."""
    order = {note["id"]: note for note in read_lines(task / "notes.jsonl")}
    queries = read_lines(task / "queries.jsonl")
    for name in names or sorted({query["vault"] for query in queries}):
        notes = sorted((task / name).glob("*.md"), key=lambda file: order[file.stem]["seq"])
        own = [query for query in queries if query["vault"] == name]
        questions = [
            Question(each["query"], tuple(each["relevant"]), each.get("asof"), n % 2 == 0)
            for n, each in enumerate(own)
        ]
        year = Year(scratch / name, notes, questions)
        yield name, year.live()
        year.close()


def print_outcome(name: str, outcome: Outcome) -> None:
    """Print a line of the table."""
    asked, kept, untouched = (np.array(each) for each in outcome[:3])
    parts = [np.ones(len(asked), bool), asked, ~asked]
    figures = [f"{untouched[part].mean():.3f} {kept[part].mean():.3f}" for part in parts]
    saved = outcome.untouched_tokens / max(1, outcome.tokens)
    tokens = f"{outcome.untouched_tokens:>9,} {outcome.tokens:>9,} {saved:.1f}x"
    notes = f"{outcome.notes:>6,} {outcome.in_play:>6,}"
    print(f"{name:18}{len(asked):>6}  {'   '.join(figures)}  {tokens}  {notes}", flush=True)


def join(outcomes: list[Outcome]) -> Outcome:
    """Return what all vaults came to together."""
    lists = [[value for each in outcomes for value in each[place]] for place in range(3)]
    sums = [sum(each[place] for each in outcomes) for place in range(3, 7)]
    steps: dict[str, int] = {}
    for each in outcomes:
        for step, count in each.steps.items():
            steps[step] = steps.get(step, 0) + count
    return Outcome(*lists, *sums, steps)


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", type=Path, help="the folder of a task")
    parser.add_argument("--vaults", nargs="+", default=[], metavar="NAME", help="only these")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vaultmem-forgetting-") as scratch:
        isolate(Path(scratch))
        print(
            "recall@10 untouched and kept: of all questions, of those asked before, of the others"
        )
        outcomes = {}
        for name, outcome in live_years(given.task, given.vaults, Path(scratch)):
            outcomes[name] = outcome
            print_outcome(name, outcome)
        whole = join(list(outcomes.values()))
        print_outcome("all", whole)
        print(", ".join(f"{step}: {count:,}" for step, count in whole.steps.items()))
    if given.json:
        rows = {name: outcome._asdict() for name, outcome in outcomes.items()}
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
