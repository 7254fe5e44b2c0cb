"""Find the sections that answer a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from vaultmem.core.finding.grouping import group_hits, group_places
from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import RecallQuery, keep_rarest
from vaultmem.core.finding.reranking import Reranker
from vaultmem.core.finding.terms import mark_speaker, weak_terms
from vaultmem.services.finding.eligible import choose_sections
from vaultmem.services.finding.hits import Ranked, make_hits
from vaultmem.services.reading.behind import sync_once
from vaultmem.services.reading.heal import heals
from vaultmem.storage.links import LinkStore
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


#: Sections in which so many notes as are wanted are looked for, at most.
_DEEPEST = 2_000

#: Rows of terms whose part is kept for the next question, each 16 bytes.
_KEPT_SHARES = 4_000_000


def recall(
    vault: Vault,
    query: RecallQuery,
    dense: Scorer | None = None,
    beyond: int = 0,
    reranker: Reranker | None = None,
    by_note: bool = False,
) -> list[Hit]:
    """Return the best sections for the query, best first; ties in the order of path.

    Behind those asked for come `beyond` more, which change nothing in them. `by_note` counts
    notes, and returns the best section of each. What is on disk is taken in first, once for each
    `open_vault`; later this looks at no file but those it returns.
    """
    return recall_corrected(vault, query, dense, beyond, reranker, by_note, corrects=False)[1]


@heals
def recall_corrected(
    vault: Vault,
    query: RecallQuery,
    dense: Scorer | None,
    beyond: int,
    reranker: Reranker | None,
    by_note: bool,
    corrects: bool,
) -> tuple[RecallQuery, list[Hit]]:
    """Return what answers as `recall` does, and the query, misspelt words corrected if wanted."""
    from vaultmem.core.finding.weights import WEIGHTS

    sync_once(vault)
    snapshot = vault.index.snapshot()
    if not snapshot.size or not (query.terms or query.compounds or dense):
        return query, []
    eligible = choose_sections(vault, snapshot, query.filter, WEIGHTS)
    if corrects:
        from vaultmem.services.finding.respell import respell

        given, query = query, respell(vault, snapshot, eligible, query)
        if query.replaced and given.filter.with_archived:  # What they alone say is no suggestion.
            plain = given.filter._replace(with_archived=False)
            known = choose_sections(vault, snapshot, plain, WEIGHTS)
            query = respell(vault, snapshot, known, given)
    wanted = query.limit + beyond
    least = reranker.sections if reranker is not None else 0
    asked = query._replace(limit=max(query.limit, least))
    rank = partial(rank_sections, vault, snapshot, eligible, dense=dense)
    ranked, groups = _rank_deeper(asked, rank, wanted) if by_note else _rank_once(asked, rank)
    many = wanted
    if least:
        groups, many = _take_apart(groups, range(min(least, len(ranked.sections))), wanted)
    hits = make_hits(vault, snapshot, ranked, groups, many)
    if reranker is not None:
        hits = reranker(asked, hits)
        hits = (group_hits(hits) if by_note else hits)[:wanted]
    if "replaced" not in eligible.kept:
        eligible.kept["replaced"] = list_replaced(vault)
    return query, name_replaced(hits, eligible.kept["replaced"])


def rank_sections(
    vault: Vault,
    snapshot: Snapshot,
    eligible: EligibleRows,
    query: RecallQuery,
    dense: Scorer | None = None,
) -> Ranked:
    """Return the best rows of a snapshot, best first."""
    from vaultmem.core.finding import ranking as rules
    from vaultmem.core.finding.weights import WEIGHTS

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
    found = rules.order_rows(found, eligible, ordinals)
    documents = snapshot.column("document")[found.rows].tolist()
    ordinals = snapshot.column("ordinal")[found.rows].tolist()
    return Ranked(found, [*zip(documents, ordinals, strict=True)], shares, eligible)


#: A ranking, and its places as `make_hits` takes them.
Grouped = tuple[Ranked, list[list[int]]]


def _rank_once(query: RecallQuery, rank: Callable[[RecallQuery], Ranked]) -> Grouped:
    """Return a ranking, each section by itself."""
    ranked = _name_once(rank(query))
    return ranked, [[place] for place in range(len(ranked.sections))]


def _rank_deeper(query: RecallQuery, rank: Callable[[RecallQuery], Ranked], notes: int) -> Grouped:
    """Return a ranking that has so many notes, if there are, each note with its sections."""
    from vaultmem.core.finding.weights import WEIGHTS

    while True:
        ranked = rank(query)
        is_all = len(ranked.sections) < max(2 * query.limit, WEIGHTS.candidates)
        ranked = _name_once(ranked)
        documents = [document for document, _ in ranked.sections]
        groups = group_places(documents, ranked.ranking.score.tolist())
        if is_all or len(groups) >= notes or query.limit >= _DEEPEST:
            return ranked, groups
        query = query._replace(limit=min(4 * max(query.limit, WEIGHTS.read), _DEEPEST))


def _name_once(ranked: Ranked) -> Ranked:
    """Return a ranking with the best row of each section: what was shortened has many in one."""
    if len(set(ranked.sections)) == len(ranked.sections):
        return ranked
    first = {section: n for n, section in reversed([*enumerate(ranked.sections)])}
    places = sorted(first.values())
    sections = [ranked.sections[place] for place in places]
    return ranked._replace(ranking=ranked.ranking.cut(places), sections=sections)


def _take_apart(
    groups: Sequence[Sequence[int]], best: Iterable[int], notes: int
) -> tuple[list[list[int]], int]:
    """Return the best sections and the first of each note, by themselves; and how many to take.

    A model reads each of the best, and behind them what is missing for so many notes.
    """
    firsts = [group[0] for group in groups]
    return [[place] for place in sorted({*best, *firsts})], len({*best, *firsts[:notes]})


def _score_term(snapshot: Snapshot, term: str, eligible: EligibleRows) -> Share:
    """Return a term's part, kept for the next question that has the term."""
    from vaultmem.core.finding.ranking import score_term

    kept = eligible.kept.setdefault("terms", {})
    if term not in kept:
        held = eligible.kept.setdefault("held", {"rows": 0})
        if held["rows"] > _KEPT_SHARES:
            kept.clear()
            held["rows"] = 0
        said, _ = snapshot.term(mark_speaker(""))
        if len(said):  # Most vaults have no turns, and spare the look-up of each term.
            said, _ = snapshot.term(mark_speaker(term))
        kept[term] = score_term(snapshot.term(term), said, _weigh_counts(snapshot), eligible)
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
