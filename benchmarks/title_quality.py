"""Measure how often a page that is asked for by its title is first, beside plain Whoosh.

    python benchmarks/title_quality.py FOLDER [--pages 300] [--notes N] [--seed 5] [--json FILE]

Pages of the folder whose title has two to nine words and that no other title has all words of are
asked for in three ways, in turns: the words shuffled, a question around the title, a word or two
left out so that it still is this page's alone. Whoosh has title and text of whole notes as two
fields, the title five times as heavy. The folder is copied, and not changed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from baselines import list_notes
from measure import isolate
from recall_quality import describe_figure, judge
from sources import Source, describe_source, write_source

from vaultmem.core.search.evaluation import summarise

#: What Whoosh counts a word of a title for.
TITLE_WEIGHT = 5.0

DEPTH = 12

_AROUND = [
    *("how do I use {}?", "what is {}?", "where is the page about {}?"),
    *("tell me about {} please", "{} explained", "I need help with {}"),
]
_WORD = re.compile(r"[\w:+#/.&<>-]+")

Ask = Callable[[str], list[str]]


class Page(NamedTuple):
    """A question, and the page whose title it is made of."""

    question: str
    path: str


def main() -> None:
    """Measure the folder that the command line names."""
    given = _read_arguments()
    with tempfile.TemporaryDirectory(prefix="vaultmem-titles-") as scratch:
        isolate(Path(scratch))
        vault = Path(scratch) / "vault"
        write_source(Source(1, given.folder), vault)
        for note in list_notes(vault)[given.notes :]:
            note.unlink()
        print(describe_source(Source(1, given.folder), list_notes(vault)))
        titles = read_titles(vault)
        pages = choose_pages(titles, given.pages, random.Random(given.seed))
        engines = {
            "vaultmem": open_vaultmem(vault),
            "plain Whoosh": open_whoosh(vault, Path(scratch) / "whoosh", titles),
        }
        values = {name: ask_all(ask, pages) for name, ask in engines.items()}
    figures = {name: summarise(np.array(rows)) for name, rows in values.items()}
    print(f"\n{len(pages):,} pages by their titles\n")
    print("".join(f"{name:>24}" for name in ("", "recall@10", "nDCG@10", "first")))
    for name, each in figures.items():
        print("".join(f"{text:>24}" for text in (name, *map(describe_figure, each))))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def ask_all(ask: Ask, pages: Sequence[Page]) -> list[list[float]]:
    """Return recall@10, nDCG@10 and whether the page was first, for each question."""
    found = [(ask(page.question), page.path) for page in pages]
    return [[*judge(ranked, [path]), float(ranked[:1] == [path])] for ranked, path in found]


def read_titles(vault: Path) -> dict[str, str]:
    """Return the title of each note, by its path in the vault."""
    from vaultmem.core.notes.note import parse_note

    titles = {}
    for file in list_notes(vault):
        path = PurePosixPath(file.relative_to(vault))
        titles[str(path)] = parse_note(path, file.read_bytes()).title
    return titles


def choose_pages(titles: Mapping[str, str], many: int, chance: random.Random) -> list[Page]:
    """Choose pages and ask for each in one of three ways."""
    words = {path: frozenset(_split(title)) for path, title in titles.items()}
    own = [path for path in sorted(titles) if 2 <= len(words[path]) <= 9]
    own = [path for path in own if _is_alone(words[path], words)]
    pages = []
    for number, path in enumerate(chance.sample(own, min(many, len(own)))):
        parts = _WORD.findall(titles[path])
        if number % 3 == 0:
            chance.shuffle(parts)
            question = " ".join(parts)
        elif number % 3 == 1:
            question = chance.choice(_AROUND).format(titles[path])
        else:
            question = " ".join(_leave_out(parts, words, chance))
        pages.append(Page(question, path))
    return pages


def _leave_out(
    parts: Sequence[str], words: Mapping[str, frozenset[str]], chance: random.Random
) -> Sequence[str]:
    """Return a title's words without one, of over five without two, or all of them."""
    fewer = len(parts) - 1 - (len(parts) > 5)
    for _ in range(8):
        kept = [parts[n] for n in sorted(chance.sample(range(len(parts)), max(fewer, 1)))]
        found = frozenset(_split(" ".join(kept)))
        if len(found) > 1 and _is_alone(found, words):
            return kept
    return parts


def _is_alone(wanted: frozenset[str], words: Mapping[str, frozenset[str]]) -> bool:
    """Tell whether one title alone has all of some words."""
    return sum(wanted <= each for each in words.values()) == 1


def _split(text: str) -> Iterator[str]:
    from vaultmem.core.search.terms import split_words

    yield from split_words(text)


def open_vaultmem(folder: Path) -> Ask:
    """Index the vault and return what asks it."""
    from vaultmem.core.search.query import parse_query
    from vaultmem.environment import open_named_vault
    from vaultmem.services.search.recall import recall
    from vaultmem.services.views.update_index import sync_vault

    vault = open_named_vault(folder)
    sync_vault(vault)

    def ask(question: str) -> list[str]:
        hits = recall(vault, parse_query(question, DEPTH), by_note=True)
        return [hit.record.path for hit in hits]

    return ask


def open_whoosh(folder: Path, scratch: Path, titles: Mapping[str, str]) -> Ask:
    """Index titles and whole notes as Whoosh's documentation has it, stemmed."""
    from whoosh.analysis import StemmingAnalyzer
    from whoosh.fields import ID, TEXT, Schema
    from whoosh.index import create_in
    from whoosh.qparser import MultifieldParser, OrGroup

    scratch.mkdir()
    text = TEXT(analyzer=StemmingAnalyzer())
    index = create_in(str(scratch), Schema(path=ID(stored=True), title=text, body=text))
    writer = index.writer(limitmb=256)
    for path, title in titles.items():
        body = (folder / path).read_text("utf-8", errors="replace")
        writer.add_document(path=path, title=title, body=body)
    writer.commit()
    searcher = index.searcher()
    weights = {"title": TITLE_WEIGHT, "body": 1.0}
    parser = MultifieldParser(["title", "body"], index.schema, weights, group=OrGroup)

    def ask(question: str) -> list[str]:
        asked = parser.parse(" ".join(re.findall(r"\w+", question.lower())))
        return [hit["path"] for hit in searcher.search(asked, limit=DEPTH)]

    return ask


def _read_arguments() -> Any:
    parser = argparse.ArgumentParser(description="Measure how often a page asked for is first.")
    parser.add_argument("folder", type=Path, help="a folder of markdown")
    parser.add_argument("--pages", type=int, default=300, help="pages that are asked for")
    parser.add_argument("--notes", type=int, default=100_000, help="notes of the folder at most")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
