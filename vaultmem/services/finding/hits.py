"""Make hits of what was ranked and of whole notes: their texts, and why each was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, product
from typing import TYPE_CHECKING

from vaultmem.core.finding.grouping import point_at
from vaultmem.core.finding.hit import Hit, Match
from vaultmem.core.finding.terms import FIELDS
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.services.finding.eligible import Scope
from vaultmem.services.reading.texts import read_section, read_sections
from vaultmem.storage.links import LinkStore
from vaultmem.storage.views import read_places
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.ranking import Share
    from vaultmem.services.finding.score import Ranked
    from vaultmem.storage.index.snapshot import Snapshot

#: The fields of a match by whether the term stands in each of them.
_FIELD_NAMES = {has: tuple(compress(FIELDS, has)) for has in product((False, True), repeat=3)}

#: Rows whose note and section are kept for the next question.
_KEPT_PLACES = 4_096


def make_hits(
    scope: Scope,
    ranked: Ranked,
    groups: Sequence[Sequence[int]],
    limit: int,
    words: Mapping[str, str],
) -> list[Hit]:
    """Return a hit for each of the first groups, with its text; `words` are those of the terms.

    If a note changed since it was indexed, the next group takes its place.
    """
    hits: list[Hit] = []
    rows, scores = ranked.ranking.rows.tolist(), ranked.ranking.score.tolist()
    start = 0
    while len(hits) < limit and start < len(groups):
        some = groups[start : start + limit - len(hits)]
        start += len(some)
        places = find_places(scope, [rows[place] for group in some for place in group])
        some = [group for group in some if rows[group[0]] in places]
        best = ranked.ranking.cut([first for first, *_ in some])
        matches = explain(best.rows, ranked.shares, scope.snapshot, words)
        parts = zip(*(part.tolist() for part in best.parts), strict=True)
        for group, why, scored in zip(some, matches, parts, strict=True):
            record, section = places[rows[group[0]]]
            text = read_section(scope.vault, record, section)
            if text is None:
                continue
            score, closeness, passage, neighbours, recency, semantic, named = scored
            also = (place for place in group[1:] if rows[place] in places)
            hits.append(
                Hit(
                    record,
                    section,
                    text,
                    score,
                    why,
                    closeness,
                    float(scope.eligible.state_weight[rows[group[0]]]),
                    name_refs(scope.vault, record),
                    passage=passage,
                    neighbours=neighbours,
                    recency=recency,
                    semantic=semantic,
                    named=named,
                    replaces=_find_replaced(scope, record),
                    asked=ranked.asked,
                    also=tuple(point_at(places[rows[n]][1], scores[n]) for n in also),
                )
            )
    return hits


def _find_replaced(scope: Scope, record: NoteRecord) -> tuple[str, ...]:
    """Return the notes that a note supersedes."""
    kept = scope.eligible.kept
    if "replaced" not in kept:
        kept["replaced"] = LinkStore(scope.vault.state).targets_in("supersedes")
    return tuple(kept["replaced"].get(record.document, ()))


def find_places(scope: Scope, rows: Sequence[int]) -> dict[int, tuple[NoteRecord, SectionRecord]]:
    """Return note and section of each row that has them, cached for the next query."""
    vault, snapshot, eligible = scope
    kept: dict[int, tuple[NoteRecord, SectionRecord]] = eligible.kept.setdefault("places", {})
    if len(kept) > _KEPT_PLACES:
        kept.clear()
    unknown = [row for row in rows if row not in kept]
    if unknown:
        columns = (snapshot.column(name)[unknown].tolist() for name in ("document", "ordinal"))
        keys = list(zip(*columns, strict=True))
        times = eligible.times[eligible.place[unknown]].tolist()
        known = read_places(vault.state, dict(zip(keys, times, strict=True)))
        for document, problem in vault.view.problems().items():
            for key in [key for key in known if key[0] == document]:
                record, section = known[key]
                known[key] = (record._replace(problem=problem), section)
        kept |= {row: known[key] for row, key in zip(unknown, keys, strict=True) if key in known}
    return {row: kept[row] for row in rows if row in kept}


def explain(
    rows: NDArray[np.int64],
    shares: Mapping[str, Share],
    snapshot: Snapshot,
    words: Mapping[str, str],
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
                fields = _FIELD_NAMES[tuple(counts)]
                matches.append(Match(term, fields, score, share.idf, words.get(term, term)))
    return [tuple(matches) for matches in found]


def name_refs(vault: Vault, record: NoteRecord) -> tuple[str, ...]:
    """Return which refs hold a note, where several are looked at together."""
    return vault.view.sources_of(record.document) if len(vault.view.sources) > 1 else ()


def list_sections(vault: Vault, records: Sequence[NoteRecord]) -> list[Hit]:
    """Return all sections of notes, in the order of the notes."""
    sections = vault.view.sections_of({record.document for record in records})
    ordered: dict[int, list[int]] = {}
    for document, ordinal in sorted(sections):
        ordered.setdefault(document, []).append(ordinal)
    places = [
        (record, sections[record.document, ordinal])
        for record in records
        for ordinal in ordered.get(record.document, [])
    ]
    return [
        Hit(record, section, text, 0.0, (), 0.0, 1.0, name_refs(vault, record))
        for record, section, text in read_sections(vault, places)
    ]
