"""Make a realistic vault of any size; the same for the same seed.

    python benchmarks/generate.py DIR --notes 10000

Notes have 50 to 300 words in paragraphs; about half have headings; most have frontmatter as
docs/reference/vault-format.md describes it; some link to others and carry inline tags. A note's
words come partly from all of English, partly from its context's own small vocabulary, as in real
notes.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from words import FUNCTION_WORDS, content_words, draw_ranks, make_vocabulary

SEED = 20_261_121

_VOCABULARY = 40_000
_TOPIC_WORDS = 400
_CHUNK = 2_000

_KINDS = ("semantic_fact", "semantic_fact", "decision", "procedural_skill", "episodic_trace")
_KINDS += ("reflection", "policy_rule")
_STATES = ("active",) * 8 + ("candidate", "stale", "archived")
_START = datetime(2025, 1, 1)


def generate_vault(folder: Path, notes: int, seed: int = SEED) -> None:
    """Write `notes` notes, MEMORY.md and USER.md into a folder."""
    vocabulary = make_vocabulary(_VOCABULARY, seed)
    rng = random.Random(seed)
    contexts = _make_contexts(vocabulary, notes, rng)
    folder.mkdir(parents=True, exist_ok=True)
    for context in contexts:
        (folder / context).mkdir(parents=True, exist_ok=True)
    titles: list[str] = []
    for number, (topic, words) in enumerate(_draw_words(vocabulary, notes, len(contexts), seed)):
        title = " ".join(content_words(words)[: rng.randint(3, 6)]).capitalize()
        text = _write_note(title, words, contexts[topic], titles, rng)
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        # Plain open() instead of Path: this runs a hundred thousand times.
        with open(f"{folder}/{contexts[topic]}/{slug}-{number}.md", "w", encoding="utf-8") as file:
            file.write(text)
        titles.append(f"{slug}-{number}")
    (folder / "MEMORY.md").write_text("# Memory\n\n" + _bullet_list(titles, rng), encoding="utf-8")
    (folder / "USER.md").write_text("# User\n\nWrites short notes in English.\n", encoding="utf-8")


def _draw_words(
    vocabulary: list[str], notes: int, topics: int, seed: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield each note's topic and words; a third of the words are of its topic."""
    rng = np.random.default_rng(seed)
    skipped = len(FUNCTION_WORDS)
    own = rng.integers(skipped, len(vocabulary), (topics, _TOPIC_WORDS))
    table = np.array(vocabulary, dtype=object)
    for start in range(0, notes, _CHUNK):
        size = min(_CHUNK, notes - start)
        lengths = rng.integers(50, 301, size)
        topic = rng.integers(0, topics, size)
        ranks = _mix_topics(rng, own, np.repeat(topic, lengths), len(vocabulary), skipped)
        words = table[ranks].tolist()
        ends = np.cumsum(lengths).tolist()
        for number, end in enumerate(ends):
            yield int(topic[number]), words[end - int(lengths[number]) : end]


def _mix_topics(
    rng: np.random.Generator,
    own: NDArray[np.int64],
    topic: NDArray[np.int64],
    size: int,
    skipped: int,
) -> NDArray[np.int64]:
    count = len(topic)
    general = draw_ranks(rng, count, size)
    special = own[topic, draw_ranks(rng, count, _TOPIC_WORDS)]
    mixed = (general >= skipped) & (rng.random(count) < 0.5)
    return np.where(mixed, special, general)


def _make_contexts(vocabulary: list[str], notes: int, rng: random.Random) -> list[str]:
    """Return folders: most under notes/, some nested, some reference material, one loose."""
    count = max(8, min(60, notes // 100))
    names = rng.sample(vocabulary[len(FUNCTION_WORDS) : 4_000], count)
    nested = [f"notes/{a}/{b}" for a, b in zip(names[::5], names[1::5], strict=False)]
    primed = [f"primed/{name}" for name in names[2::9]]
    return list(dict.fromkeys([*(f"notes/{name}" for name in names), *nested, *primed, "inbox"]))


def _write_note(
    title: str, words: list[str], context: str, titles: list[str], rng: random.Random
) -> str:
    parts = [_write_frontmatter(title, context, titles, rng)] if rng.random() < 0.85 else []
    if rng.random() < 0.4:
        parts.append(f"# {title}\n\n")
    headings = rng.choice((0, 0, 0, 1, 2, 3)) if len(words) > 100 else 0
    step = len(words) // (headings + 1) + 1
    for start in range(0, len(words), step):
        if start:
            heading = " ".join(words[start + 1 : start + 4])
            parts.append(f"## {heading.capitalize()}\n\n")
        parts.append(_write_paragraphs(words[start : start + step], context, titles, rng))
    return "".join(parts)


def _write_paragraphs(words: list[str], context: str, titles: list[str], rng: random.Random) -> str:
    lines: list[str] = []
    start = 0
    while start < len(words):
        length = rng.randint(7, 22)
        sentence = " ".join(words[start : start + length])
        start += length
        chance = rng.random()
        if chance < 0.06 and titles:
            sentence += f", see [[{rng.choice(titles)}]]"
        elif chance < 0.09:
            sentence += f" #{context.rpartition('/')[2]}/{words[0]}"
        elif chance < 0.12:
            sentence += f" (`{words[0]}_{words[-1]}()`, {rng.randint(2, 900)} ms)"
        mark = "- " if chance > 0.9 else ""
        lines.append(f"{mark}{sentence[:1].upper()}{sentence[1:]}." + "\n" * rng.randint(1, 2))
    return "".join(lines) + "\n"


def _write_frontmatter(title: str, context: str, titles: list[str], rng: random.Random) -> str:
    created = _START + timedelta(minutes=rng.randrange(900_000))
    lines = ["---", f"title: {title}"] if rng.random() < 0.6 else ["---"]
    if rng.random() < 0.7:
        topic = context.rpartition("/")[2]
        lines += ["tags:", f"  - {topic}", f"  - {topic}/{title.split()[-1].lower()}"]
    lines += [f"kind: {rng.choice(_KINDS)}", f"state: {rng.choice(_STATES)}"]
    if rng.random() < 0.5:
        lines += [f"confidence: {rng.randint(50, 100) / 100}", "source: agent", "agent: claude"]
        lines += [f"session: s-{rng.randrange(2_000):04}"]
    if rng.random() < 0.1 and titles:
        lines += ["parents:", f'  - "[[{rng.choice(titles)}]]"']
    if rng.random() < 0.05:
        lines += [f"reviewed-by: {title.split()[0].lower()}"]
    lines += [f"created: {created.isoformat()}", f"updated: {created.isoformat()}", "---"]
    return "\n".join(lines) + "\n"


def _bullet_list(titles: list[str], rng: random.Random) -> str:
    chosen = rng.sample(titles, min(12, len(titles)))
    return "".join(f"- Remember [[{title}]].\n" for title in chosen)


def main() -> None:
    """Write a vault from the command line."""
    parser = argparse.ArgumentParser(description="Write a made-up vault.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--notes", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    started = time.perf_counter()
    generate_vault(given.folder, given.notes, given.seed)
    print(f"{given.notes:,} notes in {given.folder}, {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
