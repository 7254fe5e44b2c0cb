"""Rank what a question finds: in one vault, or in several as in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.finding.query import RecallQuery, keep_rarest
from vaultmem.services.finding.slices import weigh_asked, weigh_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.joined import Ranking, Slice
    from vaultmem.services.finding.ground import Ground


class Ranked(NamedTuple):
    """A ranking and its rows' sections, as document and ordinal; several rows may have one section.

    The rows are places in what was `found`; `asked` is the weighted idf of all terms.
    """

    ranking: Ranking
    sections: list[tuple[int, int]]
    found: Slice
    asked: float


def rank_sections(ground: Ground, query: RecallQuery) -> Ranked:
    """Return the best sections that a question finds, best first."""
    from vaultmem.core.finding.joined import apply_decay, order_rows, rank_slice
    from vaultmem.core.finding.weights import WEIGHTS

    query = keep_rarest(query, ground.count_all)
    asked = weigh_asked(query)
    statistics = ground.count_terms([*asked])
    found = ground.cut(query, statistics)
    ranking = rank_slice(found, query.limit, WEIGHTS)
    if found.meaning is not None:
        ranking = _blend(ranking, found.meaning[ranking.rows], ground.by_words)
    ranking = order_rows(apply_decay(ranking, found, ground.recency), found)
    sections = (each[ranking.rows].tolist() for each in (found.documents, found.ordinals))
    mass = sum(weigh_terms(asked, statistics))
    return Ranked(ranking, [*zip(*sections, strict=True)], found, mass)


def _blend(ranking: Ranking, meant: NDArray[np.float32], by_words: float) -> Ranking:
    import numpy as np

    from vaultmem.core.finding.blending import blend_scores

    score = np.asarray(blend_scores(ranking.score, meant, by_words), np.float64)
    return ranking._replace(score=score, semantic=np.nan_to_num(meant))
