"""Questions that the notes of a folder answer; the same for the same seed and folder."""

from __future__ import annotations

import random
import re
from pathlib import Path

from words import content_words


def make_queries(folder: Path, count: int, seed: int) -> list[str]:
    """Return up to `count` different questions of 2 to 6 words.

    Half are words of one passage as they stand, stop words included, as people ask; half are
    words picked all over a note without stop words, as agents ask.
    """
    rng = random.Random(seed)
    files = sorted(folder.rglob("*.md"))
    queries: dict[str, None] = {}
    for _ in range(count * 20):
        if len(queries) == count or not files:
            break
        query = _ask_note(_prose_words(rng.choice(files)), rng)
        if query:
            queries[query] = None
    return list(queries)


def _ask_note(words: list[str], rng: random.Random) -> str:
    content = content_words(words)
    length = rng.randint(2, 6)
    if len(content) < 8:
        return ""
    if rng.random() < 0.5:
        return " ".join(rng.sample(content, length))
    start = rng.randrange(max(len(words) - length, 1))
    passage = words[start : start + length]
    meaningful = [word for word in content_words(passage) if word in content]
    return " ".join(passage) if meaningful else ""


def _prose_words(file: Path) -> list[str]:
    """Return a note's words in order, its frontmatter left out."""
    text = file.read_text(encoding="utf-8", errors="replace").lower()
    if text.startswith("---") and "\n---" in text:
        text = text.split("\n---", 1)[1]
    return re.findall(r"[^\W\d_]+", text)
