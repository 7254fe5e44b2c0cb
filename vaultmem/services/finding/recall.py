"""Find the sections that answer a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, product
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vaultmem.core.finding.hit import Hit, Match
from vaultmem.core.finding.query import RecallQuery, keep_rarest
from vaultmem.core.finding.terms import FIELDS, weak_terms
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.services.finding.eligible import choose_sections
from vaultmem.services.finding.rerank import Reranker
from vaultmem.services.reading.behind import sync_once
from vaultmem.services.reading.heal import heals
from vaultmem.services.reading.texts import read_section
from vaultmem.storage.links import LinkStore
from vaultmem.storage.views import read_places
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.closeness import Sequences
    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.core.finding.ranking import Ranking, Share
    from vaultmem.storage.index.snapshot import Snapshot


class Scorer(Protocol):
    """Scores sections by meaning."""

    @property
    def weight(self) -> float:
        """The share of the words in the blend, 0 to 1."""

    def __call__(
        self, text: str, eligible: NDArray[np.bool_], snapshot: Snapshot
    ) -> NDArray[np.float32] | None:
        """Return a number for each row, nan where it has no vector; None without an answer."""


def list_replaced(vault: Vault) -> dict[int, list[str]]:
    """Return by document the names that a note gives under `supersedes`, of all views."""
    return LinkStore(vault.state).targets_in("supersedes")


def name_replaced(hits: Sequence[Hit], replaced: Mapping[int, Sequence[str]]) -> list[Hit]:
    """Return the hits with the names of the notes that theirs replaced."""
    return [
        hit._replace(replaces=tuple(replaced[hit.record.document]))
        if hit.record.document in replaced
        else hit
        for hit in hits
    ]


#: Sections ranked beyond those wanted, for notes that changed meanwhile.
_SPARE = 32

#: The fields of a match by whether the term stands in each of them.
_FIELD_NAMES = {has: tuple(compress(FIELDS, has)) for has in product((False, True), repeat=3)}


#: Rows whose note and section are kept for the next question.
_KEPT_PLACES = 4_096

#: Rows of terms whose part is kept for the next question, each 16 bytes.
_KEPT_SHARES = 4_000_000


class Ranked(NamedTuple):
    """A ranking, what each term gave to which row, and what could be found."""

    ranking: Ranking
    shares: dict[str, Share]
    eligible: EligibleRows


@heals
def recall(
    vault: Vault,
    query: RecallQuery,
    dense: Scorer | None = None,
    beyond: int = 0,
    reranker: Reranker | None = None,
) -> list[Hit]:
    """Return the best sections for the query, best first; ties in the order of path.

    Behind those asked for come `beyond` more, which change nothing in them. What is on disk is
    taken in first, once for each `open_vault`; later this looks at no file but those it returns.
    """
    sync_once(vault)
    snapshot = vault.index.snapshot()
    if not snapshot.size or not (query.terms or query.compounds or dense):
        return []
    wanted = query.limit + beyond
    if reranker is not None:
        query = query._replace(limit=max(query.limit, reranker.sections))
    ranked = rank_sections(vault, snapshot, query, dense)
    hits = _make_hits(vault, snapshot, ranked, max(query.limit, wanted))
    if reranker is not None:
        hits = reranker(query, hits)[:wanted]
    kept = ranked.eligible.kept
    if "replaced" not in kept:
        kept["replaced"] = list_replaced(vault)
    return name_replaced(hits, kept["replaced"])


def name_refs(vault: Vault, record: NoteRecord) -> tuple[str, ...]:
    """Return which refs hold a note, where several are looked at together."""
    return vault.view.sources_of(record.document) if len(vault.view.sources) > 1 else ()


def rank_sections(
    vault: Vault, snapshot: Snapshot, query: RecallQuery, dense: Scorer | None = None
) -> Ranked:
    """Return the best rows of a snapshot, best first."""
    from vaultmem.core.finding import ranking as rules
    from vaultmem.core.finding.weights import WEIGHTS

    eligible = choose_sections(vault, snapshot, query.filter, WEIGHTS)
    query = keep_rarest(query, snapshot.count_sections)
    asked = rules.weigh_query([*query.terms, *query.compounds], weak_terms(), WEIGHTS)
    asked |= {term: asked[term] * WEIGHTS.near for term in query.near}
    shares = {
        term: rules.weigh_share(_score_term(snapshot, term, eligible), weight)
        for term, weight in asked.items()
    }
    parts = list(shares.values())
    total = rules.add_shares(parts, snapshot.size)
    wanted = max(2 * query.limit, WEIGHTS.candidates)
    best = rules.best_rows(total, wanted, eligible.place, parts)
    meant = dense(query.text, eligible.mask, snapshot) if dense is not None else None
    if meant is not None:
        best = _add_nearest(best, meant, eligible, wanted)
    places = {term: place for place, term in enumerate(shares)}
    found = rules.rank_rows(
        total,
        parts,
        best,
        lambda rows: _read_sequences(snapshot, rows, list(shares)),
        [places[term] for term in query.terms],
        eligible,
        WEIGHTS,
        2 * query.limit if meant is None else len(best),
    )
    if dense is not None and meant is not None:
        found = _blend(found, meant, dense.weight)
    found = rules.apply_decay(found, eligible, vault.config.recency)
    ordinals = snapshot.column("ordinal")[found.rows]
    ordered = rules.order_rows(found, eligible, ordinals, query.limit + _SPARE)
    return Ranked(ordered, shares, eligible)


def _score_term(snapshot: Snapshot, term: str, eligible: EligibleRows) -> Share:
    """Return a term's part, kept for the next question that has the term."""
    from vaultmem.core.finding.ranking import score_term

    kept = eligible.kept.setdefault("terms", {})
    if term not in kept:
        held = eligible.kept.setdefault("held", {"rows": 0})
        if held["rows"] > _KEPT_SHARES:
            kept.clear()
            held["rows"] = 0
        kept[term] = score_term(snapshot.term(term), _weigh_counts(snapshot), eligible)
        held["rows"] += len(kept[term].rows)
    found: Share = kept[term]
    return found


def _weigh_counts(snapshot: Snapshot) -> NDArray[np.float32]:
    """Return the weighted frequency for each code of counts, kept for the next term."""
    from vaultmem.core.finding.ranking import weigh_counts
    from vaultmem.core.finding.weights import WEIGHTS

    if "frequencies" not in snapshot.kept:
        snapshot.kept["frequencies"] = weigh_counts(snapshot.counts, WEIGHTS)
    known: NDArray[np.float32] = snapshot.kept["frequencies"]
    return known


def _read_sequences(snapshot: Snapshot, rows: NDArray[np.int64], terms: Sequence[str]) -> Sequences:
    from vaultmem.core.finding.closeness import Sequences

    marks, starts = snapshot.mark_sequences(rows, terms)
    lengths = (snapshot.column(f"{name}_length")[rows].astype("i8") for name in ("title", "tags"))
    return Sequences(marks, starts, *lengths)


def _add_nearest(
    best: NDArray[np.int64], meant: NDArray[np.float32], eligible: EligibleRows, wanted: int
) -> NDArray[np.int64]:
    """Return the best rows by words, and behind them the best by meaning that are not there."""
    import numpy as np

    rows = (eligible.mask & ~np.isnan(meant)).nonzero()[0]
    if len(rows) > wanted:
        scores = meant[rows]
        at = len(scores) - wanted
        rows = rows[scores >= scores[scores.argpartition(at)[at]]]
    is_new = np.zeros(len(meant), np.bool_)
    is_new[rows[np.lexsort((eligible.place[rows], -meant[rows]))[:wanted]]] = True
    is_new[best] = False
    return np.concatenate([best, is_new.nonzero()[0]])


def _blend(ranking: Ranking, meant: NDArray[np.float32], weight: float) -> Ranking:
    import numpy as np

    from vaultmem.core.finding.blending import blend_scores

    dense = meant[ranking.rows]
    blended = blend_scores(ranking.score, dense, weight)
    score = np.asarray(blended, np.float64)
    return ranking._replace(score=score, semantic=np.nan_to_num(dense))


def _make_hits(vault: Vault, snapshot: Snapshot, ranked: Ranked, limit: int) -> list[Hit]:
    """Return the best sections with their texts."""
    hits: list[Hit] = []
    is_union = len(vault.view.sources) > 1
    asked = sum(share.idf for share in ranked.shares.values()) or 1.0
    start = 0
    while len(hits) < limit and start < len(ranked.ranking.rows):
        some = ranked.ranking.cut(slice(start, start + limit - len(hits)))
        rows = some.rows.tolist()
        start += len(rows)
        places = find_places(vault, snapshot, ranked.eligible, rows)
        matches = _explain(some.rows, ranked.shares, snapshot)
        weights = ranked.eligible.state_weight[some.rows].tolist()
        parts = zip(weights, *(part.tolist() for part in some.parts), strict=True)
        for row, matched, (weight, score, closeness, *others) in zip(
            rows, matches, parts, strict=True
        ):
            if row not in places:
                continue
            record, section = places[row]
            text = read_section(vault, record, section)
            if text is None:
                continue
            refs = name_refs(vault, record) if is_union else ()
            found = (record, section, text, score, matched, closeness, weight, refs, "", *others)
            hits.append(_measure_strength(Hit(*found), ranked.shares, asked))
    return hits


def _measure_strength(hit: Hit, shares: Mapping[str, Share], asked: float) -> Hit:
    """Return a hit with what it has of what was `asked`, the idf of all terms."""
    words = sum(match.score for match in hit.matches)
    covered = sum(shares[match.term].idf for match in hit.matches)
    relevance = words + hit.closeness + hit.passage + hit.neighbours
    return hit._replace(coverage=covered / asked, strength=relevance / asked)


def find_places(
    vault: Vault, snapshot: Snapshot, eligible: EligibleRows, rows: Sequence[int]
) -> dict[int, tuple[NoteRecord, SectionRecord]]:
    """Return note and section of each row, kept for the next question."""
    found: dict[int, tuple[NoteRecord, SectionRecord]] = eligible.kept.setdefault("places", {})
    if len(found) > _KEPT_PLACES:
        found.clear()
    unknown = [row for row in rows if row not in found]
    if unknown:
        columns = (snapshot.column(name)[unknown].tolist() for name in ("document", "ordinal"))
        keys = list(zip(*columns, strict=True))
        times = eligible.times[eligible.place[unknown]].tolist()
        known = read_places(vault.state, dict(zip(keys, times, strict=True)))
        for document, problem in vault.view.problems().items():
            for key in [key for key in known if key[0] == document]:
                record, section = known[key]
                known[key] = (record._replace(problem=problem), section)
        found |= {row: known[key] for row, key in zip(unknown, keys, strict=True) if key in known}
    return found


def _explain(
    rows: NDArray[np.int64], shares: dict[str, Share], snapshot: Snapshot
) -> list[tuple[Match, ...]]:
    """Return for each row the terms that stand in it."""
    found: list[list[Match]] = [[] for _ in range(len(rows))]
    for term, share in shares.items():
        if not len(share.rows):
            continue
        places = share.rows.searchsorted(rows)
        is_there = (share.rows.take(places, mode="clip") == rows).tolist()
        if True not in is_there:
            continue
        counted = (snapshot.counts[share.codes.take(places, mode="clip")] > 0).tolist()
        scores = share.scores.take(places, mode="clip").tolist()
        for matches, there, counts, score in zip(found, is_there, counted, scores, strict=True):
            if there:
                matches.append(Match(term, _FIELD_NAMES[tuple(counts)], score))
    return [tuple(matches) for matches in found]
