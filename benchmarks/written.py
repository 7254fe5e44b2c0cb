"""Have agents write a vault for eight months, and measure what a person finds in its notes.

    python benchmarks/written.py                  # 200 memories, 10 sessions
    python benchmarks/written.py --keep DIR       # keep the vault as it is after the dream
    python benchmarks/written.py --obsidian --picture docs/pictures/written.png

The memories are sentences of sample-vault, each told by an agent in the folder that it is from.
They are told in sessions, two days apart. For twelve days some of it is asked for, a dream promotes
what came up most, and half a year later compaction takes what nobody asked for. Time is the vault's
own clock.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from measure import isolate
from written_picture import take_picture

from vaultmem.core.lifecycle import Kind
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.similarity.statement import split_sentences
from vaultmem.core.text.token_count import count_tokens
from vaultmem.services.curation.compact import compact
from vaultmem.services.curation.dream import dream
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.search.run_query import Ask, run_query
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.close import close_session
from vaultmem.services.sessions.edit_session import act_in, add_detail, decide, summarize
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault, open_vault

DAY = 86_400
START = 1_767_603_600.0  # 5 January 2026, nine in the morning, UTC.

SAMPLE = Path(__file__).parents[1] / "sample-vault"


@dataclass
class Clock:
    """The vault's time, in seconds since the epoch."""

    at: float = START

    def __call__(self) -> float:
        return self.at


class Fact(NamedTuple):
    """A sentence that is told, and the folder that it is from."""

    context: str
    text: str


class Lengths(NamedTuple):
    """What a note's file has: bytes of frontmatter and of text, and how many properties."""

    name: int
    frontmatter: int
    body: int
    properties: int


def read_facts(folder: Path = SAMPLE) -> list[Fact]:
    """Return the sentences of a vault's notes that stand by themselves, each once."""
    found: dict[str, Fact] = {}
    for file in sorted(folder.glob("notes/**/*.md")):
        path = PurePosixPath(file.relative_to(folder))
        note = parse_note(path, file.read_bytes())
        for section in note.sections:
            for sentence in split_sentences(note.section_text(section)):
                words = " ".join(sentence.split())
                if 40 <= len(words) <= 220 and words[0].isupper() and words.endswith("."):
                    found[words] = Fact(str(path.parent.relative_to("notes")), words)
    return list(found.values())


def write_vault(vault: Vault, clock: Clock, facts: Sequence[Fact], sessions: int = 10) -> None:
    """Let agents tell the facts, a few a day, some in sessions, and look after the vault since."""
    each = max(1, len(facts) // sessions)
    for number in range(sessions):
        told = facts[number * each : (number + 1) * each]
        if told:
            _live_session(vault, clock, told)
        clock.at += 2 * DAY
    for _ in range(12):
        for fact in facts[:: max(1, len(facts) // 24)]:
            words = fact.text.rstrip(".").split()
            for question in (" ".join(words[:8]), " ".join(words[-8:])):
                run_query(vault, Ask(question, 3, counts=True))
                clock.at += 60
        clock.at += DAY
    dream(vault)


def let_it_rest(vault: Vault, clock: Clock) -> None:
    """Let half a year pass, in which nobody asks, and compact."""
    clock.at += 180 * DAY
    sync_vault(vault)
    compact(vault)


def _live_session(vault: Vault, clock: Clock, facts: Sequence[Fact]) -> None:
    """Tell facts in one session: two are decisions, and the first is what it was about."""
    goal = " ".join(facts[0].text.rstrip(".").split()[:7])
    session = start_session(vault, NewSession(goal=goal)).session.facts.id
    inside = act_in(vault, session)
    for number, (context, text) in enumerate(facts):
        clock.at += 600
        if number in {3, 7}:
            decide(vault, session, Memory(text, context=context))
        else:
            kind = Kind.EPISODIC_TRACE if number % 9 == 8 else Kind.SEMANTIC_FACT
            remember(inside, Memory(text, context=context, kind=kind))
    add_detail(vault, session, "Read the notes of the folder first.")
    summarize(vault, session, f"Wrote down {len(facts)} things. {facts[0].text}")
    close_session(vault, session)


def measure_notes(root: Path) -> dict[str, list[Lengths]]:
    """Return the lengths of the notes of each folder at the vault's root."""
    found: dict[str, list[Lengths]] = {}
    for path, note in _read_notes(root):
        matter = note.matter
        front = len(note.text[: matter.body].encode())
        body = len(note.text[matter.body :].encode())
        lengths = Lengths(len(path.stem), front, body, len(matter.properties))
        found.setdefault(path.parts[0], []).append(lengths)
    return found


def count_properties(root: Path) -> Counter[str]:
    """Return what the lines of each property take of the notes, in bytes."""
    found: Counter[str] = Counter()
    for _, note in _read_notes(root):
        lines = note.text[note.matter.start : note.matter.end].splitlines(keepends=True)
        for prop in note.matter.properties:
            found[prop.name] += len("".join(lines[prop.first : prop.last]).encode())
    return found


def _read_notes(root: Path) -> Iterator[tuple[PurePosixPath, Note]]:
    for folder in ("notes", "sessions"):
        for file in sorted(root.glob(f"{folder}/**/*.md")):
            path = PurePosixPath(file.relative_to(root))
            yield path, parse_note(path, file.read_bytes())


def format_table(root: Path) -> str:
    """Return the lengths of a vault's notes, and what their properties take."""
    rows = [("", "notes", "frontmatter", "text", "ratio", "name", "properties")]
    groups = measure_notes(root)
    for name, notes in [*groups.items(), ("all", [each for g in groups.values() for each in g])]:
        front, body = sum(n.frontmatter for n in notes), sum(n.body for n in notes)
        means = [statistics.mean(values) for values in zip(*notes, strict=True)]
        shown = (f"{front:,}", f"{body:,}", f"{front / body:.2f}", f"{means[0]:.0f}")
        rows.append((name, f"{len(notes)}", *shown, f"{means[3]:.1f}"))
    lines = [f"{row[0]:<10}" + "".join(f"{cell:>13}" for cell in row[1:]) for row in rows]
    lines += ["", "bytes by property"]
    lines += [f"  {name:<18}{size:>8,}" for name, size in count_properties(root).most_common()]
    return "\n".join(lines)


def format_bullets(root: Path) -> str:
    """Return how long the lines are that a dream wrote, and the first of them."""
    bullets = [
        line
        for line in (root / "MEMORY.md").read_text("utf-8").splitlines()
        if line.startswith("- ") and line.endswith("]]")
    ]
    tokens = sum(map(count_tokens, bullets))
    cut = sum(" ..." in each for each in bullets)
    told = f"lines of the dream: {len(bullets)}, {tokens} tokens, {cut} cut off"
    return "\n".join([told, *(f"  {each}" for each in bullets[:3])])


def main() -> None:
    """Write the vault, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--memories", type=int, default=200)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--obsidian", action="store_true", help="in a vault of Obsidian's")
    parser.add_argument("--keep", type=Path, help="where to keep the vault")
    parser.add_argument("--picture", type=Path, help="a PNG of folder, properties and graph")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        isolate(Path(scratch))
        root, clock = Path(scratch) / "vault", Clock()
        (root / ".obsidian" if given.obsidian else root).mkdir(parents=True)
        create_vault(root).vault.close()
        vault = open_vault(root, agent="claude", now=clock)
        sync_vault(vault)
        write_vault(vault, clock, read_facts()[: given.memories], given.sessions)
        print(f"after the dream\n\n{format_table(root)}\n{format_bullets(root)}\n")
        if given.keep:
            shutil.copytree(root, given.keep)
        if given.picture:
            take_picture(vault, given.picture)
        let_it_rest(vault, clock)
        print(f"half a year and a compaction later\n\n{format_table(root)}\n{format_bullets(root)}")
        vault.close()


if __name__ == "__main__":
    main()
