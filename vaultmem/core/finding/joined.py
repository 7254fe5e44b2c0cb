"""What may answer a question, cut out of one index or of many, joined, and ranked.

The best by words of all are among the best of each; what lifts one stands beside it. So what each
cuts out of its own is enough to rank all as one index would, be there one or many: who cuts need
not be the process that ranks. No score of a section depends on which others it is computed with,
so that it is the same to the last bit in whatever groups they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.finding.eligible import sort_distinct
from vaultmem.core.finding.ranking import order_best
from vaultmem.core.finding.weights import RankingWeights
from vaultmem.core.notes.record import find_place

Numbers = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


class Slice(NamedTuple):
    """Sections cut out for a question, in arrays with one value each.

    `rows` are the numbers that whoever cut them knows them by, in ascending order; `documents` and
    `ordinals` say which they are, `place` is the order of equal scores, and `paths` what that is
    joined by. `total` is the score by words; `closeness`, `passage` and `named` are what is added
    to it where the section `is_best` among the best of its own. `meaning` is the score by meaning,
    nan where it is not known, and `is_near` says whose is one of the best; both None where it is
    not asked. `neighbours` are the places in the slice of those before and after (shape: 2 *
    nearest, sections; -1 where there is none).
    """

    rows: Numbers
    documents: Numbers
    ordinals: Numbers
    place: Numbers
    paths: Sequence[str]
    total: Floats
    is_best: NDArray[np.bool_]
    closeness: Doubles
    passage: Doubles
    named: Doubles
    meaning: Floats | None
    is_near: NDArray[np.bool_] | None
    neighbours: NDArray[np.int32]
    recency: Floats
    state_weight: Floats


class Ranking(NamedTuple):
    """The best of a slice, best first, and the parts of their scores (shape of each: rows)."""

    rows: Numbers
    score: Doubles
    closeness: Doubles
    passage: Doubles
    neighbours: Doubles
    recency: Doubles
    semantic: Doubles
    named: Doubles

    def cut(self, chosen: Numbers | Sequence[int] | slice) -> Ranking:
        """Return some of the rows, in the order in which they are named."""
        if not isinstance(chosen, slice):
            chosen = np.asarray(chosen, np.int64)
        return Ranking(self.rows[chosen], *(part[chosen] for part in self.parts))

    @property
    def parts(self) -> tuple[Doubles, ...]:
        """The score and its parts."""
        return self[1:]


def count_candidates(limit: int, weights: RankingWeights) -> int:
    """Return how many of the best by words are ranked where so many hits are wanted."""
    return max(2 * limit, weights.candidates)


def count_read(limit: int, weights: RankingWeights) -> int:
    """Return in how many of the best by words the order of words is looked at."""
    return max(2 * limit, weights.read)


def choose_rows(best: Numbers, total: Floats, table: NDArray[np.int32] | None) -> Numbers:
    """Return the best rows with all that is lifted beside them, or lifts either, ascending.

    That are their neighbours that have a word of the question, and the neighbours of these. `total`
    has a zero behind all rows, which stands for a neighbour that is none.
    """
    found = np.sort(best)
    for _ in range(2 if table is not None and len(best) else 0):
        beside = table[:, found].ravel()  # type: ignore[index] # It is one, where this runs.
        found = sort_distinct(np.concatenate([found, beside[total[beside] > 0]]))
    return found


def place_neighbours(
    rows: Numbers, table: NDArray[np.int32] | None, weights: RankingWeights
) -> NDArray[np.int32]:
    """Return where the neighbours of chosen rows stand among these, -1 where they do not."""
    if table is None or not len(rows):
        return np.full((2 * len(weights.neighbours), len(rows)), -1, np.int32)
    found = table[:, rows]
    at = rows.searchsorted(found)
    return np.where(rows.take(at, mode="clip") == found, at, -1).astype(np.int32)


def join_slices(slices: Sequence[Slice]) -> Slice:
    """Return what several cut out as one slice, ordered by path, then by the vaults' places.

    Documents have to be numbered among all, and paths to be given.
    """
    if len(slices) == 1:
        return slices[0]
    joined: dict[str, Any] = {}
    for name, values in zip(Slice._fields, zip(*slices, strict=True), strict=True):
        if name == "paths":
            joined[name] = [path for each in values for path in each]
        elif values[0] is None:
            joined[name] = None
        elif name == "neighbours":
            firsts = np.cumsum([0, *(each.shape[1] for each in values)])
            moved = [np.where(v < 0, -1, v + f) for v, f in zip(values, firsts, strict=False)]
            joined[name] = np.concatenate(moved, axis=1).astype(np.int32)
        else:
            joined[name] = np.concatenate(values)
    vaults = find_place(joined["documents"]).tolist()
    keys = [*zip(joined["paths"], vaults, joined["place"].tolist(), strict=True)]
    places = {key: place for place, key in enumerate(sorted(set(keys)))}
    joined["place"] = np.asarray([places[key] for key in keys], np.int64)
    return Slice(**joined)


def rank_slice(found: Slice, limit: int, weights: RankingWeights) -> Ranking:
    """Return the best sections and their neighbours with their relevance, in no order.

    `limit` is how many hits are wanted. Where meaning was asked, its best are among them.
    """
    wanted = count_candidates(limit, weights)
    best = found.is_best.nonzero()[0]
    best = best[order_best(found.total[best], found.place[best], wanted)]
    read = count_read(limit, weights)
    if found.meaning is not None and found.is_near is not None:
        near = found.is_near.nonzero()[0]
        near = near[order_best(found.meaning[near], found.place[near], wanted)]
        best = np.concatenate([best, sort_distinct(near[~np.isin(near, best)])])
        read = len(best)
    first = np.sort(best[:read])
    added = [each[first] for each in (found.closeness, found.passage, found.named)]
    total = np.append(found.total, np.float32(0))
    total[first] += added[0] + added[1] + added[2]
    best = np.concatenate([first, best[read:]])
    rows, neighbours = _add_neighbours(total, best, found.neighbours, weights)
    empty = np.zeros(len(rows))
    parts = np.zeros((3, len(rows)))
    parts[:, : len(first)] = added
    return Ranking(
        rows=rows,
        score=total[rows] + neighbours,
        closeness=parts[0],
        passage=parts[1],
        neighbours=neighbours,
        recency=empty,
        semantic=empty,
        named=parts[2],
    )


def _add_neighbours(
    total: Floats, best: Numbers, table: NDArray[np.int32], weights: RankingWeights
) -> tuple[Numbers, Doubles]:
    """Return the best, then the neighbours of each, and what each gets of its neighbours.

    A neighbour without a word of the question is not found: nobody would see why it is there.
    """
    is_beside = np.zeros(len(total), np.bool_)
    is_beside[table[:, best]] = True  # Of none, which is -1, the last: no row.
    is_beside &= total > 0
    is_beside[best] = False
    rows = np.concatenate([best, is_beside.nonzero()[0]])
    gained = np.zeros(len(rows))
    for share, nth in zip([*weights.neighbours] * 2, table[:, rows], strict=True):
        gained += share * total[nth].astype(np.float64)
    return rows, _damp_above(total[rows], gained, weights)


def _damp_above(own: Floats, gained: Doubles, weights: RankingWeights) -> Doubles:
    """Count a share alone of what lifts a section beyond the `lift_place`-th best by its own.

    The first places belong to what answers by itself: two half-relevant notes that lift each
    other would stand above it.
    """
    if len(own) <= weights.lift_place:
        return gained
    place = len(own) - weights.lift_place
    room = np.clip(np.partition(own, place)[place] - own, 0, gained)
    damped: Doubles = room + weights.lift_share * (gained - room)
    return damped


def apply_decay(ranking: Ranking, found: Slice, share: float) -> Ranking:
    """Return a ranking whose scores are (1 - share) * relevance + share * best * recency."""
    if not share or not len(ranking.rows):
        return ranking
    best = float(ranking.score.max())
    change = share * (best * found.recency[ranking.rows] - ranking.score)
    return ranking._replace(score=ranking.score + change, recency=change)


def order_rows(ranking: Ranking, found: Slice) -> Ranking:
    """Return a ranking, best first, scores times the weights of the notes' states.

    Equal scores are in the order of path, then of each section's place in its note.
    """
    rows = ranking.rows
    score = ranking.score * found.state_weight[rows]
    order = np.lexsort((found.ordinals[rows], found.place[rows], -score.round(5)))
    order = order[score[order] > 0]
    return ranking._replace(score=score).cut(order)
