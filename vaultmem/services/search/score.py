"""Choose the sections that a query can find, score them, and sort the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vaultmem.core.indexing.note_facts import STATES
from vaultmem.core.lifecycle import STATE_WEIGHT
from vaultmem.core.search.query import WEIGHTS, NoteFilter, RecallQuery, Statistics, group_places
from vaultmem.core.search.terms import (
    ASKS,
    LINKS_ALONE,
    load_stemmer,
    mark_name,
    mark_speaker,
    weak_terms,
)
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.search.ranking import Postings, Ranking, TermShare
    from vaultmem.storage.index.snapshot import Snapshot

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]
    Numbers = NDArray[np.int64]
    from vaultmem.core.search.eligible import EligibleRows

#: The most rows of term scores to cache for the next query, each 16 bytes.
_KEPT_SHARES = 4_000_000

#: The most characters of a query that can be the name of a note.
_LONGEST_NAME = 200

#: The most sections to search for the wanted number of notes.
MAX_SEARCHED_SECTIONS = 2_000


class Scorer(Protocol):
    """Scores sections by meaning."""

    @property
    def weight(self) -> float:
        """The share of the words in the blend, 0 to 1."""

    def __call__(
        self, text: str, eligible: NDArray[np.bool_], snapshot: Snapshot
    ) -> NDArray[np.float32] | None:
        """Return a number for each row, nan for rows without a vector; None without an answer."""


class Depth(NamedTuple):
    """The number and kind of hits: `hits` at most, each of a different note if `by_note`.

    A reranker reads the best `sections` one by one. Hits that score below `floor` are omitted. The
    last three are scores by words over several vaults: the `best` of all, the lowest of a compared
    section (`least`), and the lowest of a section whose word order counts (`read`).
    """

    hits: int
    by_note: bool = False
    sections: int = 0
    floor: float = 0.0
    best: float = 0.0
    least: float = 0.0
    read: float = 0.0


class RankedSections(NamedTuple):
    """A ranking, and the sections of its rows as document and ordinal.

    `groups` are positions in the ranking: the shown section, then further sections of its note.
    `shares` are the scores by term, `query_idf` the weighted idf of all terms.
    """

    ranking: Ranking
    sections: list[tuple[int, int]]
    groups: list[list[int]]
    shares: Mapping[str, TermShare]
    query_idf: float


def rank_sections(
    scope: SearchScope,
    query: RecallQuery,
    statistics: Statistics,
    depth: Depth,
    dense: Scorer | None,
) -> RankedSections:
    """Return the best sections, grouped by note if `depth.by_note`."""
    query = query._replace(limit=max(query.limit, depth.sections))
    while True:
        ranked = _rank_once(scope, query, statistics, depth, dense)
        is_all = len(ranked.sections) < max(2 * query.limit, WEIGHTS.candidates)
        ranked = _keep_best_row(ranked)
        if not depth.by_note:
            return ranked._replace(groups=[[place] for place in range(len(ranked.sections))])
        documents = [document for document, _ in ranked.sections]
        groups = group_places(documents, ranked.ranking.score.tolist())
        if is_all or len(groups) >= depth.hits or query.limit >= MAX_SEARCHED_SECTIONS:
            return ranked._replace(groups=groups)
        query = widen_query(query)


def widen_query(query: RecallQuery) -> RecallQuery:
    """Return a query for which more sections are compared."""
    return query._replace(limit=min(4 * max(query.limit, WEIGHTS.read), MAX_SEARCHED_SECTIONS))


def _keep_best_row(ranked: RankedSections) -> RankedSections:
    """Return a ranking with the best row of each section: a compacted note has several in one."""
    if len(set(ranked.sections)) == len(ranked.sections):
        return ranked
    first_places = {section: n for n, section in reversed([*enumerate(ranked.sections)])}
    places = sorted(first_places.values())
    sections = [ranked.sections[place] for place in places]
    return ranked._replace(ranking=ranked.ranking.cut(places), sections=sections)


def score_rows(
    scope: SearchScope, query: RecallQuery, statistics: Statistics
) -> tuple[dict[str, TermShare], Floats, Numbers]:
    """Return the scores by term, the sum of each row, and the best rows.

    The last element of the sums is a zero for a missing neighbour.
    """
    import numpy as np

    from vaultmem.core.search import ranking as rules

    weights = rules.weight_query([*query.terms, *query.compounds], weak_terms(query.stemmer))
    weights |= {term: weights[term] * WEIGHTS.near for term in query.near}
    shares = _score_terms(scope, weights, statistics)
    total = np.zeros(scope.snapshot.size + 1, np.float32)
    rules.add_shares([*shares.values()], total)
    count = rules.count_candidates(query.limit)
    return shares, total, rules.best_rows(total, count, scope.eligible.place, [*shares.values()])


def _rank_once(
    scope: SearchScope,
    query: RecallQuery,
    statistics: Statistics,
    depth: Depth,
    dense: Scorer | None,
) -> RankedSections:
    """Return the best sections, ungrouped, best first."""
    import numpy as np

    from vaultmem.core.search import ranking as rules
    from vaultmem.core.search.eligible import sort_distinct

    eligible, snapshot = scope.eligible, scope.snapshot
    shares, total, best = score_rows(scope, query, statistics)
    if depth.least:
        best = best[total[best] >= depth.least]
        if not len(best) and dense is None:
            empty = rules.Ranking(best, *[np.zeros(0)] * 7)
            return RankedSections(empty, [], [], shares, 0.0)
    rows = best[: rules.count_read(query.limit)]
    rows = rows[total[rows] >= depth.read] if depth.read else rows
    named_rows, _ = snapshot.term(mark_name(query.text[:_LONGEST_NAME]))
    named_rows = named_rows[eligible.mask[named_rows]]
    meaning_scores = dense(query.text, eligible.mask, snapshot) if dense is not None else None
    if meaning_scores is not None:
        count = rules.count_candidates(query.limit)
        near_rows = (eligible.mask & ~np.isnan(meaning_scores)).nonzero()[0]
        near_rows = near_rows[
            rules.order_best(meaning_scores[near_rows], eligible.place[near_rows], count)
        ]
        rows = np.concatenate([best, near_rows])
    rows = sort_distinct(np.concatenate([rows, named_rows]))
    idf = [share.idf for share in shares.values()]
    bonuses = _measure_order(scope, query, shares, np.asarray(idf), total, rows)
    bonuses[2][rows.searchsorted(named_rows)] += WEIGHTS.named * sum(idf)
    ranking = rules.rank_rows(total, best, rows, bonuses, eligible.neighbours, sum(idf))
    if meaning_scores is not None and dense is not None:
        meaning_scores = meaning_scores[ranking.rows]
        score = rules.blend_scores(ranking.score, meaning_scores, dense.weight).astype(np.float64)
        ranking = ranking._replace(score=score, semantic=np.nan_to_num(meaning_scores))
    share = query.recency
    if share is None:
        weight = scope.vault.config.recency_weight
        share = rules.weigh_recency(weight, len(shares))
    ranking = rules.apply_decay(ranking, eligible.recency, share, 0.0 if dense else depth.best)
    ranking = rules.order_rows(ranking, eligible, snapshot.column("ordinal"))
    columns = (snapshot.column(name)[ranking.rows].tolist() for name in ("document", "ordinal"))
    return RankedSections(ranking, [*zip(*columns, strict=True)], [], shares, sum(idf))


def _score_terms(
    scope: SearchScope, weights: Mapping[str, float], statistics: Statistics
) -> dict[str, TermShare]:
    """Return the scores of each term; unweighted scores are cached for the next query."""
    import numpy as np

    from vaultmem.core.search import ranking as rules

    snapshot, cache = scope.snapshot, scope.eligible.cache.setdefault("terms", {})
    cache_size = scope.eligible.cache.setdefault("held", {"rows": 0})
    if "frequencies" not in snapshot.kept:
        snapshot.kept["frequencies"] = rules.weight_counts(snapshot.counts)
    frequencies = snapshot.kept["frequencies"]
    # Most vaults have no turns of speakers; they skip the look-up of each term.
    has_turns = len(snapshot.term(mark_speaker(""))[0]) > 0
    shares = {}
    for term, weight in weights.items():
        idf = rules.measure_idf(statistics.sections, statistics.counts[term])
        key = (term, scope.stemmer, idf)
        if key not in cache:
            if cache_size["rows"] > _KEPT_SHARES:
                cache.clear()
                cache_size["rows"] = 0
            speaker_rows, _ = snapshot.term(mark_speaker(term if has_turns else ""))
            forms = _read_forms(scope, term)
            cache[key] = rules.score_term(forms, speaker_rows, frequencies, scope.eligible, idf)
            cache_size["rows"] += len(cache[key].rows)
        share = shares[term] = cache[key]
        if weight != 1:
            scores = share.scores * np.float32(weight)
            shares[term] = share._replace(idf=share.idf * weight, scores=scores)
    return shares


def _measure_order(
    scope: SearchScope,
    query: RecallQuery,
    shares: Mapping[str, TermShare],
    idf: Doubles,
    total: Floats,
    rows: Numbers,
) -> tuple[Doubles, Doubles, Doubles]:
    """Return the gains of some rows by the order of words; `rows` are in ascending order."""
    import numpy as np

    from vaultmem.core.search.ranking import Sequences, measure_order

    if not (shares and len(rows)):  # A query without terms can be answered by meaning alone.
        empty = np.zeros(len(rows))
        return empty, empty, empty
    marks, starts = scope.snapshot.mark_sequences(
        rows, [_list_forms(scope, term) for term in shares]
    )
    title, tags = (
        scope.snapshot.column(f"{name}_length")[rows].astype("i8") for name in ("title", "tags")
    )
    places = {term: place for place, term in enumerate(shares)}
    eligible = scope.eligible
    return measure_order(
        Sequences(marks, starts, title, tags),
        [places[term] for term in query.terms],
        idf,
        total[rows],
        _find_spoken([*shares.values()], rows),
        eligible.length_norm,
    )


def _find_spoken(shares: Sequence[TermShare], rows: Numbers) -> NDArray[np.bool_]:
    """Return for each row whether the query names its speaker."""
    import numpy as np

    from vaultmem.core.search.eligible import are_among

    is_said = np.zeros(len(rows), np.bool_)
    for speaker_rows in (share.speaker_rows for share in shares if len(share.speaker_rows)):
        is_said |= are_among(rows, speaker_rows)
    return is_said


def find_other_turns(snapshot: Snapshot, shares: Sequence[TermShare], rows: Numbers) -> list[bool]:
    """Return for each row whether it is a turn of one speaker while the query names another."""
    from vaultmem.core.search.eligible import are_among

    if not any(len(share.speaker_rows) for share in shares):
        return [False] * len(rows)
    turns, _ = snapshot.term(mark_speaker(""))
    others: list[bool] = (are_among(rows, turns) & ~_find_spoken(shares, rows)).tolist()
    return others


#: The most views and filters to cache the choice of, each some bytes per section.
_KEPT_CHOICES = 8

#: The least letters of a term that counts as a part of longer ones.
_MIN_PART = 6

#: The most terms to cache the counts of.
_KEPT_COUNTS = 8_192

_COLUMNS = (
    "document",
    "state",
    "created",
    "updated",
    "title_length",
    "tags_length",
    "body_length",
)


class SearchScope(NamedTuple):
    """A vault, its current index, and the rows that a query can find.

    Terms that `stemmer` unifies count as one term, see `find_stemmer`.
    """

    vault: Vault
    snapshot: Snapshot
    eligible: EligibleRows
    stemmer: str = ""


def choose_scope(vault: Vault, note_filter: NoteFilter, stemmer: str = "") -> SearchScope | None:
    """Return the sections that view and filter accept; None for an empty index."""
    snapshot = vault.index.snapshot()
    if not snapshot.size:
        return None
    return SearchScope(vault, snapshot, choose_sections(vault, snapshot, note_filter), stemmer)


def count_term(scope: SearchScope, term: str) -> tuple[int, int]:
    """Return the number of eligible sections and of all sections that contain a term, cached."""
    from vaultmem.core.search.ranking import list_rows

    cache = scope.eligible.cache.setdefault("counts", {})
    key = (term, scope.stemmer)
    if key not in cache:
        if len(cache) > _KEPT_COUNTS:
            cache.clear()
        rows = list_rows(_read_forms(scope, term))
        cache[key] = int(scope.eligible.mask[rows].sum()), len(rows)
    counts: tuple[int, int] = cache[key]
    return counts


def _read_forms(scope: SearchScope, term: str) -> list[Postings]:
    """Return the postings of each form of a term."""
    return [scope.snapshot.term(form) for form in _list_forms(scope, term)]


def _list_forms(scope: SearchScope, term: str) -> list[str]:
    """Return a term, and terms of the vault with the same stem or with a part in common."""
    if not scope.stemmer or not term.isalpha():
        return [term]
    cache = scope.snapshot.kept.setdefault("forms", {})
    key = (term, scope.stemmer)
    if key not in cache:
        if len(cache) > _KEPT_COUNTS:
            cache.clear()
        stem = load_stemmer(scope.stemmer)
        common = stem(term)
        others = (each for each in scope.snapshot.list_terms(common) if stem(each) == common)
        cache[key] = [*dict.fromkeys([term, *others, *_list_joined(scope.snapshot, term)])]
    forms: list[str] = cache[key]
    return forms


def _list_joined(snapshot: Snapshot, term: str) -> list[str]:
    """Return the terms that begin with a term, and those that it begins or ends with.

    Some languages join words: `Datenbankverbindung` consists of `Datenbank` and `Verbindung`.
    """
    if len(term) < _MIN_PART:
        return []
    parts = {part for n in range(_MIN_PART, len(term)) for part in (term[:n], term[-n:])}
    shorter_terms = sorted(part for part in parts if len(snapshot.term(part)[0]))
    return [*filter(str.isalpha, snapshot.list_terms(term)), *shorter_terms]


def weight_scope(scope: SearchScope, statistics: Statistics) -> SearchScope:
    """Return the scope with length norms and recency from the statistics of all vaults, cached."""
    from vaultmem.core.search.eligible import weight_rows

    eligible = scope.eligible
    figures = statistics[:3]
    if figures == eligible.statistics[:3]:
        return scope
    cache = eligible.cache.setdefault("weighed", {})
    if figures not in cache:
        columns = {name: scope.snapshot.column(name) for name in _COLUMNS}
        links_alone = scope.snapshot.term(LINKS_ALONE)[0]
        cache.clear()
        cache[figures] = weight_rows(eligible, columns, links_alone, Statistics(*figures))
    return scope._replace(eligible=cache[figures])


def choose_sections(vault: Vault, snapshot: Snapshot, note_filter: NoteFilter) -> EligibleRows:
    """Return the sections of notes that view and filter accept, cached for a few filters."""
    from vaultmem.core.search.eligible import EligibleRows, make_eligible

    key = ("eligible", vault.view.key(), note_filter)
    cached = snapshot.kept.get(key)
    if isinstance(cached, EligibleRows):
        return cached
    eligible = make_eligible(
        {name: snapshot.column(name) for name in _COLUMNS},
        vault.view.choose(note_filter),
        [STATES.index(state) for state in note_filter.wanted_states],
        [STATE_WEIGHT.get(state, 1.0) for state in STATES],
        snapshot.labels(),
        {mark: snapshot.term(mark)[0] for mark in (ASKS, LINKS_ALONE, mark_speaker(""))},
        vault.now(),
    )
    if len(snapshot.kept) >= _KEPT_CHOICES:
        snapshot.kept.clear()
    snapshot.kept[key] = eligible
    return eligible
