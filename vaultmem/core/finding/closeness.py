"""What the order of a section's terms adds to its score: closeness, its title, its best passage.

Closeness: query terms that stand side by side in title, tags or body add 0.6 of the smaller idf
of each pair (T. Tao, C. Zhai, "An Exploration of Proximity Measures in Information Retrieval",
2007, measures why), the whole query as a phrase another 0.3 of all idf.

Titles: one that has all words of the question and no others adds all idf once more, else times
the share of its words that the question has, and the share of the question's idf that it has to
the power of four: a long message that has one word of a title in common is not about that title.

Passages: a section much longer than a passage is scored half as a whole and half by its best
passage, as if that were a section of its own under the same title (J. Callan, "Passage-Level
Evidence in Document Retrieval", 1994).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.finding.eligible import sort_distinct
from vaultmem.core.finding.weights import RankingWeights

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


class Sequences(NamedTuple):
    """The places of some sections' terms: title, one place of none, tags, another, body.

    `marks` has all sections' places: 1 for the first of the query's terms and so on, 0 for any
    other. `starts` says where each section begins and the last ends; `title` and `tags` are the
    terms of these fields in each section.
    """

    marks: NDArray[np.unsignedinteger[Any]]
    starts: Numbers
    title: Numbers
    tags: Numbers


class Occurrences(NamedTuple):
    """Where query terms stand: place in `Sequences.marks`, section, and number of the term."""

    place: Numbers
    section: Numbers
    term: Numbers


def measure_order(
    sequences: Sequences,
    query: Sequence[int],
    idf: Floats,
    words: NDArray[np.float32],
    said: NDArray[np.bool_],
    norm: tuple[float, float, float],
    weights: RankingWeights,
) -> tuple[Floats, Floats, Floats]:
    """Return closeness, what the best passage adds, and what a title or speaker that is named does.

    `query` are the terms in the order of the question, as places in `idf`; `words` is what the
    sections score by words, and `said` which of them somebody said whom the question names. `norm`
    is k1, b and the mean length.
    """
    found = find_occurrences(sequences)
    close = measure_closeness(found, len(words), query, idf, weights)
    named = measure_titles(sequences, found, idf, weights)
    passage = measure_passages(sequences, found, idf * (norm[0] + 1), norm, weights)
    named = named + weights.speaker * (words + close + passage) * said
    return close, passage, named


def find_occurrences(sequences: Sequences) -> Occurrences:
    """Find where the query's terms stand."""
    place = sequences.marks.nonzero()[0]
    term = sequences.marks[place].astype(np.int64) - 1
    return Occurrences(place, sequences.starts.searchsorted(place, "right") - 1, term)


def measure_closeness(
    found: Occurrences, count: int, query: Sequence[int], idf: Floats, weights: RankingWeights
) -> Floats:
    """Return what the order of words adds to each of `count` sections.

    `query` are the terms in the order of the question, as places in `idf`.
    """
    bonus = np.zeros(count)
    many = len(idf)
    wanted = [(a, b) for a, b in pairwise(query) if a != b]
    if not wanted:
        return bonus
    gains = np.zeros((many, many))
    for a, b in wanted:
        gains[a, b] = weights.pair * min(idf[a], idf[b])
    first, second = found.term[:-1], found.term[1:]
    beside = (
        (found.place[1:] - found.place[:-1] == 1)
        & (found.section[1:] == found.section[:-1])
        & (gains[first, second] > 0)
    ).nonzero()[0]
    if not len(beside):
        return bonus
    pairs = first[beside] * many + second[beside]
    keys = sort_distinct(found.section[beside] * (many * many) + pairs)
    sections, pairs = np.divmod(keys, many * many)
    bonus += np.bincount(sections, gains.ravel()[pairs], count)
    complete = np.flatnonzero(np.bincount(sections, minlength=count) == len(set(wanted)))
    for section in complete:
        if _has_phrase(found, int(section), query):
            bonus[section] += weights.phrase * sum(idf[term] for term in query)
    return bonus


def measure_titles(
    sequences: Sequences, found: Occurrences, idf: Floats, weights: RankingWeights
) -> Floats:
    """Return what each section's title adds that has the question's words and few others."""
    count, many = len(sequences.title), len(idf)
    offset = found.place - sequences.starts[found.section]
    kept = (offset < sequences.title[found.section]).nonzero()[0]
    if not len(kept):
        return np.zeros(count)
    section = found.section[kept]
    wanted = np.bincount(section, minlength=count) / np.maximum(sequences.title, 1)
    is_there = np.zeros((count, many))
    is_there[section, found.term[kept]] = 1
    mass = float(idf.sum())
    covered = (is_there * idf).sum(1) / max(mass, 1e-9)
    added: Floats = weights.named * mass * covered**4 * wanted
    return added


def _has_phrase(found: Occurrences, section: int, query: Sequence[int]) -> bool:
    first, last = np.searchsorted(found.section, [section, section + 1])
    places, terms = found.place[first:last].tolist(), found.term[first:last].tolist()
    wanted, length = list(query), len(query)
    return any(
        terms[n] == wanted[0]
        and terms[n : n + length] == wanted
        and places[n + length - 1] - places[n] == length - 1
        for n in range(len(terms) - length + 1)
    )


def measure_passages(
    sequences: Sequences,
    found: Occurrences,
    gain: Floats,
    norm: tuple[float, float, float],
    weights: RankingWeights,
) -> Floats:
    """Return what the best passage adds to (or takes from) the score of each section.

    `gain` is each term's idf times (k1 + 1); `norm` is k1, b and the mean length.
    """
    change = np.zeros(len(sequences.title))
    head = sequences.title + sequences.tags + 2
    length = sequences.starts[1:] - sequences.starts[:-1] - head
    long = (length > 1.5 * weights.passage_terms).nonzero()[0]
    if not len(long):
        return change
    # From here on, `section` counts the long ones alone.
    renumbered = np.full(len(change), -1)
    renumbered[long] = np.arange(len(long))
    kept = (renumbered[found.section] >= 0).nonzero()[0]
    section = renumbered[found.section[kept]]
    head, length, title = head[long], length[long], sequences.title[long]
    offset = found.place[kept] - sequences.starts[long][section]
    in_body = offset - head[section]
    is_head = in_body < 0
    # One row of counts for each passage, and behind them one for each section's head.
    parts = np.rint(length / weights.passage_terms).astype(np.int64)
    first = parts.cumsum() - parts
    many, bodies = len(gain), int(parts.sum())
    row = first[section] + in_body * parts[section] // length[section]
    row[is_head] = bodies + section[is_head]
    weight = np.full(len(row), weights.body)
    weight[is_head] = np.where((offset < title[section])[is_head], weights.title, weights.tags)
    counts = np.bincount(
        row * many + found.term[kept], weight, (bodies + len(long)) * many
    ).reshape(-1, many)
    heads = counts[bodies:]
    extra = weights.title * title + weights.tags * sequences.tags[long]
    size = weights.body * length
    scores = _score(
        np.concatenate(
            [
                counts[:bodies] + heads.repeat(parts, 0),
                np.add.reduceat(counts[:bodies], first) + heads,
            ]
        ),
        np.concatenate([(size / parts + extra).repeat(parts), size + extra]),
        gain,
        norm,
    )
    best = np.maximum.reduceat(scores[:bodies], first)
    change[long] = weights.passage_share * (best - scores[bodies:])
    return change


def _score(
    frequency: NDArray[np.floating[Any]],
    length: NDArray[np.floating[Any]],
    gain: Floats,
    norm: tuple[float, float, float],
) -> Floats:
    k1, b, mean = norm
    lengths = (k1 * (1 - b)) + (k1 * b / max(mean, 1e-9)) * length
    # No product of matrices, whose last bits depend on how many rows there are.
    scores: Floats = (frequency / (frequency + lengths[:, None]) * gain).sum(1)
    return scores
