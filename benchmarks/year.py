"""Live through a simulated year, and compare the vault that was looked after with an untouched one.

    python benchmarks/year.py                   # 5,000 memories
    python benchmarks/year.py --memories 300    # a short form
    python benchmarks/year.py --keep DIR        # keep the vault, to read its `git log`

The script (`year_script.py`) depends on its seed alone. Each memory goes through `remember` into
the one vault, and is a note of its own in the other. Each question is asked of both at its moment.
The first vault dreams each night, is compacted each week and curated every second month; a person
takes out of MEMORY.md what a dream says may go. Time is the vaults' own clock.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath

from measure import isolate
from year_script import DAY, DAYS, START, Asked, Told, write_year

from vaultmem.core.curation.compaction import DecayStep
from vaultmem.core.curation.proposal import Action
from vaultmem.core.lifecycle import HIDDEN_STATES, NoteState
from vaultmem.core.search.query import Hit
from vaultmem.core.text.blob import blob_id
from vaultmem.errors import RefusedError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.curation.compact import compact
from vaultmem.services.curation.curate import curate
from vaultmem.services.curation.decide import apply_report
from vaultmem.services.curation.dream import dream
from vaultmem.services.lifecycle.supersede import supersede_note
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.new_note import choose_title, compose_note
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.services.views.read_notes import get_note
from vaultmem.services.views.update_index import sync_paths, sync_vault
from vaultmem.vault import Vault, open_vault

SEED = 20251101
_LIMIT = 5
_PINNED = (
    "Never deploy on a Friday after noon.",
    "Money is integer cents everywhere.",
    "The person on call decides in an outage.",
)


@dataclass
class Clock:
    """The simulated time, in seconds since the epoch."""

    at: float = START

    def __call__(self) -> float:
        return self.at


@dataclass
class Counts:
    """What happened in the year."""

    told: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    found: int = 0
    found_untouched: int = 0
    found_both: int = 0
    contradicting: int = 0


@dataclass(frozen=True)
class Outcome:
    """What the year came to; tokens are those of notes that recall shows."""

    counts: Counts
    notes: int
    in_play: int
    tokens: int
    untouched_tokens: int
    later: tuple[int, int, int]
    originals: int
    lost: int
    pinned_changed: int

    @property
    def found_share(self) -> float:
        """How often an answer was found, as a share of how often the untouched vault has it."""
        return self.counts.found / max(1, self.counts.found_untouched)

    @property
    def token_share(self) -> float:
        """The tokens in play, as a share of the untouched vault's."""
        return self.tokens / self.untouched_tokens


class Year:
    """Two vaults that live through the same year; `rest` is in days."""

    def __init__(self, folder: Path, rest: int = 1, say: bool = False) -> None:
        self.clock = Clock()
        self.root = folder / "vault"
        created = create_vault(self.root)
        created.vault.close()
        (folder / "untouched").mkdir()
        self.kept = open_vault(self.root, agent="claude", now=self.clock)
        self.person = open_vault(store=self.kept.store, now=self.clock)
        self.untouched = open_vault(folder / "untouched", agent="claude", now=self.clock)
        self.counts = Counts()
        self.asked: list[Asked] = []
        self._rest = rest
        self._say = say
        self._paths: dict[str, str] = {}
        self._bodies: list[tuple[str, str]] = []
        self._shortened: list[tuple[str, str]] = []
        self._pinned: dict[str, bytes] = {}
        self._corrected: dict[str, float] = {}
        self._number = 0
        self._unsynced: list[PurePosixPath] = []
        self._started = time.monotonic()

    def live(self, count: int, seed: int = SEED) -> Outcome:
        """Live through the year and return what it came to."""
        sync_vault(self.kept)
        sync_vault(self.untouched)
        self._pin()
        day, today = 0, Counter[str]()
        for event in write_year(count, seed):
            while event.at >= START + (day + 1) * DAY:
                self._end_day(day, today)
                day, today = day + 1, Counter()
            self.clock.at = event.at
            if isinstance(event, Told):
                self._tell(event)
                today[event.memory.context] += 1
            else:
                self._ask(event)
        for rest in range(day, DAYS):
            self._end_day(rest, today)
            today = Counter()
        return self._conclude()

    def _pin(self) -> None:
        for text in _PINNED:
            path = remember(self.person, Memory(text, context="rules", pinned=True)).path
            self._pinned[path] = (self.root / path).read_bytes()
        save_checkpoint(self.person, "what always holds")

    def _tell(self, told: Told) -> None:
        done = remember(self.kept, told.memory)
        kind = "repeats" if told.is_repeat else "corrections" if told.is_correction else "new"
        self.counts.told[f"{kind}: {done.outcome}"] += 1
        old = self._paths.get(told.key)
        # Nine in ten times the agent says what is replaced; else the curator finds it.
        if told.is_correction and old and old != done.path and self._number % 10:
            try:
                supersede_note(self.kept, old, done.path, "the value was changed")
                self.counts.done["superseded"] += 1
            except RefusedError:
                self.counts.done["superseding refused"] += 1
        self._paths[told.key] = done.path
        if told.is_correction:
            self._corrected[told.key] = told.at
        body = get_note(self.kept, done.path).note.body.strip()
        self._bodies.append((done.path, body))
        self._write_untouched(told.memory)

    def _write_untouched(self, memory: Memory) -> None:
        self._number += 1
        path = PurePosixPath(f"notes/{memory.context}/{self._number:05}.md")
        file = self.untouched.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        state = memory.state or NoteState.ACTIVE
        title = choose_title(memory)
        file.write_text(compose_note(self.untouched, path, memory, title, state))
        self._unsynced.append(path)

    def _ask(self, asked: Asked) -> None:
        if self._unsynced:
            sync_paths(self.untouched, self._unsynced)
            self._unsynced.clear()
        self.asked.append(asked)
        self.counts.asked += 1
        found = self._find(self.kept, asked, is_counted=True)
        untouched = self._find(self.untouched, asked)
        self.counts.found += found
        self.counts.found_untouched += untouched
        self.counts.found_both += found and untouched

    def _find(self, vault: Vault, asked: Asked, is_counted: bool = False) -> bool:
        hits = run_query(vault, Query(asked.question, _LIMIT, counts=is_counted)).hits
        return any(asked.answer in f"{hit.name}\n{self._read(vault, hit)}" for hit in hits)

    def _read(self, vault: Vault, hit: Hit) -> str:
        """Return what a hit leads to: its text, or where it was shortened the full text."""
        if not hit.record.full_text:
            return hit.text
        return get_note(vault, hit.record.path, full=True).text

    def _end_day(self, day: int, today: Counter[str]) -> None:
        self.clock.at = START + day * DAY + 22 * 3_600
        if today:
            named = ", ".join(f"{name} ({n})" for name, n in today.most_common(3))
            save_checkpoint(self.kept, f"{sum(today.values())} memories of {named}")
        self.clock.at += 4 * 3_600  # Two in the morning.
        if day % self._rest == 0:
            self._dream(day)
        if day % max(7, self._rest) == 6 % max(7, self._rest):
            self._compact()
        if day % 61 == 60:
            self._curate()
        if self._say and day % 15 == 14:
            self._report()

    def _dream(self, day: int) -> None:
        done = dream(self.kept)
        self.counts.done["promoted by dreams"] += len(done.promoted)
        if done.moves and day % 7 == 0:  # On Sundays the person makes room.
            memory = self.root / "MEMORY.md"
            gone = {move.line for move in done.moves if move.note}
            lines = memory.read_text().splitlines(keepends=True)
            kept = [line for number, line in enumerate(lines, 1) if number not in gone]
            memory.write_text("".join(kept))
            self.counts.done["bullets moved back by the person"] += len(gone)
            sync_vault(self.kept)

    def _compact(self) -> None:
        for step in compact(self.kept).steps:
            self.counts.done[f"compacted: {step.step}"] += 1
            if step.step in {DecayStep.SUMMARY, DecayStep.KEYWORDS}:
                self._shortened.append((step.path, step.blob))

    def _curate(self) -> None:
        sync_vault(self.kept)
        report = curate(self.kept)
        for each in apply_report(self.person, report).done:
            self.counts.done[f"curated: {each.action}"] += 1
        shown = [each for each in report.proposals if each.action is Action.CONTRADICTION]
        self.counts.contradicting = max(self.counts.contradicting, len(shown))

    def _report(self) -> None:
        """Print how far the year has come."""
        seconds = time.monotonic() - self._started
        at = datetime.fromtimestamp(self.clock.at).date()
        notes, tokens = self.kept.view.totals()
        told = f"{at}  {notes} notes, {tokens:,} tokens, {self.counts.asked} questions"
        both = f"{self.counts.found} and {self.counts.found_untouched} found"
        print(f"{told}, {both}, {seconds:.0f} s", flush=True)

    def _conclude(self) -> Outcome:
        self.clock.at = START + DAYS * DAY + DAY
        save_checkpoint(self.person, "the year is over")
        sync_vault(self.kept)
        sync_vault(self.untouched)
        records = self.kept.view.records()
        in_play = [each for each in records if NoteState(each.state) not in HIDDEN_STATES]
        changed = sum((self.root / p).read_bytes() != data for p, data in self._pinned.items())
        originals, lost = self._check_originals()
        return Outcome(
            counts=self.counts,
            notes=len(records),
            in_play=len(in_play),
            tokens=sum(each.tokens for each in in_play),
            untouched_tokens=self.untouched.view.totals()[1],
            later=self._ask_again(),
            originals=originals,
            lost=lost,
            pinned_changed=changed,
        )

    def _ask_again(self) -> tuple[int, int, int]:
        """Ask the last quarter's questions once more, of both vaults, but for outdated ones."""
        late = [
            each
            for each in self.asked
            if each.at > START + (DAYS - 91) * DAY and each.at > self._corrected.get(each.key, 0)
        ]
        found = sum(self._find(self.kept, each) for each in late)
        return found, sum(self._find(self.untouched, each) for each in late), len(late)

    def _check_originals(self) -> tuple[int, int]:
        """Look in git for each text that a note ever had: those told, and those shortened."""
        history = self.kept.history
        head = history.head().commit
        versions: dict[str, set[str]] = {}
        out = history.git.run(
            "log", "-m", "--raw", "--no-abbrev", "--no-renames", "-z", "--root", "--format=", head
        )
        words = iter(filter(None, out.split("\0")))
        for meta, path in zip(words, words, strict=False):
            versions.setdefault(path, set()).add(meta.split()[3])
        texts: dict[str, str] = {}
        lost = 0
        for path, body in self._bodies:
            found = False
            for blob in versions.get(path, ()):
                if blob not in texts:
                    texts[blob] = history.objects.read(blob)[1].decode()
                found = found or body in texts[blob]
            lost += not found
        for path, blob in self._shortened:
            data = history.objects.read(blob)[1] if blob in versions.get(path, ()) else b""
            lost += blob_id(data) != blob
        return len(self._bodies) + len(self._shortened), lost

    def close(self) -> None:
        """Close both vaults."""
        self.kept.close()
        self.untouched.close()


def format_outcome(outcome: Outcome) -> str:
    """Return the table of what the year came to."""
    counts = outcome.counts
    found, untouched, late = outcome.later
    rows = [
        ("memories told", f"{sum(counts.told.values()):,}"),
        *((f"  {name}", f"{n:,}") for name, n in sorted(counts.told.items())),
        *((name, f"{n:,}") for name, n in sorted(counts.done.items())),
        ("contradictions shown at most", f"{counts.contradicting:,}"),
        ("questions asked", f"{counts.asked:,}"),
        ("  found, looked after", f"{counts.found:,}"),
        ("  found, untouched", f"{counts.found_untouched:,}"),
        ("  looked after of untouched", f"{outcome.found_share:.1%}"),
        ("last quarter's, asked again at the end", f"{late:,}"),
        ("  found, looked after and untouched", f"{found:,} and {untouched:,}"),
        ("notes, and those in play", f"{outcome.notes:,} and {outcome.in_play:,}"),
        ("tokens in play", f"{outcome.tokens:,} of {outcome.untouched_tokens:,}"),
        ("  share", f"{outcome.token_share:.1%}"),
        ("texts looked for in git", f"{outcome.originals:,}"),
        ("  not found", f"{outcome.lost:,}"),
        ("pinned notes changed", f"{outcome.pinned_changed:,}"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value:>20}" for name, value in rows)


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--memories", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--rest", type=int, default=1, help="days between dreams")
    parser.add_argument("--keep", type=Path, help="where to keep the vault")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        isolate(Path(scratch))
        year = Year(Path(scratch), arguments.rest, say=True)
        print(format_outcome(year.live(arguments.memories, arguments.seed)))
        year.close()
        if arguments.keep:
            shutil.copytree(year.root, arguments.keep)


if __name__ == "__main__":
    main()
