"""Rows on finding: questions in a process that is warm."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from baselines import Fts5, PlainWhoosh, find_ripgrep, search_ripgrep
from indexing import Bench, whoosh_label
from measure import Row, percentile

if TYPE_CHECKING:
    from vaultmem.vault import Vault

_RIPGREP_QUERIES = 15


def measure_recall(bench: Bench, vault: Vault) -> list[Row]:
    """Ask questions of vaultmem and another engine in turns; the warm-up asks other questions.

    Each pair has questions of its own: of three engines, two would find the processor's caches
    full of the third's data.
    The others get the words that vaultmem keeps: they know fewer stop words or none, and a
    question with "the" would make them look at every note.
    """
    from vaultmem.core.search.query import parse_query
    from vaultmem.services.search.recall import recall

    table, index = Fts5(bench.database), PlainWhoosh(bench.whoosh)

    def ours(query: str) -> None:
        recall(vault, parse_query(query))

    warm = len(bench.queries) // 5
    fts5 = {"vaultmem": ours, "SQLite FTS5": lambda query: table.search(content_of(query))}
    _ask_in_turns(fts5, bench.queries[:warm])
    beside_fts5 = _ask_in_turns(fts5, bench.queries[warm : -2 * warm])
    whoosh = {"vaultmem": ours, "plain Whoosh": lambda query: index.search(content_of(query))}
    _ask_in_turns(whoosh, bench.queries[-2 * warm : -warm])
    beside_whoosh = _ask_in_turns(whoosh, bench.queries[-warm:])
    table.close()
    index.close()
    rows = [
        _row("warm recall, median", beside_fts5, "SQLite FTS5", 0.5),
        _row("warm recall, 95 of 100", beside_fts5, "SQLite FTS5", 0.95),
        _row("warm recall, median", beside_whoosh, "plain Whoosh", 0.5, whoosh_label(bench)),
    ]
    return rows + _measure_ripgrep(bench, ours, warm)


def content_of(query: str) -> list[str]:
    """Return a question's words without stop words."""
    from vaultmem.core.languages import read_words
    from vaultmem.core.search.terms import split_words

    return [word for word in split_words(query) if word not in read_words("stop_words")]


def _measure_ripgrep(bench: Bench, ours: Callable[[str], object], warm: int) -> list[Row]:
    program = find_ripgrep()
    if program is None:
        return []

    def search(query: str) -> None:
        search_ripgrep(program, bench.vault, content_of(query))

    queries = bench.queries[warm : warm + _RIPGREP_QUERIES]
    taken = _ask_in_turns({"vaultmem": ours, "ripgrep (process)": search}, queries)
    return [_row("recall, asked again", taken, "ripgrep (process)", 0.5)]


def _ask_in_turns(
    engines: dict[str, Callable[[str], object]], queries: list[str]
) -> dict[str, list[float]]:
    """Return the milliseconds of each engine's answers, question by question.

    Another one begins each time.
    """
    taken: dict[str, list[float]] = {name: [] for name in engines}
    names = list(engines)
    for number, query in enumerate(queries):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            started = time.perf_counter()
            engines[name](query)
            taken[name].append((time.perf_counter() - started) * 1_000)
    return taken


def _row(
    what: str, taken: dict[str, list[float]], versus: str, share: float, label: str = ""
) -> Row:
    ours, theirs = taken["vaultmem"], taken[versus]
    both = {"vaultmem": ours, versus: theirs}
    if share == 0.5:
        figures = statistics.median(ours), statistics.median(theirs)
    else:
        figures = percentile(ours, share), percentile(theirs, share)
    return Row(what, "ms", figures[0], label or versus, figures[1], both)
