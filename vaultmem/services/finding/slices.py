"""Cut out of an index, or of several that are searched as one, what may answer a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.finding.terms import weak_terms
from vaultmem.core.notes.record import find_place, place_number
from vaultmem.services.finding.parts import Part, Scorer, Searched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.closeness import Sequences
    from vaultmem.core.finding.joined import Slice
    from vaultmem.core.finding.ranking import Share
    from vaultmem.core.finding.statistics import Statistics

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]
    Numbers = NDArray[np.int64]


def weigh_asked(query: RecallQuery) -> dict[str, float]:
    """Return the different terms of a question with what each counts for."""
    from vaultmem.core.finding.ranking import weigh_query
    from vaultmem.core.finding.weights import WEIGHTS

    asked = weigh_query([*query.terms, *query.compounds], weak_terms(), WEIGHTS)
    return asked | {term: asked[term] * WEIGHTS.near for term in query.near}


def weigh_terms(asked: Mapping[str, float], statistics: Statistics) -> list[float]:
    """Return the weighted idf of each term of a question."""
    from vaultmem.core.finding.ranking import measure_idf

    counts = statistics.counts
    return [measure_idf(statistics.sections, counts[term]) * asked[term] for term in asked]


def cut_slice(
    searched: Searched,
    query: RecallQuery,
    statistics: Statistics,
    dense: Scorer | None,
    as_part: bool,
) -> tuple[Slice, list[dict[str, Share]]]:
    """Return what may answer, and what each term gives to which rows of each part.

    `statistics` are those of all who are asked. What is cut `as_part` can be joined with others'.
    """
    import numpy as np

    from vaultmem.core.finding import joined as rules
    from vaultmem.core.finding.ranking import best_rows
    from vaultmem.core.finding.weights import WEIGHTS

    parts, eligible = searched.parts, searched.eligible
    asked = weigh_asked(query)
    total, shares = _score_parts(searched, asked, statistics)
    wanted = rules.count_candidates(query.limit, WEIGHTS)
    best = best_rows(total, wanted, eligible.place, shares[0] if len(parts) == 1 else ())
    read = best[: rules.count_read(query.limit, WEIGHTS)]
    meant = _score_meaning(parts, query.text, dense) if dense is not None else None
    near = best[:0]
    if meant is not None:
        near = _find_nearest(meant, searched, wanted)
        read = np.concatenate([best, near[~np.isin(near, best)]])
    rows = rules.choose_rows(np.concatenate([best, near]), total, eligible.neighbours)
    documents = searched.documents[rows].astype(np.int64)
    found = rules.Slice(
        rows=rows,
        documents=documents,
        ordinals=searched.ordinals[rows].astype(np.int64),
        place=eligible.place[rows].astype(np.int64),
        paths=_name_paths(parts, documents) if as_part else (),
        total=total[rows],
        is_best=np.isin(rows, best),
        **_read_words(searched, query, statistics, asked, shares, total, rows, np.sort(read)),
        meaning=None if meant is None else meant[rows],
        is_near=None if meant is None else np.isin(rows, near),
        neighbours=rules.place_neighbours(rows, eligible.neighbours, WEIGHTS),
        recency=eligible.recency[rows],
        state_weight=eligible.state_weight[rows],
    )
    return found, [dict(zip(asked, each, strict=True)) for each in shares]


def _score_parts(
    searched: Searched, asked: Mapping[str, float], statistics: Statistics
) -> tuple[Floats, list[list[Share]]]:
    """Return the sum of all terms' scores, and what each term gives to which rows of each part.

    The sums are those of all rows, with a zero behind them.
    """
    import numpy as np

    total = np.zeros(len(searched.documents) + 1, np.float32)
    shares = [
        part.score_terms(asked, statistics, total[part.first : part.first + part.snapshot.size])
        for part in searched.parts
    ]
    return total, shares


def _read_words(
    searched: Searched,
    query: RecallQuery,
    statistics: Statistics,
    asked: Mapping[str, float],
    shares: Sequence[Sequence[Share]],
    total: Floats,
    rows: Numbers,
    read: Numbers,
) -> dict[str, Doubles]:
    """Return what the order of words adds to those of the rows that are read, by name."""
    import numpy as np

    from vaultmem.core.finding.closeness import measure_order
    from vaultmem.core.finding.weights import WEIGHTS

    added = np.zeros((3, len(rows)))
    if asked and len(read):  # A question of stop words can be answered by meaning alone.
        places = {term: place for place, term in enumerate(asked)}
        eligible = searched.eligible
        added[:, rows.searchsorted(read)] = measure_order(
            _read_sequences(searched.parts, read, [*asked]),
            [places[term] for term in query.terms],
            np.asarray(weigh_terms(asked, statistics)),
            total[read],
            _find_said(searched.parts, shares, read),
            (eligible.k1, eligible.b, eligible.mean),
            WEIGHTS,
        )
    return dict(zip(("closeness", "passage", "named"), added, strict=True))


def _find_said(
    parts: Sequence[Part], shares: Sequence[Sequence[Share]], rows: Numbers
) -> NDArray[np.bool_]:
    """Tell which of some rows were said by somebody whom the question names."""
    import numpy as np

    is_said = np.zeros(len(rows), np.bool_)
    for part, own in zip(parts, shares, strict=True):
        for said in (share.said + part.first for share in own if len(share.said)):
            is_said |= said.take(said.searchsorted(rows), mode="clip") == rows
    return is_said


def _name_paths(parts: Sequence[Part], documents: Numbers) -> list[str]:
    """Return the path of each document."""
    vaults = {part.place: part.vault for part in parts}
    known: dict[int, Mapping[int, str]] = {}
    for place in {*find_place(documents).tolist()}:
        view = vaults[place].view
        known[place] = view.keep("paths", view.paths)
    paths = []
    for document in documents.tolist():
        place = find_place(document)
        paths.append(known[place][place_number(document, -place)])
    return paths


def _read_sequences(parts: Sequence[Part], rows: Numbers, terms: Sequence[str]) -> Sequences:
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


def _score_meaning(parts: Sequence[Part], text: str, dense: Scorer) -> Floats | None:
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


def _find_nearest(meant: Floats, searched: Searched, wanted: int) -> Numbers:
    """Return the best rows by meaning."""
    import numpy as np

    from vaultmem.core.finding.ranking import order_best

    eligible = searched.eligible
    rows = (eligible.mask & ~np.isnan(meant)).nonzero()[0]
    if len(rows) > wanted:
        scores = meant[rows]
        at = len(scores) - wanted
        rows = rows[scores >= scores[scores.argpartition(at)[at]]]
    return rows[order_best(meant[rows], eligible.place[rows], wanted)]
