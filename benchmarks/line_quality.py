"""Measure how often the line that `recall` shows of a hit is a sentence with a query word.

    python benchmarks/line_quality.py FOLDER... [--queries 100] [--seed 5] [--json FILE]

The questions come from notes with a picture, HTML, a line of tags or an abbreviation, as many from
each folder if it has them (name the smallest first): in turns the title of such a note, and three
of its words that few notes have. The first ten hits of each count. Beside the line of vaultmem is
the one of a plain rule: cut at each full stop and line break, and take the part with most of the
words. The folders are copied, and not changed.

A line is a sentence if it is whole (nothing of its sentence is before or after it, except where
"..." says so), has three words besides pictures, HTML and tags, and is no heading, row of a table
or code.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from baselines import list_notes
from measure import isolate
from sources import Source, describe_source, write_source

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.core.search.query import Hit
    from vaultmem.vault import Vault

#: Hits of a question that are looked at.
DEPTH = 10

#: Characters of a line, as in a terminal.
WIDTH = 100

#: What a note has that questions are made of.
_CONTENT = re.compile(
    r"!\[|^[ \t]*<[a-z]|^[ \t]*(?:#[^\W\d][\w/-]*[ \t]*)+$"
    r"|\b(?:Dr|Mr|Mrs|Ms|Prof|St|No|vs|etc|approx|e\.g|i\.e|z\.B|p\.ej|[A-Z])\.[ \t]",
    re.MULTILINE,
)
_WORD = re.compile(r"[A-Za-z]{4,}")
_LINK = re.compile(r"https?://\S+|<[^<>]*>|\]\([^()]*\)")

#: What is no word of a line; what makes it none that is read as a sentence.
_DECORATION = re.compile(r"!\[[^\]]*\](?:\([^()]*\))?|<[^<>]*>|(?<!\S)#[^\W\d][\w/-]*|https?://\S+")
_NO_SENTENCE = re.compile(r"\s*(?:<[/A-Za-z!]|#{1,6}\s|\||`{3}|~{3}|\[!\[)|\s*\*\*[^*]+\*\*\s*$")

_QUOTE = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
_END = re.compile(r"[.!?:;。！？…][\"'”’)\]*_`]*$")
_NO_END = re.compile(
    r"(?:^|[\s(\[\"'*_])(?:\w|\d+|[a-z]\.[a-z]|p\.ej|dr|dra|mr|mrs|ms|prof|rev|gen|sen|rep|gov|capt"
    r"|col|lt|sgt|hon|pres|st|no|nos|nr|vs|cf|ca|al|ed|eds|vol|fig|figs|sec|ch|pp|eq|ref|approx|est"
    r"|dept|univ|inc|ltd|co|corp|bros|jr|sr|ave|rd|blvd|mt|ft|jan|feb|mar|apr|jun|jul|aug|sep|sept"
    r"|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|bzw|usw|evtl|ggf|sog|vgl|bspw|hr|fr|str|abs|mme|mlle"
    r"|sra|srta|sig|dott|av|pag|núm|tel|incl|excl|max|min|viz|resp)\.$",
    re.IGNORECASE,
)

Choose = Callable[["Hit"], str]


class Found(NamedTuple):
    """A hit, and the text that its line may come from: its section's, else its note's."""

    hit: Hit
    text: str


class Tally(NamedTuple):
    """How many hits there were, and of how many the line is a sentence, has a word, or both."""

    hits: int = 0
    sentence: int = 0
    word: int = 0
    both: int = 0


def main() -> None:
    """Measure the folders that the command line names."""
    given = _read_arguments()
    rules: dict[str, Choose] = {"vaultmem": _show_line, "cut at full stops": cut_at_marks}
    counts = {name: Tally() for name in rules}
    examples: list[dict[str, str]] = []
    left = given.queries
    for number, folder in enumerate(given.folders):
        many = -(-left // (len(given.folders) - number))
        with tempfile.TemporaryDirectory(prefix="vaultmem-lines-") as scratch:
            isolate(Path(scratch))
            vault = Path(scratch) / "vault"
            write_source(Source(1, folder), vault)
            print(describe_source(Source(1, folder), list_notes(vault)))
            questions = choose_questions(vault, many, random.Random(given.seed))
            hits = list(_ask_all(vault, questions))
        left -= len(questions)
        own = {name: _count(hits, choose) for name, choose in rules.items()}
        print_counts(own, len(questions))
        examples += _list_examples(hits, rules)
        counts = {name: Tally(*map(sum, zip(counts[name], own[name], strict=True))) for name in own}
    print("all")
    print_counts(counts, given.queries - left)
    if given.json:
        made = {"counts": {name: each._asdict() for name, each in counts.items()}, "hits": examples}
        given.json.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")


def choose_questions(vault: Path, many: int, chance: random.Random) -> list[str]:
    """Return questions from notes with pictures, HTML, tags or abbreviations."""
    notes = [note for file in list_notes(vault) if (note := _read(vault, file)) is not None]
    words = {note.path: _list_words(note) for note in notes}
    often = Counter(word for each in words.values() for word in each)
    few = max(len(notes) // 20, 3)
    asked = [note for note in notes if _CONTENT.search(note.body)]
    questions = []
    for number, note in enumerate(chance.sample(asked, min(many, len(asked)))):
        rare = sorted(word for word in words[note.path] if often[word] <= few)
        if number % 2 and len(rare) > 2:
            questions.append(" ".join(chance.sample(rare, 3)))
        else:
            questions.append(note.title)
    return questions


def cut_at_marks(hit: Hit) -> str:
    """Return the part between two full stops or line breaks that has most of the terms."""
    from vaultmem.core.search.terms import count_terms

    terms = {match.term for match in hit.matches}
    parts = re.split(r"(?<=[.!?。！？])\s+|\n+", hit.text)[:400]
    parts = [" ".join(part.split()) for part in parts if part.strip()] or [""]
    best = max(parts, key=lambda part: len(count_terms(part).keys() & terms))
    return best if len(best) <= WIDTH else best[:WIDTH].rsplit(" ", 1)[0] + " ..."


def is_sentence(line: str, text: str) -> bool:
    """Tell whether a line of a text is a whole sentence or list item that says something."""
    if _NO_SENTENCE.match(line) or len(re.findall(r"[^\W_]+", _DECORATION.sub(" ", line))) < 3:
        return False
    core, text = _drop_marks(line.removeprefix("... ").removesuffix(" ...")), _drop_marks(text)
    found = re.search(r"\s+".join(map(re.escape, core.split())), text)
    if found is None:
        return False
    before, after = text[: found.start()], text[found.end() :]
    if before.count("```") % 2:
        return False
    goes_on = re.match(r"[ \t]*\n?[ \t]*(\S)", after)
    is_begun = line.startswith("... ") or _is_end(before) or before.endswith(("\n", "\n- ", "\n* "))
    is_ended = line.endswith(" ...") or _is_end(core) or not goes_on or not goes_on[1].islower()
    is_cut = not after.startswith(("\n", "\r")) and after.strip() and not _is_end(core)
    return bool(is_begun and is_ended and (line.endswith(" ...") or not is_cut))


def _drop_marks(text: str) -> str:
    """Return a text without marks of quotes, targets of links and brackets."""
    return re.sub(r"\]\([^()\s]*\)|[\[\]]", "", _QUOTE.sub("", text))


def _is_end(text: str) -> bool:
    text = text.rstrip()[-200:]
    return not text or (_END.search(text) is not None and not _NO_END.search(text))


def _show_line(hit: Hit) -> str:
    from vaultmem.core.packs.passages import show_line

    return show_line(hit, WIDTH)


def _count(hits: Sequence[Found], choose: Choose) -> Tally:
    from vaultmem.core.search.terms import count_terms

    rows = []
    for hit, text in hits:
        line = choose(hit)
        terms = {match.term for match in hit.matches}
        told = is_sentence(line, text), bool(count_terms(line).keys() & terms)
        rows.append((1, *told, all(told)))
    return Tally(*map(sum, zip(*rows, strict=True)))


def _list_examples(hits: Sequence[Found], rules: dict[str, Choose]) -> Iterator[dict[str, str]]:
    for hit, _ in hits:
        lines = {name: choose(hit) for name, choose in rules.items()}
        yield {"hit": hit.address, "terms": " ".join(m.term for m in hit.matches), **lines}


def print_counts(counts: dict[str, Tally], questions: int) -> None:
    """Print the shares of a folder."""
    hits = next(iter(counts.values())).hits
    print(f"  {questions} questions, {hits} hits")
    print("".join(f"{text:>20}" for text in ("", "sentence", "query word", "both")))
    for name, each in counts.items():
        shares = [f"{part / (hits or 1):.1%}" for part in each[1:]]
        print("".join(f"{text:>20}" for text in (name, *shares)))


def _ask_all(folder: Path, questions: Sequence[str]) -> Iterator[Found]:
    from vaultmem.core.search.query import parse_query
    from vaultmem.environment import open_named_vault
    from vaultmem.services.search.annotations import add_shown_lines
    from vaultmem.services.search.recall import recall
    from vaultmem.services.search.search import list_sections
    from vaultmem.services.views.update_index import sync_vault

    vault: Vault = open_named_vault(folder)
    sync_vault(vault)
    for question in questions:
        found = recall(vault, parse_query(question, DEPTH), by_note=True)
        for hit in add_shown_lines(vault, found):
            sections = list_sections(vault, [hit.record]) if hit.shown_line else [hit]
            yield Found(hit, "\n\n".join(each.text for each in sections))


def _read(vault: Path, file: Path) -> Note | None:
    from vaultmem.core.notes.note import UnreadableNoteError, parse_note

    try:
        return parse_note(PurePosixPath(file.relative_to(vault)), file.read_bytes())
    except UnreadableNoteError:
        return None


def _list_words(note: Note) -> set[str]:
    return {word.lower() for word in _WORD.findall(_LINK.sub(" ", note.visible_body))}


def _read_arguments() -> Any:
    parser = argparse.ArgumentParser(description="Measure the line that is shown of a hit.")
    parser.add_argument("folders", type=Path, nargs="+", help="folders of markdown")
    parser.add_argument("--queries", type=int, default=100, help="questions in all")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and lines")
    return parser.parse_args()


if __name__ == "__main__":
    main()
