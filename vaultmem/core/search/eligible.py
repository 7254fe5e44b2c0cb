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
    """The rows before and after each row, -1 where there is none (shape: 2 * nearest, rows).

    `turns` marks the rows of one speaker each, and `asks` those of them that end with a question;
    `labels` are the sessions and tags that rows have in common, and where each row's begin.
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
    """Return the nearest neighbours of each row (shape: 2 * nearest, size; -1 where none).

    `rows` are in the order in which they were written; a neighbour has a label in common: the
    session (an odd number), or a tag and a date of its own (`times` in seconds, one for each of
    `rows`, else nan) at most a month away. First come the nearest before, the second nearest
    before and so on, then those after. `labels` are all rows' labels and where each row's begin.
    None if nothing has a neighbour.
    """
    position, label = list_labels(labels, rows)
    if not len(label):
        return None
    order = np.lexsort((position, label))
    position, label = position[order], label[order]
    before: list[NDArray[np.int64]] = []
    nearest = len(WEIGHTS.neighbours)
    for step in range(1, nearest + 1):
        same = np.flatnonzero(label[step:] == label[:-step])
        apart = times[position[same + step]] - times[position[same]]
        same = same[(label[same] & 1 == 1) | (np.abs(apart) <= WEIGHTS.neighbour_days * _DAY)]
        before.append(position[same + step] * len(rows) + position[same])
    edges = sort_distinct(np.concatenate(before))
    if not len(edges):
        return None
    later, earlier = edges // len(rows), edges % len(rows)
    found = np.full((2 * nearest, size), -1, np.int32)
    _put_last(found[:nearest], rows, later, earlier)
    turned = np.lexsort((-later, earlier))
    _put_last(found[nearest:], rows, earlier[turned], later[turned])
    return found


def list_labels(labels: tuple[Whole, Numbers], rows: Numbers) -> tuple[Numbers, Whole]:
    """Return each label of some rows: the position of its row among these, and the label.

    `labels` are all rows' labels and where each row's begin.
    """
    flat, starts = labels
    begin = starts[rows]
    sizes = starts[rows + 1] - begin
    ends = sizes.cumsum()
    position = np.arange(len(rows)).repeat(sizes)
    return position, flat[np.arange(len(position)) + (begin - ends + sizes)[position]]


def _put_last(
    found: NDArray[np.int32],
    rows: NDArray[np.int64],
    of: NDArray[np.int64],
    neighbour: NDArray[np.int64],
) -> None:
    """Write the last few of each run of equal `of` into a table, the very last first."""
    ends = np.append(np.flatnonzero(np.diff(of)), len(of) - 1)
    sizes = np.diff(np.concatenate([[-1], ends]))
    for nth in range(len(found)):
        enough = sizes > nth
        at = ends[enough] - nth
        found[nth, rows[of[at]]] = rows[neighbour[at]]


class EligibleRows(NamedTuple):
    """Arrays with one value a section of the index (a row); what is not eligible counts nowhere.

    `mask` says which are eligible, and `statistics` what they, or all among which they count, are
    together. `place` is the place of a section's note in the order of paths, and `times` has the
    time that was given for it (seconds; one value a note); `norm` the length part of the formula
    (infinite for what is not eligible) for k1, b and mean length as `length_norm` has them;
    `recency` 0 to 1, `state_weight` what the state of its note counts for, and `neighbours` the
    rows before and after; None if no section has any.
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
    #: What whoever asks wants to keep for the next question, by name, each by row or by term.
    kept: dict[str, dict[Any, Any]]


def make_eligible(
    columns: Mapping[str, Whole],
    documents: Sequence[tuple[int, float]],
    states: Sequence[int],
    state_weights: Sequence[float],
    labels: tuple[Whole, Numbers],
    marked: Mapping[str, Numbers],
    now: float,
) -> EligibleRows:
    """Choose the rows of `documents`, given with their times in the order of their paths.

    What is dated later than `now` (seconds since the epoch) counts as of now.
    `states` are the numbers of the states that are eligible, `state_weights` what each state
    counts for; `labels` are all rows' labels and where each row's begin, `marked` the rows that
    have each mark (`core.search.terms`). A note's own date counts, else the time that was given
    (seconds).
    """
    document = columns["document"]
    place = np.full(int(document.max(initial=0)) + 1, -1, np.int32)
    listed = np.asarray([number for number, _ in documents], np.int64)
    times = np.asarray([*(time for _, time in documents), 0.0])
    known = listed < len(place)
    place[listed[known]] = np.flatnonzero(known)
    place = place[document]
    is_wanted = np.zeros(len(state_weights), np.bool_)
    is_wanted[list(states)] = True
    mask = (place >= 0) & is_wanted[columns["state"]]
    changed = times[place]
    neighbours = _find_neighbours(columns, mask, changed, place, labels, marked)
    written = _date_rows(columns, changed)
    # A note without words, such as an empty template, sets no date.
    dated = mask & (written <= now + _DAY) & (columns["body_length"] > 0)
    latest = written.max(initial=0.0, where=dated)
    title, tags, body = (int(columns[f"{name}_length"].sum(where=mask)) for name in FIELDS)
    chosen = EligibleRows(
        mask=mask,
        place=place,
        times=times,
        norm=_NONE,
        length_norm=(0.0, 0.0, 0.0),
        state_weight=np.asarray(state_weights, np.float32)[columns["state"]],
        recency=_NONE,
        neighbours=neighbours,
        statistics=Statistics(),
        kept={},
    )
    own = Statistics(int(mask.sum()), (title, tags, body), float(latest))
    return weight_rows(chosen, columns, marked[LINKS_ALONE], own)


def weight_rows(
    chosen: EligibleRows,
    columns: Mapping[str, Whole],
    links_alone: Numbers,
    statistics: Statistics,
) -> EligibleRows:
    """Return chosen rows with what their scores take from all among which they count.

    These are the ones that `statistics` are of: they themselves, or others too.
    """
    mean = statistics.mean()
    k1, b = (float(np.interp(mean, WEIGHTS.lengths, ends)) for ends in (WEIGHTS.k1, WEIGHTS.b))
    # In place: of a million sections, each step would be eight megabytes more.
    norm = np.zeros(len(chosen.mask))
    for name, weight in zip(FIELDS, (WEIGHTS.title, WEIGHTS.tags, WEIGHTS.body), strict=True):
        norm += weight * columns[f"{name}_length"]
    norm *= k1 * b / max(mean, 1e-9)
    norm += k1 * (1 - b)
    norm[links_alone] *= WEIGHTS.links_alone
    norm[~chosen.mask] = np.inf
    written = _date_rows(columns, chosen.times[chosen.place])
    return chosen._replace(
        norm=norm.astype(np.float32),
        length_norm=(k1, b, mean),
        recency=_measure_recency(written, statistics.newest),
        statistics=statistics,
        kept={},
    )


def _date_rows(columns: Mapping[str, Whole], changed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return when each row was written, in seconds since the epoch."""
    written = np.maximum(columns["created"], columns["updated"]).astype(np.float64)
    np.copyto(written, changed, where=written == 0)
    return written


def _measure_recency(written: NDArray[np.float64], newest: float) -> Floats:
    """Return (1 + d / recent_days) ** -2 for rows d days before the newest of the eligible ones.

    It falls fast, so that few notes gain, and never to 0, so that of equal notes the newer one is
    first (J. Wixted, E. Ebbesen, "On the Form of Forgetting", 1991: a power of time). What is
    dated later than tomorrow is as new as that, and makes nothing else older; a day, since dates
    without a zone are read as UTC. `written` is used up.
    """
    written -= newest
    np.minimum(written, 0, out=written)
    written /= -_DAY * WEIGHTS.recent_days
    written += 1
    return np.power(written, -2, out=written).astype(np.float32)


def _find_neighbours(
    columns: Mapping[str, Whole],
    mask: NDArray[np.bool_],
    changed: NDArray[np.float64],
    place: NDArray[np.int32],
    labels: tuple[Whole, Numbers],
    marked: Mapping[str, Numbers],
) -> Neighbours | None:
    """Link the short notes of one section that share a label, in the order of time, then path."""
    if not len(labels[0]):
        return None
    sections = np.bincount(columns["document"][mask], minlength=int(columns["document"].max()) + 1)
    alone = sections[columns["document"]] == 1
    rows = np.flatnonzero(mask & alone & (labels[1][1:] > labels[1][:-1]))
    turns, asks = np.zeros((2, len(mask)), np.bool_)
    turns[marked[mark_speaker("")]] = True
    asks[marked[ASKS]] = True
    common = _find_common(rows, labels, turns)
    rows = rows[columns["body_length"][rows] <= WEIGHTS.neighbour_terms]
    created = np.where(columns["created"] > 0, columns["created"], columns["updated"])[rows]
    rows = rows[(order := np.lexsort((place[rows], np.where(created, created, changed[rows]))))]
    own = np.where(created > 0, created, np.nan)[order]
    table = link_neighbours(rows, own, labels, len(mask))
    return None if table is None else Neighbours(table, turns, asks & turns, common)


def _find_common(
    rows: Numbers, labels: tuple[Whole, Numbers], turns: NDArray[np.bool_]
) -> tuple[Whole, Numbers]:
    """Return the labels that several rows have, and where each row's begin.

    A turn that has a session has no tags here.
    """
    position, label = list_labels(labels, rows)
    is_session = label & 1 == 1
    has_session = np.bincount(position, is_session, len(rows)) > 0
    kept = is_session | ~(turns[rows] & has_session)[position]
    ordered = np.sort(label[kept])
    kept &= are_among(label, ordered[1:][ordered[1:] == ordered[:-1]])
    starts = np.append(0, np.bincount(rows[position[kept]], minlength=len(turns)).cumsum())
    return label[kept], starts


def sort_distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the different numbers in ascending order, without what `numpy.unique` imports."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def are_among(rows: Whole, ordered: Whole) -> NDArray[np.bool_]:
    """Return for each row whether it is one of others, which are in ascending order."""
    if not len(ordered):
        return np.zeros(len(rows), np.bool_)
    found: NDArray[np.bool_] = ordered.take(ordered.searchsorted(rows), mode="clip") == rows
    return found


# Words of the vault that are spelt almost as one that is not there.

#: Letters that a stemmer takes off a word at most.
_SUFFIX = 6

#: A byte's bit in a word's set of letters: one for each letter, one for all else.
_BITS = np.array(
    [1 << (byte - 97 if 97 <= byte <= 122 else 26) for byte in range(256)], dtype=np.uint32
)
_COUNTS = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


def allow_distance(word: str, is_alone: bool = False) -> int:
    """Return how many letters may be wrong: 1 from 5 letters on, 2 from 8, none in numbers.

    Of a word that is alone, whose question has nothing else to go by: from 4 on, and from 6.
    """
    if not word.isalpha():
        return 0
    once, twice = (4, 6) if is_alone else (5, 8)
    return (len(word) >= once) + (len(word) >= twice)


class Spellings(NamedTuple):
    """The terms of a segment: their UTF-8, joined, where each begins, and the letters of each."""

    names: bytes
    starts: NDArray[np.int64]
    sets: NDArray[np.uint32]


def read_spellings(names: bytes, starts: NDArray[np.uint32]) -> Spellings:
    """Return terms, given as joined UTF-8 and where each begins and the last ends."""
    edges = starts.astype(np.int64)
    letters = _BITS[np.frombuffer(names, np.uint8)]
    sets = np.bitwise_or.reduceat(letters, edges[:-1]) if len(edges) > 1 else letters[:0]
    return Spellings(names, edges, sets)


def find_near_stems(
    word: str, stem: str, terms: Spellings, most: int, is_alone: bool = False
) -> list[tuple[int, str]]:
    """Return the terms that may be the stem of the word that was meant, each with a distance.

    They differ in at most `most` letters from the word's own stem, or from how the word begins:
    the stem of `educaton` is the word itself, that of `education` is `educ`. Where only the
    beginning is alike, the first letter must be one of the first two; where
    the word is not alone (`is_alone`), in all of it.
    """
    if not len(terms.sets):
        return []
    key, own = (np.frombuffer(each.encode(), np.uint8) for each in (word, stem))
    lengths = np.diff(terms.starts)
    begins = np.bitwise_or.accumulate(_BITS[key])[np.minimum(lengths, len(key)) - 1]
    firsts = np.frombuffer(terms.names, np.uint8)[terms.starts[:-1]]
    # A wrong letter changes the set of letters by two at most.
    fits = _count_bits(terms.sets ^ begins) <= 2 * most
    fits &= (lengths >= max(3, len(key) - _SUFFIX)) & (lengths < len(key))
    fits &= (firsts == key[0]) | (firsts == key[1])
    alike = _count_bits(terms.sets ^ np.bitwise_or.reduce(_BITS[own])) <= 2 * most
    alike &= np.abs(lengths - len(own)) <= most
    fits |= alike if is_alone else alike & (firsts == key[0])
    found = []
    for number in np.flatnonzero(fits).tolist():
        name = terms.names[terms.starts[number] : terms.starts[number + 1]].decode(
            "utf-8", "replace"
        )
        distance = min(measure_distance(each, name, most) for each in (stem, word[: len(name)]))
        if distance <= most and name.isalpha():
            found.append((distance, name))
    return sorted(found)


def _count_bits(sets: NDArray[np.uint32]) -> NDArray[np.integer[Any]]:
    counts: NDArray[np.integer[Any]] = _COUNTS[sets.view(np.uint8)].reshape(-1, 4).sum(1)
    return counts


@lru_cache(maxsize=16_384)  # Vaults that are asked as one have most of their words in common.
def measure_distance(one: str, other: str, most: int) -> int:
    """Return how many letters are wrong, missing, too many or exchanged with the next.

    Beyond `most`, any larger number. Source: the "optimal string alignment" distance.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]
