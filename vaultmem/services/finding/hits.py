"""Make hits of what was ranked and of whole notes: their texts, and why each was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, product
from typing import TYPE_CHECKING

from vaultmem.core.finding.grouping import point_at
from vaultmem.core.finding.hit import Hit, Match
from vaultmem.core.finding.terms import FIELDS
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.services.reading.texts import read_sections
from vaultmem.storage.views import read_places
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.core.finding.ranking import Share
    from vaultmem.services.finding.ground import Ground
    from vaultmem.services.finding.rank import Ranked
    from vaultmem.storage.index.snapshot import Snapshot

#: The fields of a match by whether the term stands in each of them.
_FIELD_NAMES = {has: tuple(compress(FIELDS, has)) for has in product((False, True), repeat=3)}

#: Rows whose note and section are kept for the next question.
_KEPT_PLACES = 4_096


def make_hits(
    ground: Ground,
    ranked: Ranked,
    groups: Sequence[Sequence[int]],
    limit: int,
    words: Mapping[str, str],
) -> list[Hit]:
    """Return a hit for each of the first groups, with its text; `words` are those of the terms.

    A group has places in the ranking: that of the section which is shown, and of those of its note
    that are only named. Where a note changed meanwhile, the next group takes its place.
    """
    hits: list[Hit] = []
    rows, scores = ranked.ranking.rows.tolist(), ranked.ranking.score.tolist()
    start = 0
    while len(hits) < limit and start < len(groups):
        some = groups[start : start + limit - len(hits)]
        start += len(some)
        best = ranked.ranking.cut([first for first, *_ in some])
        named = [rows[place] for _, *rest in some for place in rest]
        read = ground.read(ranked.found, best.rows.tolist(), named, words)
        weights = ranked.found.state_weight[best.rows].tolist()
        parts = zip(*(part.tolist() for part in best.parts), strict=True)
        for (first, *rest), weight, scored in zip(some, weights, parts, strict=True):
            if rows[first] not in read:
                continue
            record, section, text, matches, refs, replaces, vault = read[rows[first]]
            also = tuple(
                point_at(read[rows[place]].section, scores[place])
                for place in rest
                if rows[place] in read
            )
            score, closeness, passage, neighbours, recency, semantic, named_ = scored
            what = (record, section, text, score, matches, closeness, weight, refs, "")
            why = (passage, neighbours, recency, semantic, named_, replaces, ranked.asked)
            hits.append(Hit(*what, *why, also=also, vault=vault))
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


def explain(
    rows: NDArray[np.int64],
    shares: dict[str, Share],
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
