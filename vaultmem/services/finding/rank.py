"""Rank what a question finds: in one vault, or in several as in one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from vaultmem.core.finding.query import RecallQuery, keep_rarest
from vaultmem.core.finding.terms import weak_terms
from vaultmem.services.finding.hits import Ranked
from vaultmem.services.finding.parts import Part, Scorer, Searched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.closeness import Sequences
    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.core.finding.ranking import Ranking, Share


def rank_sections(searched: Searched, query: RecallQuery, dense: Scorer | None = None) -> Ranked:
    """Return the best rows of what is searched, best first."""
    import numpy as np

    from vaultmem.core.finding import ranking as rules
    from vaultmem.core.finding.weights import WEIGHTS

    parts, eligible = searched.parts, searched.eligible
    query = keep_rarest(query, lambda term: sum(p.snapshot.count_sections(term) for p in parts))
    asked = rules.weigh_query([*query.terms, *query.compounds], weak_terms(), WEIGHTS)
    asked |= {term: asked[term] * WEIGHTS.near for term in query.near}
    total, shares = _score_parts(searched, asked)
    wanted = max(2 * query.limit, WEIGHTS.candidates)
    bounds = shares[0] if len(parts) == 1 else ()
    best = rules.best_rows(total, wanted, eligible.place, bounds)
    meant = _score_meaning(parts, query.text, dense) if dense is not None else None
    if meant is not None:
        best = _add_nearest(best, meant, eligible, wanted)
    places = {term: place for place, term in enumerate(asked)}
    found = rules.rank_rows(
        total,
        np.asarray([share.idf for share in shares[0]]),
        _list_said(parts, shares),
        best,
        partial(_read_sequences, parts, terms=[*asked]),
        [places[term] for term in query.terms],
        eligible,
        WEIGHTS,
        2 * query.limit if meant is None else len(best),
    )
    if dense is not None and meant is not None:
        found = _blend(found, meant, dense.weight)
    found = rules.apply_decay(found, eligible, parts[0].vault.config.recency)
    found = rules.order_rows(found, eligible, searched.ordinals[found.rows])
    sections = (each[found.rows].tolist() for each in (searched.documents, searched.ordinals))
    by_term = [dict(zip(asked, each, strict=True)) for each in shares]
    return Ranked(found, [*zip(*sections, strict=True)], by_term, searched)


def _score_parts(
    searched: Searched, asked: dict[str, float]
) -> tuple[NDArray[np.float32], list[list[Share]]]:
    """Return the sum of all terms' scores, and what each term gives to which rows of each part.

    The sums are those of all rows, with a zero behind them.
    """
    import numpy as np

    statistics = searched.count_terms([*asked])
    total = np.zeros(len(searched.documents) + 1, np.float32)
    shares = [
        part.score_terms(asked, statistics, total[part.first : part.first + part.snapshot.size])
        for part in searched.parts
    ]
    return total, shares


def _list_said(parts: Sequence[Part], shares: Sequence[Sequence[Share]]) -> list[NDArray[np.int64]]:
    """Return the rows that those have said whom the question names."""
    return [
        share.said + part.first
        for part, own in zip(parts, shares, strict=True)
        for share in own
        if len(share.said)
    ]


def _read_sequences(
    parts: Sequence[Part], rows: NDArray[np.int64], terms: Sequence[str]
) -> Sequences:
    """Return the sequences of rows, which are in ascending order."""
    import numpy as np

    from vaultmem.core.finding.closeness import Sequences

    found: list[Sequences] = []
    end = 0
    for part in parts:
        first, last = rows.searchsorted([part.first, part.first + part.snapshot.size])
        own = rows[first:last] - part.first
        if not len(own) and (found or part is not parts[-1]):
            continue
        marks, starts = part.snapshot.mark_sequences(own, terms)
        fields = (part.snapshot.column(f"{name}_length")[own] for name in ("title", "tags"))
        found.append(
            Sequences(marks, starts[bool(found) :] + end, *(each.astype("i8") for each in fields))
        )
        end += len(marks)
    if len(found) == 1:
        return found[0]
    return Sequences(*(np.concatenate(each) for each in zip(*found, strict=True)))


def _score_meaning(parts: Sequence[Part], text: str, dense: Scorer) -> NDArray[np.float32] | None:
    """Return what each row means for a question, nan where that is not known."""
    import numpy as np

    found = [dense(text, part.eligible.mask, part.snapshot) for part in parts]
    if all(each is None for each in found):
        return None
    known = [
        np.full(part.snapshot.size, np.nan, np.float32) if each is None else each
        for part, each in zip(parts, found, strict=True)
    ]
    return known[0] if len(known) == 1 else np.concatenate(known)


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
