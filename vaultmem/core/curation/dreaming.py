"""Measure how strongly a note should be promoted, from five measures of how it was recalled.

Each is from 0 to 1; the score is their weighted mean. With n calls in which the note surfaced:

- frequency = ln(1 + n) / ln(1 + 12), at most 1: each further call counts less;
- relevance = mean of 1 / log2(1 + rank) over the calls, the discount of DCG (Järvelin and
  Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002);
- recency = 2 ** (-days since the last call / 14): it halves every two weeks;
- diversity = different queries / 5, at most 1: word order, inflection and stop words do not count;
- consolidation = (different days - 1) / 4, at most 1: recall on several days counts more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from vaultmem.core.search.terms import term_sequence
from vaultmem.core.transcripts.event import split_prose

_FULL_FREQUENCY_CALLS = 12
_HALF_LIFE_DAYS = 14.0
_QUESTIONS = 5
_DAYS = 5


class NoteHit(NamedTuple):
    """A call that returned a note: time (seconds since the epoch), query, and the note's rank."""

    at: float
    query: str
    rank: int


class Weights(NamedTuple):
    """The weight of each measure; only their proportions matter."""

    frequency: float
    relevance: float
    recency: float
    diversity: float
    consolidation: float


class PromotionThresholds(NamedTuple):
    """The minimum values for promotion."""

    recalls: int
    queries: int
    score: float


class PromotionScore(NamedTuple):
    """A note's measures (each 0 to 1), their weighted mean, and their counts."""

    score: float = 0.0
    frequency: float = 0.0
    relevance: float = 0.0
    recency: float = 0.0
    diversity: float = 0.0
    consolidation: float = 0.0
    recalls: int = 0
    queries: int = 0
    days: int = 0

    def find_gate(self, gates: PromotionThresholds) -> str:
        """Return the first gate that the note does not pass, or ""."""
        if self.recalls < gates.recalls:
            return f"recalled {self.recalls} of {gates.recalls} times"
        if self.queries < gates.queries:
            return f"{self.queries} of {gates.queries} different questions"
        if self.score < gates.score:
            return f"scores below {gates.score:g}"
        return ""


def measure_strength(surfacings: Iterable[NoteHit], now: float, weights: Weights) -> PromotionScore:
    """Return a note's strength at the time `now`; later calls are ignored."""
    calls = _join_calls(each for each in surfacings if each.at <= now)
    if not calls:
        return PromotionScore()
    questions = {key for call in calls if (key := build_query_key(call.query))}
    days = {datetime.fromtimestamp(call.at).date() for call in calls}
    idle = (now - max(call.at for call in calls)) / 86_400
    measures = {
        "frequency": min(1.0, math.log(1 + len(calls)) / math.log(1 + _FULL_FREQUENCY_CALLS)),
        "relevance": sum(1 / math.log2(1 + call.rank) for call in calls) / len(calls),
        "recency": 2 ** (-idle / _HALF_LIFE_DAYS),
        "diversity": min(1.0, len(questions) / _QUESTIONS),
        "consolidation": min(1.0, (len(days) - 1) / (_DAYS - 1)),
    }
    total = sum(getattr(weights, name) for name in measures) or 1.0
    score = sum(value * getattr(weights, name) for name, value in measures.items()) / total
    rounded = {name: round(value, 4) for name, value in measures.items()}
    return PromotionScore(
        round(score, 4), **rounded, recalls=len(calls), queries=len(questions), days=len(days)
    )


def build_query_key(query: str) -> tuple[str, ...]:
    """Return a key that is equal for equivalent queries: their sorted terms."""
    return tuple(sorted(set(term_sequence(query)))) or tuple(query.split())


def _join_calls(surfacings: Iterable[NoteHit]) -> Sequence[NoteHit]:
    """Return each call once, with the best rank of the note's sections."""
    best: dict[tuple[float, str], NoteHit] = {}
    for each in surfacings:
        best_surfacing = best.get((each.at, each.query))
        if best_surfacing is None or each.rank < best_surfacing.rank:
            best[each.at, each.query] = each
    return list(best.values())


#: Smallest share of a sentence's terms in one paragraph that counts as a repetition, and fewest
#: terms of a sentence.
_MIN_REPEATED_SHARE, _MIN_SENTENCE_TERMS = 0.75, 4


def is_used(path: str, text: str, paragraphs: Iterable[str]) -> bool:
    """Return whether a paragraph names a note, or repeats a sentence of it.

    A note is named by a link or by its path; `text` is its body.
    """
    bare = path.removesuffix(".md")
    name = bare.rpartition("/")[2]
    marks = (f"[[{name}]]", f"[[{name}|", f"[[{name}#", *([bare] if bare != name else []))
    sentences = [set(term_sequence(each)) for each in split_prose(text)]
    sentences = [each for each in sentences if len(each) >= _MIN_SENTENCE_TERMS]
    for paragraph in paragraphs:
        if any(mark in paragraph for mark in marks):
            return True
        terms = set(term_sequence(paragraph))
        if any(len(each & terms) >= _MIN_REPEATED_SHARE * len(each) for each in sentences):
            return True
    return False
