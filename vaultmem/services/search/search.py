"""Search a vault in two steps: count the matches of a query's terms, then score sections.

Several vaults are searched as one: their statistics are added up, each vault is searched with the
sum, and the hits are merged by score. Arguments and results are plain values, so vaults can be in
other processes. Neighbours and recency are weighted inside each vault.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, pairwise, product
from typing import TYPE_CHECKING

from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.core.search.query import (
    WEIGHTS,
    Hit,
    Match,
    RecallQuery,
    RelatedSection,
    Statistics,
    select_rarest,
)
from vaultmem.core.search.terms import FIELDS, mark_stop_word, split_words, stem_word
from vaultmem.services.search.score import (
    Depth,
    Scorer,
    SearchScope,
    choose_scope,
    count_term,
    find_other_turns,
    rank_sections,
    score_rows,
    weight_scope,
)
from vaultmem.services.views.texts import read_section, read_sections
from vaultmem.services.views.update_index import retries_after_rebuild, sync_once
from vaultmem.storage.link_table import LinkStore
from vaultmem.storage.views import read_places
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.search.eligible import Spellings
    from vaultmem.core.search.ranking import TermShare
    from vaultmem.services.search.score import RankedSections
    from vaultmem.storage.index.snapshot import Snapshot

#: The sections whose text a query of stop words reads.
_ORDERED = 32

#: Scores that differ by less are treated as equal when hits are merged.
_TIE = 1e-4

#: The most candidate terms for a misspelt word, and the sections read for each.
_MAX_CANDIDATE_TERMS = 12
_MAX_SAMPLE_SECTIONS = 4


@retries_after_rebuild
def count(
    vault: Vault, query: RecallQuery, misspelt: Sequence[str] = (), is_alone: bool = False
) -> Statistics:
    """Return a vault's statistics for a query, with words similar to the `misspelt` ones.

    `is_alone` is as in `find_near_stems`. An empty vault has statistics of 0.
    """
    sync_once(vault)
    scope = choose_scope(vault, query.filter, query.stemmer)
    if scope is None:
        return Statistics()
    counts = {term: count_term(scope, term) for term in (*query.terms, *query.compounds)}
    return scope.eligible.statistics._replace(
        counts={term: number for term, (number, _) in counts.items()},
        totals={term: total for term, (_, total) in counts.items()},
        near={word: _find_near_words(scope, word, is_alone) for word in misspelt},
    )


@retries_after_rebuild
def search(
    vault: Vault,
    query: RecallQuery,
    statistics: Statistics,
    depth: Depth | None = None,
    dense: Scorer | None = None,
) -> list[Hit]:
    """Return the best hits of a vault, best first; ties are in the order of path.

    `statistics` are the sum over all searched vaults. Sections are compared for `query.limit` hits;
    without `depth`, so many are returned.
    """
    unweighted_scope = choose_scope(vault, query.filter, query.stemmer)
    if unweighted_scope is None or not (query.terms or query.compounds or dense):
        return []
    depth = depth or Depth(query.limit)
    query = select_rarest(query, statistics.totals)
    scope = weight_scope(unweighted_scope, statistics)
    ranked = rank_sections(scope, query, statistics, depth, dense)
    groups, limit = ranked.groups, depth.hits
    if depth.sections:  # A reranker reads the best sections, and the first of further notes.
        firsts = [group[0] for group in groups]
        best = range(min(depth.sections, len(ranked.sections)))
        groups = [[place] for place in sorted({*best, *firsts})]
        limit = len({*best, *firsts[: depth.hits]})
    if query.is_of_stop_words:
        hits = make_hits(scope, ranked, groups, max(limit, _ORDERED), query.words)
        return sorted(map(partial(_add_order, query), hits), key=lambda hit: -hit.score)[:limit]
    if depth.floor:
        scores = ranked.ranking.score.tolist()
        groups = [group for group in groups if scores[group[0]] >= depth.floor]
    return make_hits(scope, ranked, groups, limit, query.words)


@retries_after_rebuild
def score_words(vault: Vault, query: RecallQuery, statistics: Statistics) -> list[float]:
    """Return the best scores by words of a vault, the highest first.

    Over several vaults, the scores select as many sections for closer comparison as in one vault.
    """
    unweighted_scope = choose_scope(vault, query.filter, query.stemmer)
    if unweighted_scope is None:
        return []
    query = select_rarest(query, statistics.totals)
    _, total, best = score_rows(weight_scope(unweighted_scope, statistics), query, statistics)
    scores: list[float] = total[best].tolist()
    return scores


class MultiVaultSearch:
    """Searches vaults one after another; hits that cannot be in the result are not read.

    Such hits score below `floor`.
    """

    def __init__(
        self,
        query: RecallQuery,
        statistics: Statistics,
        depth: Depth,
        dense: Scorer | None = None,
    ) -> None:
        self._asked, self._depth, self._dense = (query, statistics), depth, dense
        self._best: list[float] = []
        self.floor = 0.0

    def __call__(self, vault: Vault) -> list[Hit]:
        """Return the best hits of the next vault."""
        many = self._depth.hits
        hits = search(vault, *self._asked, self._depth._replace(floor=self.floor), self._dense)
        self._best = heapq.nlargest(many, [*self._best, *(hit.score for hit in hits)])
        if len(self._best) == many and not self._depth.sections and self._dense is None:
            self.floor = self._best[-1] - _TIE
        return hits


def merge_hits(
    hits_by_vault: Sequence[tuple[str, Sequence[Hit]]], limit: int = 0, by_words: float = 1.0
) -> list[Hit]:
    """Return the hits of several vaults, best first.

    `hits_by_vault` is a list of pairs: the name of a vault, and its hits. Ties are in the order of
    path. `limit` is the most hits, 0 for all. `by_words` is the share of the score by words in a
    blend with meaning.
    """
    if len(hits_by_vault) == 1:
        return [*hits_by_vault[0][1]]
    if by_words < 1:
        hits_by_vault = _blend_again(hits_by_vault, by_words)
    labelled_hits = [hit._replace(vault=name) for name, hits in hits_by_vault for hit in hits]

    def rank(hit: Hit) -> tuple[float, str, int]:
        return -round(hit.score, 5), hit.record.path, hit.section.ordinal

    return sorted(labelled_hits, key=rank)[: limit or None]


def _add_order(query: RecallQuery, hit: Hit) -> Hit:
    """Return a hit with the gain of adjacent stop words, whose order the index does not store."""
    idf = {match.term: match.idf for match in hit.matches}
    words = [*map(mark_stop_word, split_words(f"{hit.name}\n{hit.text}"))]
    pairs = {*pairwise(query.compounds)} & {*pairwise(words)}
    gain = WEIGHTS.pair * sum(min(idf[a], idf[b]) for a, b in pairs if a in idf and b in idf)
    return hit._replace(score=hit.score + gain, closeness=gain)


def _blend_again(
    hits_by_vault: Sequence[tuple[str, Sequence[Hit]]], by_words: float
) -> list[tuple[str, list[Hit]]]:
    """Return hits with scores by words and meaning that are comparable between vaults."""
    import numpy as np

    from vaultmem.core.search.ranking import blend_scores

    hits = [hit for _, own in hits_by_vault for hit in own]
    words = np.asarray([hit.relevance for hit in hits])
    meaning = np.asarray([hit.semantic or np.nan for hit in hits])
    blended: Iterator[float] = iter(blend_scores(words, meaning, by_words).tolist())

    def score(hit: Hit) -> float:
        return (next(blended) + hit.recency) * hit.state_weight

    return [(name, [hit._replace(score=score(hit)) for hit in own]) for name, own in hits_by_vault]


def _find_near_words(scope: SearchScope, word: str, is_alone: bool) -> dict[str, int]:
    """Return similar words of the vault, each with the number of sections that contain its term."""
    from vaultmem.core.search.eligible import allow_distance, find_near_stems, measure_distance

    max_distance = allow_distance(word, is_alone)
    if not max_distance:
        return {}
    stem = stem_word(word)
    neighbours = {
        each
        for terms in _read_vocabulary(scope)
        for each in find_near_stems(word, stem, terms, max_distance, is_alone)
    }
    candidates = [(distance, -count_term(scope, term)[0], term) for distance, term in neighbours]
    words = {}
    for _, count, term in sorted(each for each in candidates if each[1])[:_MAX_CANDIDATE_TERMS]:
        for other in _read_words(scope, term):
            if measure_distance(word, other, max_distance) <= max_distance:
                words[other] = -count
    return words


def _read_words(scope: SearchScope, term: str) -> set[str]:
    """Return the words of a term in the first sections that contain it."""
    rows, _ = scope.snapshot.term(term)
    sample = rows[scope.eligible.mask[rows]][:_MAX_SAMPLE_SECTIONS].tolist()
    words: set[str] = set()
    for note, section in find_places(scope, sample).values():
        names = [note.title, section.heading, *section.parents, *note.tags, note.path]
        text = read_section(scope.vault, note, section) or ""
        words.update(split_words("\n".join([text, *names])))
    return {word for word in words if stem_word(word) == term}


def _read_vocabulary(scope: SearchScope) -> list[Spellings]:
    """Return the terms of all segments, cached for the next query."""
    from vaultmem.core.search.eligible import read_spellings

    spellings: list[Spellings] | None = scope.snapshot.kept.get("spellings")
    if spellings is None:
        spellings = [read_spellings(names, starts) for names, starts in scope.snapshot.vocabulary()]
        scope.snapshot.kept["spellings"] = spellings
    return spellings


#: The names of a match's fields, by whether the term is in each of them.
_FIELD_NAMES = {has: tuple(compress(FIELDS, has)) for has in product((False, True), repeat=3)}

#: Rows whose note and section are cached for the next query.
_KEPT_PLACES = 4_096


def make_hits(
    scope: SearchScope,
    ranked: RankedSections,
    groups: Sequence[Sequence[int]],
    limit: int,
    words: Mapping[str, str],
) -> list[Hit]:
    """Return a hit with its text for each of the first groups; `words` has the word of each term.

    If a note changed since it was indexed, the next group replaces it.
    """
    hits: list[Hit] = []
    rows, scores = ranked.ranking.rows.tolist(), ranked.ranking.score.tolist()
    start = 0
    while len(hits) < limit and start < len(groups):
        batch = groups[start : start + limit - len(hits)]
        start += len(batch)
        places = find_places(scope, [rows[place] for group in batch for place in group])
        batch = [group for group in batch if rows[group[0]] in places]
        best = ranked.ranking.cut([first for first, *_ in batch])
        matches = explain(best.rows, ranked.shares, scope.snapshot, words)
        parts = zip(*(part.tolist() for part in best.parts), strict=True)
        by_other = find_other_turns(scope.snapshot, [*ranked.shares.values()], best.rows)
        for group, row_matches, row_parts, is_other in zip(
            batch, matches, parts, by_other, strict=True
        ):
            record, section = places[rows[group[0]]]
            text = read_section(scope.vault, record, section)
            if text is None:
                continue
            score, closeness, passage, neighbours, recency, semantic, name_score = row_parts
            related = ((places[rows[n]][1], scores[n]) for n in group[1:] if rows[n] in places)
            hits.append(
                Hit(
                    record,
                    section,
                    text,
                    score,
                    row_matches,
                    closeness,
                    float(scope.eligible.state_weight[rows[group[0]]]),
                    add_refs(scope.vault, record),
                    passage=passage,
                    neighbours=neighbours,
                    recency=recency,
                    semantic=semantic,
                    named=name_score,
                    replaces=_find_replaced(scope, record),
                    query_idf=ranked.query_idf,
                    by_other=is_other,
                    related_sections=tuple(
                        RelatedSection(s.heading, s.line, score) for s, score in related
                    ),
                )
            )
    return hits


def _find_replaced(scope: SearchScope, record: NoteRecord) -> tuple[str, ...]:
    """Return the notes that a note supersedes."""
    cache = scope.eligible.cache
    if "replaced" not in cache:
        cache["replaced"] = LinkStore(scope.vault.state).targets_in("supersedes")
    return tuple(cache["replaced"].get(record.document, ()))


def find_places(
    scope: SearchScope, rows: Sequence[int]
) -> dict[int, tuple[NoteRecord, SectionRecord]]:
    """Return note and section of each row that has them, cached for the next query."""
    vault, snapshot, eligible, _ = scope
    cache: dict[int, tuple[NoteRecord, SectionRecord]] = eligible.cache.setdefault("places", {})
    if len(cache) > _KEPT_PLACES:
        cache.clear()
    new_rows = [row for row in rows if row not in cache]
    if new_rows:
        columns = (snapshot.column(name)[new_rows].tolist() for name in ("document", "ordinal"))
        keys = list(zip(*columns, strict=True))
        times = eligible.times[eligible.place[new_rows]].tolist()
        places = read_places(vault.state, dict(zip(keys, times, strict=True)))
        for document, problem in vault.view.problems().items():
            for key in [key for key in places if key[0] == document]:
                record, section = places[key]
                places[key] = (record._replace(problem=problem), section)
        cache |= {
            row: places[key] for row, key in zip(new_rows, keys, strict=True) if key in places
        }
    return {row: cache[row] for row in rows if row in cache}


def explain(
    rows: NDArray[np.int64],
    shares: Mapping[str, TermShare],
    snapshot: Snapshot,
    words: Mapping[str, str],
) -> list[tuple[Match, ...]]:
    """Return the matching terms of each row."""
    matches_by_row: list[list[Match]] = [[] for _ in range(len(rows))]
    for term, share in shares.items():
        if not len(share.rows):
            continue
        places = share.rows.searchsorted(rows)
        flags = (share.rows.take(places, mode="clip") == rows).tolist()
        if True not in flags:
            continue
        field_flags = (snapshot.counts[share.codes.take(places, mode="clip")] > 0).tolist()
        scores = share.scores.take(places, mode="clip").tolist()
        for row_matches, is_match, counts, score in zip(
            matches_by_row, flags, field_flags, scores, strict=True
        ):
            if is_match:
                fields = _FIELD_NAMES[tuple(counts)]
                row_matches.append(Match(term, fields, score, share.idf, words.get(term, term)))
    return [tuple(row_matches) for row_matches in matches_by_row]


def add_refs(vault: Vault, record: NoteRecord) -> tuple[str, ...]:
    """Return the refs that contain a note, if several refs are searched together."""
    return vault.view.sources_of(record.document) if len(vault.view.sources) > 1 else ()


def list_sections(vault: Vault, records: Sequence[NoteRecord]) -> list[Hit]:
    """Return all sections of notes, in the order of the notes."""
    sections = vault.view.sections_of({record.document for record in records})
    ordinals: dict[int, list[int]] = {}
    for document, ordinal in sorted(sections):
        ordinals.setdefault(document, []).append(ordinal)
    places = [
        (record, sections[record.document, ordinal])
        for record in records
        for ordinal in ordinals.get(record.document, [])
    ]
    return [
        Hit(record, section, text, 0.0, (), 0.0, 1.0, add_refs(vault, record))
        for record, section, text in read_sections(vault, places)
    ]
