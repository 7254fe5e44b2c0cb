"""The sections that a question may find, and what their score needs besides the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.finding.terms import FIELDS
from vaultmem.core.finding.weights import RankingWeights, Statistics

Numbers = NDArray[np.int64]
Whole = NDArray[np.integer[Any]]
Floats = NDArray[np.float32]

_DAY = 86_400.0

_NONE = np.empty(0, np.float32)


def link_neighbours(
    rows: NDArray[np.int64],
    times: NDArray[np.float64],
    labels: tuple[Whole, Numbers],
    size: int,
    nearest: int,
    longest: float,
) -> NDArray[np.int32] | None:
    """Return the nearest neighbours of each row (shape: 2 * nearest, size; -1 where none).

    `rows` are in the order in which they were written; a neighbour has a label in common: the
    session (an odd number), or a tag and a date of its own (`times` in seconds, one for each of
    `rows`, else nan) at most `longest` away. First come the nearest before, the second nearest
    before and so on, then those after. `labels` are all rows' labels and where each row's begin.
    None if nothing has a neighbour.
    """
    flat, starts = labels
    sizes = np.diff(starts)[rows]
    total = int(sizes.sum())
    if not total:
        return None
    # One entry for each label of each row, sorted by label and then by the order of writing.
    position = np.repeat(np.arange(len(rows)), sizes)
    offset = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    label = flat[starts[rows][position] + offset]
    order = np.lexsort((position, label))
    position, label = position[order], label[order]
    before: list[NDArray[np.int64]] = []
    for step in range(1, nearest + 1):
        same = np.flatnonzero(label[step:] == label[:-step])
        apart = times[position[same + step]] - times[position[same]]
        same = same[(label[same] & 1 == 1) | (np.abs(apart) <= longest)]
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

    `mask` says which are eligible, `size` how many, `is_all` whether all are, and `statistics` what
    they, or all among which they count, are together. `place` is the place
    of a section's note in the order of paths, and `times` has the time that was given for it
    (seconds; one value a note); `norm` the length part of the formula (infinite for
    what is not eligible), `recency` 0 to 1, `state_weight` what the state of its note counts for,
    and `neighbours` (shape: 2 * nearest, rows) the rows before and after, -1 where there is none;
    None if no section has any.
    """

    mask: NDArray[np.bool_]
    size: int
    is_all: bool
    place: NDArray[np.int32]
    times: NDArray[np.float64]
    norm: Floats
    k1: float
    b: float
    mean: float
    recency: Floats
    state_weight: Floats
    neighbours: NDArray[np.int32] | None
    statistics: Statistics
    #: What whoever asks wants to keep for the next question, by name, each by row or by term.
    kept: dict[str, dict[Any, Any]]


def make_eligible(
    columns: Mapping[str, Whole],
    documents: Sequence[tuple[int, float]],
    states: Sequence[int],
    state_weights: Sequence[float],
    labels: tuple[Whole, Numbers],
    links_alone: Numbers,
    weights: RankingWeights,
    now: float,
) -> EligibleRows:
    """Choose the rows of `documents`, given with their times in the order of their paths.

    What is dated later than `now` (seconds since the epoch) counts as of now.
    `states` are the numbers of the states that are eligible, `state_weights` what each state
    counts for; `labels` are all rows' labels and where each row's begin, `links_alone` the rows
    that are links and hardly more. A note's own date counts, else the time that was given
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
    neighbours = _find_neighbours(columns, mask, changed, place, labels, weights)
    count = int(np.count_nonzero(mask))
    written = _date_rows(columns, changed)
    latest = written.max(initial=0.0, where=mask & (written <= now + _DAY))
    title, tags, body = (int(columns[f"{name}_length"].sum(where=mask)) for name in FIELDS)
    chosen = EligibleRows(
        mask=mask,
        size=count,
        is_all=count == len(mask),
        place=place,
        times=times,
        norm=_NONE,
        k1=0.0,
        b=0.0,
        mean=0.0,
        state_weight=np.asarray(state_weights, np.float32)[columns["state"]],
        recency=_NONE,
        neighbours=neighbours,
        statistics=Statistics(),
        kept={},
    )
    own = Statistics(count, (title, tags, body), float(latest))
    return weigh_rows(chosen, columns, links_alone, own, weights)


def weigh_rows(
    chosen: EligibleRows,
    columns: Mapping[str, Whole],
    links_alone: Numbers,
    statistics: Statistics,
    weights: RankingWeights,
) -> EligibleRows:
    """Return chosen rows with what their scores take from all among which they count.

    These are the ones that `statistics` are of: they themselves, or others too.
    """
    mean = statistics.mean(weights)
    k1, b = weights.choose_k1(mean), weights.choose_b(mean)
    # In place: of a million sections, each step would be eight megabytes more.
    norm = _weigh_lengths(columns, weights)
    norm *= k1 * b / max(mean, 1e-9)
    norm += k1 * (1 - b)
    norm[links_alone] *= weights.links_alone
    norm[~chosen.mask] = np.inf
    written = _date_rows(columns, chosen.times[chosen.place])
    return chosen._replace(
        norm=norm.astype(np.float32),
        k1=k1,
        b=b,
        mean=mean,
        recency=_measure_recency(written, statistics.newest, weights),
        statistics=statistics,
        kept={},
    )


def _weigh_lengths(columns: Mapping[str, Whole], weights: RankingWeights) -> NDArray[np.float64]:
    length = np.zeros(len(columns["document"]))
    for name, weight in zip(FIELDS, (weights.title, weights.tags, weights.body), strict=True):
        length += weight * columns[f"{name}_length"]
    return length


def _date_rows(columns: Mapping[str, Whole], changed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return when each row was written, in seconds since the epoch."""
    written = np.maximum(columns["created"], columns["updated"]).astype(np.float64)
    np.copyto(written, changed, where=written == 0)
    return written


def _measure_recency(
    written: NDArray[np.float64], newest: float, weights: RankingWeights
) -> Floats:
    """Return 1 for the newest of the eligible rows, and half of it for each half-life before.

    What is dated later than tomorrow is as new as that, and makes nothing else older; a day, since
    dates without a zone are read as UTC. `written` is used up.
    """
    written -= newest
    np.minimum(written, 0, out=written)
    written /= _DAY * weights.half_life
    return np.exp2(written, out=written).astype(np.float32)


def _find_neighbours(
    columns: Mapping[str, Whole],
    mask: NDArray[np.bool_],
    changed: NDArray[np.float64],
    place: NDArray[np.int32],
    labels: tuple[Whole, Numbers],
    weights: RankingWeights,
) -> NDArray[np.int32] | None:
    """Link the short notes of one section that share a label, in the order of time, then path."""
    if not len(labels[0]):
        return None
    sections = np.bincount(columns["document"][mask], minlength=int(columns["document"].max()) + 1)
    alone = sections[columns["document"]] == 1
    short = columns["body_length"] <= weights.neighbour_terms
    rows = np.flatnonzero(mask & alone & short & (labels[1][1:] > labels[1][:-1]))
    created = np.where(columns["created"] > 0, columns["created"], columns["updated"])[rows]
    rows = rows[(order := np.lexsort((place[rows], np.where(created, created, changed[rows]))))]
    own = np.where(created > 0, created, np.nan)[order]
    limits = (len(weights.neighbours), weights.neighbour_days * _DAY)
    return link_neighbours(rows, own, labels, len(mask), *limits)


def sort_distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the different numbers in ascending order, without what `numpy.unique` imports."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]
