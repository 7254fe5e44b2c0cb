"""Score sections for a query, by words and by how close the words are.

BM25F: S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009),
in its simple form with one length norm for all fields:

    tf(t, d)  = sum over fields f of  w_f * count of t in field f of d
    len(d)    = sum over fields f of  w_f * terms in field f of d
    words     = sum over terms t of
                q(t) * idf(t) * (k1 + 1) * tf / (tf + k1 * (1 - b + b * len / mean))
    idf(t)    = ln(1 + (N - n_t + 0.5) / (n_t + 0.5))
    q(t)      = 2 m / (1 + m) for a term that the query has m times, half of that for a weak word

N, n_t and the mean are counted over the eligible sections alone. So a filter or another commit
gives the scores of a vault of just those notes. Over several vaults they are sums (`score_words`).
The best sections by words are scored again (`named` is the gain of a title or speaker that the
query names):

    relevance = words + closeness + passage + named + neighbours
    score     = ((1 - w) * relevance + w * best * recency) * state_weight

where best is the largest relevance and w the `recency_weight` of vaultmem.yaml. Recency is bounded,
so that a strong old match still wins.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.search.eligible import (
    EligibleRows,
    Neighbours,
    Whole,
    are_among,
    list_labels,
    sort_distinct,
)
from vaultmem.core.search.query import WEIGHTS

Numbers = NDArray[np.int64]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

#: A term's rows, and the codes of its counts in title, tags and body.
Postings = tuple[Numbers, NDArray[np.uint32]]


class TermShare(NamedTuple):
    """One term's part: its weighted idf, and its rows with the codes of its counts and scores."""

    idf: float
    rows: Numbers
    codes: NDArray[np.uint32]
    scores: Floats
    #: The rows spoken by the speaker that the term names.
    speaker_rows: Numbers


def weight_query(query: Sequence[str], weak: frozenset[str]) -> dict[str, float]:
    """Return the weight of each term of a query."""
    counts = Counter(query)
    only_weak = all(term in weak for term in counts)
    return {
        term: 2 * count / (1 + count) * (WEIGHTS.weak if term in weak and not only_weak else 1)
        for term, count in counts.items()
    }


def weight_counts(counts: NDArray[np.integer[Any]]) -> Floats:
    """Return the weighted frequency for each code (shape of `counts`: codes, 3)."""
    worth = np.array([WEIGHTS.title, WEIGHTS.tags, WEIGHTS.body], np.float32)
    return counts.astype(np.float32) @ worth


def measure_idf(sections: int, count: int) -> float:
    """Return the idf of a term that `count` of `sections` sections contain."""
    return math.log1p((sections - count + 0.5) / (count + 0.5))


def list_rows(forms: Sequence[Postings]) -> Numbers:
    """Return the rows that contain any form of a term, in ascending order."""
    if len(forms) == 1:
        return forms[0][0]
    return sort_distinct(np.concatenate([rows for rows, _ in forms]))


def score_term(
    forms: Sequence[Postings],
    speaker_rows: Numbers,
    frequencies: Floats,
    eligible: EligibleRows,
    idf: float,
) -> TermShare:
    """Score the sections that contain a form of a term; sections that are not eligible score 0.

    `frequencies` has the weighted frequency of each code. `speaker_rows` are the rows spoken by the
    speaker that the term names. A section with several forms has the sum of their frequencies, and
    the code of the first.
    """
    rows, codes = forms[0]
    scores = frequencies[codes]
    if len(forms) > 1:
        all_rows, all_codes = map(np.concatenate, zip(*forms, strict=True))
        rows = sort_distinct(all_rows)
        places = rows.searchsorted(all_rows)
        scores = np.bincount(places, frequencies[all_codes], len(rows)).astype(np.float32)
        codes = np.empty(len(rows), np.uint32)
        codes[places[::-1]] = all_codes[::-1]
    scores /= scores + eligible.norm[rows]  # Infinite where a section is not eligible.
    scores *= idf * (eligible.length_norm[0] + 1)
    return TermShare(idf, rows, codes, scores, speaker_rows)


def add_shares(shares: Sequence[TermShare], total: Floats) -> None:
    """Add the scores of all terms to `total`."""
    for share in shares:
        np.add.at(total, share.rows, share.scores)  # No row occurs twice; faster than `+=`.


def best_rows(
    total: Floats, limit: int, place: NDArray[np.integer[Any]], shares: Sequence[TermShare] = ()
) -> Numbers:
    """Return at most `limit` rows that score above 0, best first, ties by place, then by row.

    The `limit`-th best score among the rows of one term is a lower bound; most rows are below it.
    """
    rows = (total > max(_find_bound(total, limit, shares), 0.0)).nonzero()[0]
    return rows[order_best(total[rows], place[rows], limit)]


def order_best(
    scores: NDArray[np.floating[Any]], place: NDArray[np.integer[Any]], limit: int
) -> Numbers:
    """Return the positions of the `limit` best scores, best first; ties by place, then position."""
    positions = np.arange(len(scores))
    if len(scores) > limit > 0:
        at = len(scores) - limit
        positions = positions[scores >= scores[scores.argpartition(at)[at]]]
    return positions[np.lexsort((place[positions], -scores[positions]))[: max(limit, 0)]]


def _find_bound(total: Floats, limit: int, shares: Sequence[TermShare]) -> float:
    """Return a score that at least `limit` rows reach, slightly reduced; 0 if unknown."""
    large = [share for share in shares if len(share.rows) >= limit > 0]
    if not large:
        return 0.0
    rarest = min(large, key=lambda share: len(share.rows))
    scores = total[rarest.rows]
    at = len(scores) - limit
    return float(np.nextafter(scores[scores.argpartition(at)[at]], np.float32(0)))


class Ranking(NamedTuple):
    """The best rows, best first, and the parts of their scores (shape of each: rows)."""

    rows: Numbers
    score: Doubles
    closeness: Doubles
    passage: Doubles
    neighbours: Doubles
    recency: Doubles
    semantic: Doubles
    named: Doubles

    def cut(self, chosen: Numbers | Sequence[int]) -> Ranking:
        """Return the chosen rows, in the given order."""
        chosen = np.asarray(chosen, np.int64)
        return Ranking(self.rows[chosen], *(part[chosen] for part in self.parts))

    @property
    def parts(self) -> tuple[Doubles, ...]:
        """The score and its parts."""
        return self[1:]


def count_candidates(limit: int) -> int:
    """Return how many of the best rows by words are ranked for a number of hits."""
    return max(2 * limit, WEIGHTS.candidates)


def count_read(limit: int) -> int:
    """Return for how many of the best rows by words the order of words counts."""
    return max(2 * limit, WEIGHTS.read)


def rank_rows(
    total: Floats,
    best: Numbers,
    read_rows: Numbers,
    gains: tuple[Doubles, Doubles, Doubles],
    neighbours: Neighbours | None,
    query_idf: float,
) -> Ranking:
    """Return the best rows and their neighbours with their relevance, unordered.

    `total` has the score by words of all rows, then a zero for a missing neighbour; it is changed.
    `read_rows` are rows in ascending order that get `gains`: closeness, best passage and named
    title. `query_idf` is the idf of the whole query.
    """
    total[read_rows] += gains[0] + gains[1] + gains[2]
    best = np.concatenate([read_rows, best[~are_among(best, read_rows)]])
    rows, neighbour_gains = _add_neighbours(total, best, neighbours, query_idf)
    empty = np.zeros(len(rows))
    parts = np.zeros((3, len(rows)))
    parts[:, : len(read_rows)] = gains
    return Ranking(
        rows=rows,
        score=total[rows] + neighbour_gains,
        closeness=parts[0],
        passage=parts[1],
        neighbours=neighbour_gains,
        recency=empty,
        semantic=empty,
        named=parts[2],
    )


def _add_neighbours(
    total: Floats, best: Numbers, neighbours: Neighbours | None, query_idf: float
) -> tuple[Numbers, Doubles]:
    """Return the best rows, then their neighbours, and the gain of each.

    A row gains a share of its neighbours' scores, more from a turn before it that asks. It loses by
    its subject. A neighbour without any query word is added only after one of the first turns that
    ask: otherwise its match could not be explained.
    """
    if neighbours is None or not len(best):
        return best, np.zeros(len(best))
    table, turns, asks, labels = neighbours
    near_rows = table[:, best].ravel().astype(np.int64)
    near_rows = near_rows[total[near_rows] > 0]
    if asks[best].any():
        first = best[order_best(total[best], best, WEIGHTS.answered)]
        answers = table[len(WEIGHTS.neighbours), first[asks[first]]]
        near_rows = np.concatenate([near_rows, answers[answers >= 0]])
    near_rows = sort_distinct(near_rows)
    rows = np.concatenate([best, near_rows[~are_among(near_rows, np.sort(best))]])
    own_scores, linked_rows, is_turn = total[rows].astype(np.float64), table[:, rows], turns[rows]
    linked_scores, usual_shares = total[linked_rows], np.array(WEIGHTS.neighbours * 2)
    gains: Doubles = usual_shares @ linked_scores
    if is_turn.any():
        share = np.where(
            turns[linked_rows], np.array(WEIGHTS.turns * 2)[:, None], usual_shares[:, None]
        )
        share[0] += WEIGHTS.asking * asks[linked_rows[0]]
        gains = np.where(is_turn, (share * linked_scores).sum(0), gains)
    gains = _damp_above(own_scores, gains)
    deficit = np.maximum(1 - own_scores / max(WEIGHTS.sufficient * query_idf, 1e-9), 0)
    distance = _compare_subjects(own_scores + gains, list_labels(labels, rows))
    return rows, gains - WEIGHTS.subject * deficit * distance


def _compare_subjects(scores: Doubles, labels: tuple[Numbers, Whole]) -> Doubles:
    """Return for each score the distance of its best subject to the best subject of all.

    A subject is a session or tag that several notes have; notes of one subject answer together (N.
    Jardine, C. van Rijsbergen, "The Use of Hierarchic Clustering in Information Retrieval", 1971;
    X. Liu, B. Croft, "Cluster-Based Retrieval Using Language Models", 2004, add a share of the
    cluster's score). Its score is the mean of its best notes. `labels` are the subjects of each
    score. The distance is 0 for a score without a subject.
    """
    position, label = labels
    if not len(label):
        return np.zeros(len(scores))
    order = np.lexsort((-scores[position], label))
    position, label = position[order], label[order]
    is_first = np.append(True, label[1:] != label[:-1])
    starts, group = is_first.nonzero()[0], is_first.cumsum() - 1
    counts = np.arange(len(label)) - starts[group] < WEIGHTS.subject_notes
    mean = np.bincount(group, scores[position] * counts) / WEIGHTS.subject_notes
    distance = np.full(len(scores), np.inf)
    np.minimum.at(distance, position, mean.max() - mean[group])
    distance[np.isinf(distance)] = 0
    return distance


def _damp_above(own_scores: Doubles, gains: Doubles) -> Doubles:
    """Reduce the gain that raises a section above the `lift_place`-th best to a share of it.

    The first places belong to sections that answer by themselves. Otherwise two half-relevant notes
    could raise each other above them.
    """
    if len(own_scores) <= WEIGHTS.lift_place:
        return gains
    place = len(own_scores) - WEIGHTS.lift_place
    room = np.minimum(np.maximum(np.partition(own_scores, place)[place] - own_scores, 0), gains)
    damped: Doubles = room + WEIGHTS.lift_share * (gains - room)
    return damped


def weigh_recency(share: float, terms: int) -> float:
    """Return the share of recency for a query of `terms` terms; `share` is the vault's setting.

    A long message continues current work; a short query looks something up.
    """
    least, usual, most = WEIGHTS.recent_terms
    return min(share * min(max(terms, least), most) / usual, 1.0)


def apply_decay(ranking: Ranking, recency: Floats, share: float, best: float = 0.0) -> Ranking:
    """Return a ranking whose scores are (1 - share) * relevance + share * best * recency.

    Without `best`, it is the largest relevance in the ranking.
    """
    if not share or not len(ranking.rows):
        return ranking
    best = best or float(ranking.score.max())
    change = share * (best * recency[ranking.rows] - ranking.score)
    return ranking._replace(score=ranking.score + change, recency=change)


def order_rows(
    ranking: Ranking, eligible: EligibleRows, ordinals: NDArray[np.integer[Any]]
) -> Ranking:
    """Return a ranking, best first, with scores multiplied by the weights of the notes' states.

    Equal scores are ordered by path, then by the section's position in its note.
    """
    rows = ranking.rows
    score = ranking.score * eligible.state_weight[rows]
    order = np.lexsort((ordinals[rows], eligible.place[rows], -score.round(5)))
    order = order[score[order] > 0]
    return ranking._replace(score=score).cut(order)


#: The number of nearest vectors that a query's vector is moved towards, and how far.
FEEDBACK = 3
FEEDBACK_WEIGHT = 0.5


def blend_scores(
    words: NDArray[np.floating[Any]], meaning: NDArray[np.floating[Any]], weight: float
) -> NDArray[np.float32]:
    """Return the blended scores of one query's candidates, 0..1 (shape: candidates).

    `weight` is the share of `words`, 0 to 1. A candidate with an unknown `meaning` (nan) gets the
    mean of the others, so its words alone decide.
    """
    is_known = np.isfinite(meaning)
    scaled = np.full(len(meaning), 0.0, np.float64)
    if is_known.any():
        scaled[is_known] = _scale(meaning[is_known])
        scaled[~is_known] = scaled[is_known].mean()
    blended: NDArray[np.float32] = (weight * _scale(words) + (1 - weight) * scaled).astype(
        np.float32
    )
    return blended


def best_of_each(
    scores: NDArray[np.float32], order: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the highest score of each group (shape: groups).

    `order` sorts the scores by group; `starts` is the start of each group in that order.
    """
    if not len(starts):
        return np.zeros(0, np.float32)
    best: NDArray[np.float32] = np.maximum.reduceat(scores[order], starts)
    return best


def best_groups(scores: NDArray[np.float32], limit: int) -> list[int]:
    """Return at most `limit` groups, best first; ties by number.

    Groups of -inf are omitted. The numbers are those of sorted keys, so that an index with another
    history chooses the same groups.
    """
    groups = np.flatnonzero(scores > -np.inf)
    best: list[int] = groups[order_best(scores[groups], groups, limit)].tolist()
    return best


def move_towards(vector: NDArray[np.float32], nearest: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a query's vector moved towards the nearest ones (shape: nearest, dimensions)."""
    moved = vector + FEEDBACK_WEIGHT * nearest.mean(axis=0)
    scaled: NDArray[np.float32] = (moved / max(float(np.linalg.norm(moved)), 1e-12)).astype(
        np.float32
    )
    return scaled


def _scale(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the values scaled to 0..1; all 0 if they are equal."""
    if not len(values):
        return np.zeros(0, np.float64)
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-12:
        return np.zeros(len(values), np.float64)
    return (values.astype(np.float64) - low) / (high - low)


K = TypeVar("K")

#: The share of the best linking section's score that a linked section gets.
LINK_SHARE = 0.3


def share_scores(
    ranked: Sequence[tuple[K, float]], links: Mapping[K, Sequence[K]], share: float = LINK_SHARE
) -> list[tuple[K, float, K | None]]:
    """Return sections with new scores, best first, and the section that gave each a share.

    `ranked` are sections with their own scores; `links` maps each to the sections it links to. A
    share is taken from a section's own score only, never from a received share. Ties keep their
    order.
    """
    own = dict(ranked)
    gifts: dict[K, tuple[float, K]] = {}
    for key, score in ranked:
        for target in links.get(key, ()):
            if target != key and score * share > gifts.get(target, (0.0, key))[0]:
                gifts[target] = (score * share, key)
    sections = [(key, score + gifts.get(key, (0.0,))[0], gifts.get(key)) for key, score in ranked]
    sections += [(key, gift[0], gift) for key, gift in gifts.items() if key not in own]
    sections.sort(key=lambda each: -round(each[1], 5))
    return [(key, score, gift[1] if gift else None) for key, score, gift in sections]


# The gains from the order of a section's terms: closeness, title, best passage.
#
# Closeness: adjacent query terms in title, tags or body add 0.6 of the smaller idf of each pair (T.
# Tao, C. Zhai, "An Exploration of Proximity Measures in Information Retrieval", 2007, measures
# why).
#
# Titles: a title with exactly the words of the query adds all idf once more. Otherwise the gain is
# multiplied by the share of the title's words in the query, and by the covered share of the query's
# idf to the power of four. A long message with one word of a title is not about that title.
#
# Passages: a section much longer than a passage is scored half as a whole and half by its best
# passage, as if that were a section of its own under the same title (J. Callan, "Passage-Level
# Evidence in Document Retrieval", 1994).


class Sequences(NamedTuple):
    """The term positions of some sections: title, one gap, tags, one gap, body.

    `marks` has all positions: 1 for the first query term and so on, 0 for any other term. `starts`
    has the start of each section and the end of the last. `title` and `tags` are the lengths of
    these fields in each section.
    """

    marks: NDArray[np.unsignedinteger[Any]]
    starts: Numbers
    title: Numbers
    tags: Numbers


class Occurrences(NamedTuple):
    """Occurrences of query terms: position in `Sequences.marks`, section, number of the term."""

    place: Numbers
    section: Numbers
    term: Numbers


def measure_order(
    sequences: Sequences,
    query: Sequence[int],
    idf: Doubles,
    words: NDArray[np.float32],
    is_by_speaker: NDArray[np.bool_],
    norm: tuple[float, float, float],
) -> tuple[Doubles, Doubles, Doubles]:
    """Return three gains: closeness, best passage, and a named title or speaker.

    `query` are the query's terms in order, as positions in `idf`. `words` are the sections' scores
    by words. `is_by_speaker` marks sections whose speaker the query names. `norm` is k1, b and the
    mean length.
    """
    occurrences = find_occurrences(sequences)
    closeness = measure_closeness(occurrences, len(words), query, idf)
    named_gain = measure_titles(sequences, occurrences, idf)
    passage = measure_passages(sequences, occurrences, idf * (norm[0] + 1), norm)
    named_gain = named_gain + WEIGHTS.speaker * (words + closeness + passage) * is_by_speaker
    return closeness, passage, named_gain


def find_occurrences(sequences: Sequences) -> Occurrences:
    """Return the positions of the query's terms."""
    place = sequences.marks.nonzero()[0]
    term = sequences.marks[place].astype(np.int64) - 1
    return Occurrences(place, sequences.starts.searchsorted(place, "right") - 1, term)


def measure_closeness(
    occurrences: Occurrences, count: int, query: Sequence[int], idf: Doubles
) -> Doubles:
    """Return the gain of adjacent query terms for each of `count` sections.

    `query` are the query's terms in order, as positions in `idf`.
    """
    bonus = np.zeros(count)
    term_count = len(idf)
    query_pairs = [(a, b) for a, b in pairwise(query) if a != b]
    if not query_pairs:
        return bonus
    gains = np.zeros((term_count, term_count))
    for a, b in query_pairs:
        gains[a, b] = WEIGHTS.pair * min(idf[a], idf[b])
    first, second = occurrences.term[:-1], occurrences.term[1:]
    positions = (
        (occurrences.place[1:] - occurrences.place[:-1] == 1)
        & (occurrences.section[1:] == occurrences.section[:-1])
        & (gains[first, second] > 0)
    ).nonzero()[0]
    if not len(positions):
        return bonus
    pairs = first[positions] * term_count + second[positions]
    keys = sort_distinct(occurrences.section[positions] * (term_count * term_count) + pairs)
    sections, pairs = np.divmod(keys, term_count * term_count)
    bonus += np.bincount(sections, gains.ravel()[pairs], count)
    return bonus


def measure_titles(sequences: Sequences, occurrences: Occurrences, idf: Doubles) -> Doubles:
    """Return the gain of each section whose title has the query's words and few others."""
    count, term_count = len(sequences.title), len(idf)
    offset = occurrences.place - sequences.starts[occurrences.section]
    positions = (offset < sequences.title[occurrences.section]).nonzero()[0]
    if not len(positions):
        return np.zeros(count)
    section = occurrences.section[positions]
    title_share = np.bincount(section, minlength=count) / np.maximum(sequences.title, 1)
    has_term = np.zeros((count, term_count))
    has_term[section, occurrences.term[positions]] = 1
    mass = float(idf.sum())
    covered = (has_term * idf).sum(1) / max(mass, 1e-9)
    gains: Doubles = WEIGHTS.named * mass * covered**4 * title_share
    return gains


def measure_passages(
    sequences: Sequences, occurrences: Occurrences, gain: Doubles, norm: tuple[float, float, float]
) -> Doubles:
    """Return the change (positive or negative) of each section's score by its best passage.

    `gain` is each term's idf times (k1 + 1); `norm` is k1, b and the mean length.
    """
    change = np.zeros(len(sequences.title))
    head = sequences.title + sequences.tags + 2
    length = sequences.starts[1:] - sequences.starts[:-1] - head
    long = (length > 1.5 * WEIGHTS.passage_terms).nonzero()[0]
    if not len(long):
        return change
    # From here on, `section` counts the long ones alone.
    renumbered = np.full(len(change), -1)
    renumbered[long] = np.arange(len(long))
    positions = (renumbered[occurrences.section] >= 0).nonzero()[0]
    section = renumbered[occurrences.section[positions]]
    head, length, title = head[long], length[long], sequences.title[long]
    offset = occurrences.place[positions] - sequences.starts[long][section]
    in_body = offset - head[section]
    is_head = in_body < 0
    # One row of counts for each passage, then one for each section's head.
    parts = np.rint(length / WEIGHTS.passage_terms).astype(np.int64)
    first = parts.cumsum() - parts
    term_count, bodies = len(gain), int(parts.sum())
    row = first[section] + in_body * parts[section] // length[section]
    row[is_head] = bodies + section[is_head]
    weight = np.full(len(row), WEIGHTS.body)
    weight[is_head] = np.where((offset < title[section])[is_head], WEIGHTS.title, WEIGHTS.tags)
    counts = np.bincount(
        row * term_count + occurrences.term[positions], weight, (bodies + len(long)) * term_count
    ).reshape(-1, term_count)
    heads = counts[bodies:]
    extra = WEIGHTS.title * title + WEIGHTS.tags * sequences.tags[long]
    size = WEIGHTS.body * length
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
    change[long] = WEIGHTS.passage_share * (best - scores[bodies:])
    return change


def _score(
    frequency: NDArray[np.floating[Any]],
    length: NDArray[np.floating[Any]],
    gain: Doubles,
    norm: tuple[float, float, float],
) -> Doubles:
    k1, b, mean = norm
    lengths = (k1 * (1 - b)) + (k1 * b / max(mean, 1e-9)) * length
    # No matrix product: its last bits depend on the number of rows.
    scores: Doubles = (frequency / (frequency + lengths[:, None]) * gain).sum(1)
    return scores
