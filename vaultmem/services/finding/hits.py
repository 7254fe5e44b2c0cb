"""Make hits of what was ranked and of whole notes: their texts, and why each was found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, product
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.finding.grouping import point_at
from vaultmem.core.finding.hit import Hit, Match
from vaultmem.core.finding.terms import FIELDS
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.services.reading.texts import read_section, read_sections
from vaultmem.storage.views import read_places
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.core.finding.ranking import Ranking, Share
    from vaultmem.storage.index.snapshot import Snapshot

#: The fields of a match by whether the term stands in each of them.
_FIELD_NAMES = {has: tuple(compress(FIELDS, has)) for has in product((False, True), repeat=3)}

#: Rows whose note and section are kept for the next question.
_KEPT_PLACES = 4_096


class Ranked(NamedTuple):
    """A ranking and its rows' sections, as document and ordinal; several rows may have one section.

    `shares` are what each term gave to which row, `eligible` what could be found.
    """

    ranking: Ranking
    sections: list[tuple[int, int]]
    shares: dict[str, Share]
    eligible: EligibleRows


def make_hits(
    vault: Vault,
    snapshot: Snapshot,
    ranked: Ranked,
    groups: Sequence[Sequence[int]],
    limit: int,
) -> list[Hit]:
    """Return a hit for each of the first groups, with its text.

    A group has places in the ranking: that of the section which is shown, and of those of its note
    that are only named. Where a note changed meanwhile, the next group takes its place.
    """
    hits: list[Hit] = []
    is_union = len(vault.view.sources) > 1
    asked = sum(share.idf for share in ranked.shares.values())
    all_rows, all_scores = ranked.ranking.rows.tolist(), ranked.ranking.score.tolist()
    start = 0
    while len(hits) < limit and start < len(groups):
        some = groups[start : start + limit - len(hits)]
        start += len(some)
        best = ranked.ranking.cut([group[0] for group in some])
        wanted = [all_rows[place] for group in some for place in group]
        places = find_places(vault, snapshot, ranked.eligible, wanted)
        matches = _explain(best.rows, ranked.shares, snapshot)
        weights = ranked.eligible.state_weight[best.rows].tolist()
        parts = zip(*(part.tolist() for part in best.parts), strict=True)
        for (first, *rest), matched, weight, scored in zip(
            some, matches, weights, parts, strict=True
        ):
            if all_rows[first] not in places:
                continue
            record, section = places[all_rows[first]]
            text = read_section(vault, record, section)
            if text is None:
                continue
            refs = name_refs(vault, record) if is_union else ()
            also = tuple(
                point_at(places[all_rows[place]][1], all_scores[place])
                for place in rest
                if all_rows[place] in places
            )
            score, closeness, passage, neighbours, recency, semantic, named = scored
            found = (record, section, text, score, matched, closeness, weight, refs, "")
            why = (passage, neighbours, recency, semantic, named)
            hits.append(Hit(*found, *why, asked=asked, also=also))
    return hits


def find_places(
    vault: Vault, snapshot: Snapshot, eligible: EligibleRows, rows: Sequence[int]
) -> dict[int, tuple[NoteRecord, SectionRecord]]:
    """Return note and section of each row that has them, kept for the next question."""
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
                matches.append(Match(term, _FIELD_NAMES[tuple(counts)], score, share.idf))
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
