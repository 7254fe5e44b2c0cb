"""Measure recall in languages other than English, beside SQLite FTS5's tokenizers.

    python benchmarks/languages.py FOLDER [--languages de fr es ja] [--questions FILE]
        [--json FILE]

FOLDER holds clones of the repositories in `SOURCES`; each language's pages are taken from the
commits named there and become a vault. A line of `language_questions.jsonl` has a page that answers
and the question in each language; `language_check_questions.jsonl` is another set, which lacks some
languages. FTS5 has a row for each section that vaultmem has, with the same names and text. A
page's rank is that of its best section.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path, PurePosixPath
from subprocess import run

import numpy as np
from measure import isolate
from recall_quality import judge, print_task, read_lines

from vaultmem.core.indexing.section_texts import list_texts
from vaultmem.core.notes.note import parse_note
from vaultmem.core.search.evaluation import summarise

#: The folder of a vault, the folder in FOLDER, the commit, and where a language's pages are.
SOURCES = (
    ("fastapi", "fastapi", "c3f316b7e814667e8ee81e03a7330d00ee61e45c", "docs/{}/docs"),
    (
        "opensource",
        "opensource.guide",
        "ebc9678e39b55ff5e5c8801d1960904692188e90",
        "_articles/{}",
    ),
    ("tldr", "tldr", "08e345f42639f67d99282813247ac670dc6e87cb", "pages.{}"),
)

#: Pages that are asked for.
DEPTH = 12

#: Answers a question with paths of pages, best first.
Ask = Callable[[str], list[str]]


def main() -> None:
    """Measure the languages that the command line names."""
    given = _read_arguments()
    lines = read_lines(given.questions)
    results = {}
    with tempfile.TemporaryDirectory(prefix="vaultmem-languages-") as scratch:
        isolate(Path(scratch))
        for language in given.languages:
            questions = [line for line in lines if language in line]
            if not questions:
                continue
            vault = Path(scratch, language)
            for source in SOURCES:
                extract_pages(given.folder, vault, language, *source)
            engines = {"vaultmem": open_vaultmem(vault), **open_fts5(vault)}
            values: dict[str, list[list[float]]] = {name: [] for name in engines}
            seconds = dict.fromkeys(engines, 0.0)
            for name, ask in engines.items():
                for question in questions:
                    started = time.perf_counter()
                    pages = ask(question[language])
                    seconds[name] += time.perf_counter() - started
                    values[name].append(judge(pages, [question["page"]]))
            own = np.array(values["vaultmem"])
            results[language] = {
                "questions": len(questions),
                "engines": {name: summarise(np.array(rows)) for name, rows in values.items()},
                "difference": {
                    name: summarise(own - np.array(rows))
                    for name, rows in values.items()
                    if name != "vaultmem"
                },
                "seconds": seconds,
            }
            print_task(language, results[language])
            if given.json:
                saved = {"figures": results[language], "values": values}
                with given.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({language: saved}) + "\n")


def extract_pages(
    folder: Path, vault: Path, language: str, name: str, repository: str, commit: str, pages: str
) -> None:
    """Write the pages of a language from a commit into a folder of the vault."""
    inside = pages.format(language)
    command = ["git", "-C", folder / repository, "archive", commit, inside]
    archive = run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        for member in files.getmembers():
            if member.isfile() and member.name.endswith(".md"):
                page = vault / name / PurePosixPath(member.name).relative_to(inside)
                page.parent.mkdir(parents=True, exist_ok=True)
                page.write_bytes(files.extractfile(member).read())  # type: ignore[union-attr]


def open_vaultmem(folder: Path) -> Ask:
    """Index a vault and return what asks it."""
    from vaultmem.core.search.query import parse_query
    from vaultmem.environment import open_named_vault
    from vaultmem.services.search.recall import recall
    from vaultmem.services.views.update_index import sync_vault

    vault = open_named_vault(folder)
    sync_vault(vault)

    def ask(query: str) -> list[str]:
        return [hit.record.path for hit in recall(vault, parse_query(query, DEPTH), by_note=True)]

    return ask


def open_fts5(folder: Path) -> dict[str, Ask]:
    """Return what asks a table of sections for each tokenizer, and each way to ask for trigrams."""
    rows = list(_list_sections(folder))
    tables = {name: _fill(rows, name) for name in ("unicode61", "porter unicode61", "trigram")}

    def ask(name: str, split: Callable[[str], list[str]]) -> Ask:
        def search(query: str) -> list[str]:
            wanted = " OR ".join(f'"{each}"' for each in split(query))
            sql = "SELECT path FROM sections WHERE sections MATCH ? ORDER BY bm25(sections)"
            found = tables[name].execute(sql, (wanted,)) if wanted else ()
            return list(dict.fromkeys(path for (path,) in found))[:DEPTH]

        return search

    return {
        "unicode61": ask("unicode61", _split_words),
        "porter": ask("porter unicode61", _split_words),
        "trigram, words": ask("trigram", _split_words),
        "trigram, each": ask("trigram", _split_trigrams),
    }


def _list_sections(folder: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(folder.rglob("*.md")):
        path = PurePosixPath(file.relative_to(folder).as_posix())
        for title, _, body, _ in list_texts(parse_note(path, file.read_bytes()), ""):
            yield str(path), "\n".join([*title, body])


def _fill(rows: list[tuple[str, str]], tokenizer: str) -> sqlite3.Connection:
    table = sqlite3.connect(":memory:")
    table.execute(
        f"CREATE VIRTUAL TABLE sections USING fts5(path UNINDEXED, text, tokenize='{tokenizer}')"
    )
    table.executemany("INSERT INTO sections VALUES (?, ?)", rows)
    return table


def _split_words(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\w+", text.lower())))


def _split_trigrams(text: str) -> list[str]:
    found = (word[n : n + 3] for word in _split_words(text) for n in range(len(word) - 2))
    return list(dict.fromkeys(found))


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure recall in other languages.")
    parser.add_argument("folder", type=Path, help="the folder of clones")
    parser.add_argument("--languages", nargs="+", default=["de", "fr", "es", "ja"], metavar="CODE")
    default = Path(__file__).with_name("language_questions.jsonl")
    parser.add_argument("--questions", type=Path, default=default, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append the figures to a file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
