"""Evaluation questions, read from a file, and metrics of search quality.

The file is a markdown table with the columns `question` and `notes`, and optionally `at` and
`says`. Or each line is a JSON object with these names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vaultmem.core.notes.link_syntax import UNLINKABLE
from vaultmem.core.notes.sections import find_fences
from vaultmem.errors import RefusedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: The line of a table below its head (GitHub Flavored Markdown, "Tables").
_UNDER_HEAD = re.compile(r"\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?")
_BAR = re.compile(r"(?<!\\)\|")

#: Separators between note names in one cell. A wikilink can contain them, but not `[[`: each
#: unclosed `[[` would be read to the end of the cell.
_NOTE_SEPARATOR = re.compile(r"(\[\[(?:(?!\[\[).)*?\]\])|<br ?/?>|[,;]")

#: Mistakes of a file that one error lists.
_MAX_LISTED_MISTAKES = 3

_HEAD = ("| question | notes |", "|---|---|")
_LINE = '{"question": "...", "notes": ["..."]}'


class Question(NamedTuple):
    """A question, the notes that must answer it as written in the file, and its line (1-based).

    `at` is a branch, tag, commit or date to search, or empty for now. `texts` are the texts that a
    pack must contain; if empty, the pack must show the notes.
    """

    line: int
    text: str
    notes: tuple[str, ...]
    at: str = ""
    texts: tuple[str, ...] = ()


class _Table(NamedTuple):
    """A table of questions: its columns, its rows by line, first and last line (1-based)."""

    columns: list[str]
    rows: dict[int, list[str]]
    first: int
    last: int


Take = Callable[[int, str], object]


def parse_questions(text: str, name: str) -> list[Question]:
    """Return the questions of a file that is called `name`.

    Raises:
        RefusedError: there are no questions, or some lines are invalid; the message names them.
    """
    questions, mistakes = list_questions(text)
    reject_lines(name, mistakes)
    if not questions:
        raise RefusedError(
            f"{name}: there is no question in it; write a table with the head "
            f"{_HEAD[0]}, or {_LINE} on each line"
        )
    return questions


def list_questions(text: str) -> tuple[list[Question], dict[int, str]]:
    """Return the questions of a file's text, and the mistakes of other lines, by line (1-based)."""
    mistakes: dict[int, str] = {}
    read = _read_lines if _is_json(text) else _read_tables
    return list(read(text, mistakes.setdefault)), mistakes


def reject_lines(name: str, mistakes: dict[int, str]) -> None:
    """Raise an error for the invalid lines of a file, if there are any.

    Raises:
        RefusedError: some lines are invalid; the message names the first few.
    """
    if not mistakes:
        return
    texts = [f"{name}:{line}: {mistake}" for line, mistake in sorted(mistakes.items())]
    more = (
        f"; and {len(texts) - _MAX_LISTED_MISTAKES} more such lines"
        if len(texts) > _MAX_LISTED_MISTAKES
        else ""
    )
    raise RefusedError("; ".join(texts[:_MAX_LISTED_MISTAKES]) + more)


def split_notes(cell: str) -> list[str]:
    """Return the note names in a cell, separated by commas, semicolons or `<br>`."""
    return [each.strip() for each in _NOTE_SEPARATOR.split(cell) if each and each.strip()]


def add_question(text: str, question: Question, as_json: bool) -> str:
    """Return a file's text with one more question; `as_json` is the format for an empty file."""
    end = "\r" if "\r\n" in text else ""
    lines = text.removesuffix("\n").split("\n") if text.strip() else []
    if _is_json(text) if lines else as_json:
        entry = {"question": question.text, "notes": question.notes}
        return "\n".join([*lines, json.dumps(entry, ensure_ascii=False) + end, ""])
    tables = list(_find_tables(text))
    if not tables:
        lines += [f"{line}{end}" for line in (("", *_HEAD) if lines else _HEAD)]
        tables = [_Table(["question", "notes"], {}, len(lines) - 1, len(lines))]
    cells = {"question": question.text, "notes": ", ".join(map(_write_note, question.notes))}
    row = " | ".join(_escape(cells.get(column, "")) for column in tables[-1].columns)
    lines.insert(tables[-1].last, f"| {row} |{end}")
    return "\n".join([*lines, ""])


def _write_note(address: str) -> str:
    """Return an address as a link, so that commas are safe and renames can be followed."""
    path, _, heading = address.partition("#")
    if UNLINKABLE & {*path, *heading}:
        return address
    return f"[[{path.removesuffix('.md')}{'#' if heading else ''}{heading}]]"


def _escape(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")


def _is_json(text: str) -> bool:
    return text.lstrip("\ufeff \t\r\n").startswith("{")


def _read_lines(text: str, mistake: Take) -> Iterator[Question]:
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict):
            yield from _make_question(number, entry, mistake)
        else:
            mistake(number, f"not a JSON object on one line: {_LINE}")


def _make_question(line: int, entry: dict[str, Any], mistake: Take) -> Iterator[Question]:
    """Yield the question of a line or row, or report its mistake."""
    values = {name: _list_texts(entry.get(name)) for name in ("question", "notes", "at", "says")}
    for name, value in values.items():
        if value is None or (name in {"question", "at"} and len(value) > 1):
            mistake(line, f'"{name}" has to be a text{"" if name in {"question", "at"} else "s"}')
            return
    text, notes, at, texts = ([*value] for value in values.values() if value is not None)
    if not text or not notes:
        missing_name = "question" if not text else "notes"
        mistake(line, f'"{missing_name}" is empty; fill it in, or remove the line')
        return
    yield Question(line, text[0], tuple(notes), "".join(at), tuple(texts))


def _list_texts(value: Any) -> list[str] | None:
    """Return a text or a list of texts as a list without empty ones; None for other values."""
    items = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in items):
        return None
    return [each.strip() for each in items if each.strip()]


def _read_tables(text: str, mistake: Take) -> Iterator[Question]:
    for table in _find_tables(text):
        if "notes" not in table.columns:
            mistake(table.first, 'the table has no column "notes"')
            continue
        for line, cells in table.rows.items():
            if len(cells) > len(table.columns):
                problem = f"{len(cells)} cells in a table of {len(table.columns)} columns"
                mistake(line, f"{problem}; write a | that is part of a text as \\|")
                continue
            yield from _make_question(line, dict(zip(table.columns, cells, strict=False)), mistake)


def _find_tables(text: str) -> Iterator[_Table]:
    """Yield the tables with a column of questions, except those in code blocks."""
    parts, place = [], 0
    for first, last in find_fences(text, 0):
        parts += [text[place:first], re.sub(r"[^\n]", "x", text[first:last])]
        place = last
    lines = "".join([*parts, text[place:]]).removeprefix("\ufeff").split("\n")
    start = 0
    while start + 1 < len(lines):
        columns = _split_row(lines[start].lower())
        if len(columns) < 2 or not _UNDER_HEAD.fullmatch(lines[start + 1].strip()):
            start += 1
            continue
        end = start + 2
        while end < len(lines) and lines[end].strip():
            end += 1
        rows = {number + 1: _split_row(lines[number]) for number in range(start + 2, end)}
        if "question" in columns:
            yield _Table(columns, rows, start + 1, end)
        start = end


def _split_row(line: str) -> list[str]:
    cells = [cell.strip().replace("\\|", "|") for cell in _BAR.split(line.strip())]
    if len(cells) > 1 and not cells[0]:
        del cells[0]
    if len(cells) > 1 and not cells[-1]:
        del cells[-1]
    return cells


T = TypeVar("T")

#: Bootstrap samples for an interval, and the share of their means inside it.
_SAMPLES = 2_000
_CONFIDENCE_LEVEL = 0.95


class Figure(NamedTuple):
    """A mean over questions, and the bounds of its interval for other questions like these."""

    mean: float
    low: float
    high: float


def measure_share(expected_items: Collection[T], results: Container[T]) -> float:
    """Return the share of `expected_items` that is in `results`, 0 to 1."""
    return sum(each in results for each in expected_items) / len(expected_items)


def measure_recall(notes: Sequence[str], expected_notes: Collection[str], depth: int) -> float:
    """Return the share of the expected notes among the first `depth`, 0 to 1."""
    return measure_share(expected_notes, notes[:depth])


def measure_ndcg(notes: Sequence[str], expected_notes: Collection[str], depth: int) -> float:
    """Return the nDCG of the first `depth` notes: 1 if all expected notes come first.

    All expected notes are equally relevant. Source: Järvelin and Kekäläinen, "Cumulated gain-based
    evaluation of IR techniques", 2002, in the form of trec_eval's `ndcg_cut`: rank r counts 1 /
    log2(r + 1).
    """
    gains = [1 / math.log2(place + 2) for place in range(depth)]
    total_gain = sum(
        gain for note, gain in zip(notes, gains, strict=False) if note in expected_notes
    )
    return total_gain / sum(gains[: len(expected_notes)])


def summarise(values: NDArray[np.float64]) -> list[Figure]:
    """Return the mean of each column (rows are questions) with its 95 % interval.

    Bootstrap with a fixed seed (Efron, "Bootstrap methods", 1979), so equal values give equal
    figures.
    """
    import numpy as np

    chance = np.random.default_rng(0)
    samples = (chance.integers(0, len(values), len(values)) for _ in range(_SAMPLES))
    means = np.array([values[each].mean(0) for each in samples])
    ends = np.percentile(
        means, [50 * (1 - _CONFIDENCE_LEVEL), 50 * (1 + _CONFIDENCE_LEVEL)], axis=0
    )
    columns = zip(values.mean(0).tolist(), *ends.tolist(), strict=True)
    return [Figure(*(round(value, 4) for value in column)) for column in columns]
