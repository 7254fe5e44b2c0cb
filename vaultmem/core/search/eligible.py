"""Choose the sections that a query can return, and correct misspelt terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.search.query import WEIGHTS, Statistics
from vaultmem.core.search.terms import ASKS, FIELDS, LINKS_ALONE, mark_speaker

Numbers = NDArray[np.int64]
Whole = NDArray[np.integer[Any]]
Floats = NDArray[np.float32]

_DAY = 86_400.0

_NONE = np.empty(0, np.float32)


class Neighbours(NamedTuple):
    """The rows before and after each row, -1 for a missing one (shape: 2 * nearest, rows).

    `turns` marks rows that are a turn of one speaker; `asks` marks the turns that end with a
    question. `labels` are the sessions and tags that several rows share, with the start of each
    row's labels.
    """

    table: NDArray[np.int32]
    turns: NDArray[np.bool_]
    asks: NDArray[np.bool_]
    labels: tuple[Whole, Numbers]


def link_neighbours(
    rows: NDArray[np.int64],
    times: NDArray[np.float64],
    labels: tuple[Whole, Numbers],
    size: int,
) -> NDArray[np.int32] | None:
    """Return the nearest neighbours of each row (shape: 2 * nearest, size; -1 if missing).

    `rows` are in order of writing. Neighbours share a session (an odd label), or a tag if both have
    a date of their own, at most `neighbour_days` apart. `times` has these dates in seconds, one for
    each of `rows`, or nan. Earlier neighbours come first, nearest first, then later ones. `labels`
    are the labels of all rows and the start of each row's labels. Return None without any
    neighbour.
    """
    position, label = list_labels(labels, rows)
    if not len(label):
        return None
    order = np.lexsort((position, label))
    position, label = position[order], label[order]
    edge_groups: list[NDArray[np.int64]] = []
    nearest = len(WEIGHTS.neighbours)
    for step in range(1, nearest + 1):
        pairs = np.flatnonzero(label[step:] == label[:-step])
        gaps = times[position[pairs + step]] - times[position[pairs]]
        pairs = pairs[(label[pairs] & 1 == 1) | (np.abs(gaps) <= WEIGHTS.neighbour_days * _DAY)]
        edge_groups.append(position[pairs + step] * len(rows) + position[pairs])
    edges = sort_distinct(np.concatenate(edge_groups))
    if not len(edges):
        return None
    later, earlier = edges // len(rows), edges % len(rows)
    table = np.full((2 * nearest, size), -1, np.int32)
    _put_last(table[:nearest], rows, later, earlier)
    reverse_order = np.lexsort((-later, earlier))
    _put_last(table[nearest:], rows, earlier[reverse_order], later[reverse_order])
    return table


def list_labels(labels: tuple[Whole, Numbers], rows: Numbers) -> tuple[Numbers, Whole]:
    """Return the labels of some rows: the position of each label's row in `rows`, and the label.

    `labels` are the labels of all rows and the start of each row's labels.
    """
    flat, starts = labels
    begin = starts[rows]
    sizes = starts[rows + 1] - begin
    ends = sizes.cumsum()
    position = np.arange(len(rows)).repeat(sizes)
    return position, flat[np.arange(len(position)) + (begin - ends + sizes)[position]]


def _put_last(
    table: NDArray[np.int32],
    rows: NDArray[np.int64],
    target: NDArray[np.int64],
    neighbour: NDArray[np.int64],
) -> None:
    """Write the last neighbours of each run of equal `target` into a table, the last one first."""
    ends = np.append(np.flatnonzero(np.diff(target)), len(target) - 1)
    sizes = np.diff(np.concatenate([[-1], ends]))
    for nth in range(len(table)):
        is_long = sizes > nth
        at = ends[is_long] - nth
        table[nth, rows[target[at]]] = rows[neighbour[at]]


class EligibleRows(NamedTuple):
    """Arrays with one value per section of the index (a row), and which rows are eligible.

    `mask` marks the eligible rows. `statistics` describes them, or all rows of a search over
    several vaults. `place` is the position of the section's note in the order of paths. `times` has
    one given time per note, in seconds. `norm` is the length part of the formula, infinite for rows
    that are not eligible; `length_norm` has its k1, b and mean length. `recency` is 0 to 1.
    `state_weight` is the weight of the note's state. Without neighbours, `neighbours` has the value
    None.
    """

    mask: NDArray[np.bool_]
    place: NDArray[np.int32]
    times: NDArray[np.float64]
    norm: Floats
    length_norm: tuple[float, float, float]
    recency: Floats
    state_weight: Floats
    neighbours: Neighbours | None
    statistics: Statistics
    #: Values that callers cache for the next query, by name, then by row or by term.
    cache: dict[str, dict[Any, Any]]


def make_eligible(
    columns: Mapping[str, Whole],
    documents: Sequence[tuple[int, float]],
    states: Sequence[int],
    state_weights: Sequence[float],
    labels: tuple[Whole, Numbers],
    rows_by_mark: Mapping[str, Numbers],
    now: float,
) -> EligibleRows:
    """Choose the rows of `documents`, given with their times in the order of their paths.

    Dates after `now` (seconds since the epoch) count as `now`. `states` are the eligible states by
    number; `state_weights` has each state's weight. `labels` are the labels of all rows and the
    start of each row's labels. `rows_by_mark` has the rows of each mark (`core.search.terms`).
    A note's own date precedes the given time.
    """
    document = columns["document"]
    place = np.full(int(document.max(initial=0)) + 1, -1, np.int32)
    numbers = np.asarray([number for number, _ in documents], np.int64)
    times = np.asarray([*(time for _, time in documents), 0.0])
    is_known = numbers < len(place)
    place[numbers[is_known]] = np.flatnonzero(is_known)
    place = place[document]
    is_wanted = np.zeros(len(state_weights), np.bool_)
    is_wanted[list(states)] = True
    mask = (place >= 0) & is_wanted[columns["state"]]
    note_times = times[place]
    neighbours = _find_neighbours(columns, mask, note_times, place, labels, rows_by_mark)
    dates = _date_rows(columns, note_times)
    # A note without words, such as an empty template, sets no date.
    is_dated = mask & (dates <= now + _DAY) & (columns["body_length"] > 0)
    latest = dates.max(initial=0.0, where=is_dated)
    title, tags, body = (int(columns[f"{name}_length"].sum(where=mask)) for name in FIELDS)
    eligible = EligibleRows(
        mask=mask,
        place=place,
        times=times,
        norm=_NONE,
        length_norm=(0.0, 0.0, 0.0),
        state_weight=np.asarray(state_weights, np.float32)[columns["state"]],
        recency=_NONE,
        neighbours=neighbours,
        statistics=Statistics(),
        cache={},
    )
    own = Statistics(int(mask.sum()), (title, tags, body), float(latest))
    return weight_rows(eligible, columns, rows_by_mark[LINKS_ALONE], own)


def weight_rows(
    eligible: EligibleRows,
    columns: Mapping[str, Whole],
    links_alone: Numbers,
    statistics: Statistics,
) -> EligibleRows:
    """Return chosen rows with length norms and recency computed from `statistics`.

    `statistics` can describe these rows alone, or those of several vaults.
    """
    mean = statistics.mean()
    k1, b = (float(np.interp(mean, WEIGHTS.lengths, ends)) for ends in (WEIGHTS.k1, WEIGHTS.b))
    # In place: with a million sections, each copy would take eight megabytes more.
    norm = np.zeros(len(eligible.mask))
    for name, weight in zip(FIELDS, (WEIGHTS.title, WEIGHTS.tags, WEIGHTS.body), strict=True):
        norm += weight * columns[f"{name}_length"]
    norm *= k1 * b / max(mean, 1e-9)
    norm += k1 * (1 - b)
    norm[links_alone] *= WEIGHTS.links_alone
    norm[~eligible.mask] = np.inf
    dates = _date_rows(columns, eligible.times[eligible.place])
    return eligible._replace(
        norm=norm.astype(np.float32),
        length_norm=(k1, b, mean),
        recency=_measure_recency(dates, statistics.newest),
        statistics=statistics,
        cache={},
    )


def _date_rows(
    columns: Mapping[str, Whole], note_times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return when each row was written, in seconds since the epoch."""
    dates = np.maximum(columns["created"], columns["updated"]).astype(np.float64)
    np.copyto(dates, note_times, where=dates == 0)
    return dates


def _measure_recency(dates: NDArray[np.float64], newest: float) -> Floats:
    """Return (1 + d / recent_days) ** -2 for rows d days before the newest eligible row.

    It falls fast, so that few notes gain. It never reaches 0, so that the newer of two equal notes
    is first (J. Wixted, E. Ebbesen, "On the Form of Forgetting", 1991: a power of time). Dates
    after tomorrow count as the newest and make no other row older; the margin is a day because
    dates without a zone are read as UTC. `dates` is overwritten.
    """
    dates -= newest
    np.minimum(dates, 0, out=dates)
    dates /= -_DAY * WEIGHTS.recent_days
    dates += 1
    return np.power(dates, -2, out=dates).astype(np.float32)


def _find_neighbours(
    columns: Mapping[str, Whole],
    mask: NDArray[np.bool_],
    note_times: NDArray[np.float64],
    place: NDArray[np.int32],
    labels: tuple[Whole, Numbers],
    rows_by_mark: Mapping[str, Numbers],
) -> Neighbours | None:
    """Link short notes of one section that share a label, ordered by time, then path."""
    if not len(labels[0]):
        return None
    sections = np.bincount(columns["document"][mask], minlength=int(columns["document"].max()) + 1)
    is_alone = sections[columns["document"]] == 1
    rows = np.flatnonzero(mask & is_alone & (labels[1][1:] > labels[1][:-1]))
    turns, asks = np.zeros((2, len(mask)), np.bool_)
    turns[rows_by_mark[mark_speaker("")]] = True
    asks[rows_by_mark[ASKS]] = True
    common = _find_common(rows, labels, turns)
    rows = rows[columns["body_length"][rows] <= WEIGHTS.neighbour_terms]
    created = np.where(columns["created"] > 0, columns["created"], columns["updated"])[rows]
    rows = rows[(order := np.lexsort((place[rows], np.where(created, created, note_times[rows]))))]
    own_dates = np.where(created > 0, created, np.nan)[order]
    table = link_neighbours(rows, own_dates, labels, len(mask))
    return None if table is None else Neighbours(table, turns, asks & turns, common)


def _find_common(
    rows: Numbers, labels: tuple[Whole, Numbers], turns: NDArray[np.bool_]
) -> tuple[Whole, Numbers]:
    """Return the labels that several rows have, and the start of each row's labels.

    A turn that has a session has no tags here.
    """
    position, label = list_labels(labels, rows)
    is_session = label & 1 == 1
    has_session = np.bincount(position, is_session, len(rows)) > 0
    is_kept = is_session | ~(turns[rows] & has_session)[position]
    sorted_labels = np.sort(label[is_kept])
    is_kept &= are_among(label, sorted_labels[1:][sorted_labels[1:] == sorted_labels[:-1]])
    starts = np.append(0, np.bincount(rows[position[is_kept]], minlength=len(turns)).cumsum())
    return label[is_kept], starts


def sort_distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct numbers in ascending order, without the imports of `numpy.unique`."""
    sorted_numbers = np.sort(numbers)
    first = np.ones(len(sorted_numbers), np.bool_)
    first[1:] = sorted_numbers[1:] != sorted_numbers[:-1]
    return sorted_numbers[first]


def are_among(rows: Whole, sorted_rows: Whole) -> NDArray[np.bool_]:
    """Return for each row whether it is in `sorted_rows`, which is in ascending order."""
    if not len(sorted_rows):
        return np.zeros(len(rows), np.bool_)
    is_member: NDArray[np.bool_] = (
        sorted_rows.take(sorted_rows.searchsorted(rows), mode="clip") == rows
    )
    return is_member


# Spelling candidates: terms of the vault that differ little from an unknown word.

#: The most letters that a stemmer removes from a word.
_SUFFIX = 6

#: A byte's bit in a word's set of letters: one for each letter, one for all else.
_BITS = np.array(
    [1 << (byte - 97 if 97 <= byte <= 122 else 26) for byte in range(256)], dtype=np.uint32
)
_COUNTS = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


def allow_distance(word: str, is_alone: bool = False) -> int:
    """Return the allowed edit distance: 1 from 5 letters on, 2 from 8, 0 for words with digits.

    If the word is the only one of its query (`is_alone`): 1 from 4 letters on, 2 from 6.
    """
    if not word.isalpha():
        return 0
    once, twice = (4, 6) if is_alone else (5, 8)
    return (len(word) >= once) + (len(word) >= twice)


class Spellings(NamedTuple):
    """The terms of a segment: joined UTF-8, the start and the letter set of each."""

    names: bytes
    starts: NDArray[np.int64]
    sets: NDArray[np.uint32]


def read_spellings(names: bytes, starts: NDArray[np.uint32]) -> Spellings:
    """Return terms, given as joined UTF-8 with the start of each and the end of the last."""
    edges = starts.astype(np.int64)
    letters = _BITS[np.frombuffer(names, np.uint8)]
    sets = np.bitwise_or.reduceat(letters, edges[:-1]) if len(edges) > 1 else letters[:0]
    return Spellings(names, edges, sets)


def find_near_stems(
    word: str, stem: str, terms: Spellings, most: int, is_alone: bool = False
) -> list[tuple[int, str]]:
    """Return the terms that might be the stem of the intended word, each with its edit distance.

    They differ in at most `most` letters from the word's own stem, or from the beginning of the
    word: the stem of `educaton` is the word itself, that of `education` is `educ`. If only the
    beginning matches, the term's first letter must be one of the word's first two. If the stem
    matches and the word is not alone, the first letters must be equal.
    """
    if not len(terms.sets):
        return []
    key, own = (np.frombuffer(each.encode(), np.uint8) for each in (word, stem))
    lengths = np.diff(terms.starts)
    begins = np.bitwise_or.accumulate(_BITS[key])[np.minimum(lengths, len(key)) - 1]
    firsts = np.frombuffer(terms.names, np.uint8)[terms.starts[:-1]]
    # A wrong letter changes the set of letters by two at most.
    is_candidate = _count_bits(terms.sets ^ begins) <= 2 * most
    is_candidate &= (lengths >= max(3, len(key) - _SUFFIX)) & (lengths < len(key))
    is_candidate &= (firsts == key[0]) | (firsts == key[1])
    has_near_stem = _count_bits(terms.sets ^ np.bitwise_or.reduce(_BITS[own])) <= 2 * most
    has_near_stem &= np.abs(lengths - len(own)) <= most
    is_candidate |= has_near_stem if is_alone else has_near_stem & (firsts == key[0])
    stems = []
    for number in np.flatnonzero(is_candidate).tolist():
        name = terms.names[terms.starts[number] : terms.starts[number + 1]].decode(
            "utf-8", "replace"
        )
        distance = min(measure_distance(each, name, most) for each in (stem, word[: len(name)]))
        if distance <= most and name.isalpha():
            stems.append((distance, name))
    return sorted(stems)


def _count_bits(sets: NDArray[np.uint32]) -> NDArray[np.integer[Any]]:
    counts: NDArray[np.integer[Any]] = _COUNTS[sets.view(np.uint8)].reshape(-1, 4).sum(1)
    return counts


@lru_cache(maxsize=16_384)  # Vaults in one query share most of their words.
def measure_distance(one: str, other: str, most: int) -> int:
    """Return the number of letters that are wrong, missing, extra or swapped with the next one.

    For a distance above `most`, return any larger number. Source: the "optimal string alignment"
    distance.
    """
    previous_row: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row_before_last, previous_row, row = previous_row, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(previous_row[j] + 1, row[-1] + 1, previous_row[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, row_before_last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]
