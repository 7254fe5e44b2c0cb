"""Make hits of what was ranked and of whole notes: their texts, and why each was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, product
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.finding.grouping import group_places, point_at
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
    """A ranking, what each term gave to which row, and what could be found."""

    ranking: Ranking
    shares: dict[str, Share]
    eligible: EligibleRows


def make_hits(vault: Vault, snapshot: Snapshot, ranked: Ranked, limit: int) -> list[Hit]:
    """Return the best sections with their texts."""
    hits: list[Hit] = []
    is_union = len(vault.view.sources) > 1
    asked = sum(share.idf for share in ranked.shares.values())
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
            hits.append(Hit(*found)._replace(asked=asked))
    return hits


def make_note_hits(
    vault: Vault, snapshot: Snapshot, ranked: Ranked, notes: int, least: int
) -> list[Hit]:
    """Return the best section of so many notes, with what else counts of each in `also`.

    With `least`, so many of the best sections instead, and behind them those that are missing for
    the number of notes.
    """
    documents = snapshot.column("document")[ranked.ranking.rows].tolist()
    groups = group_places(documents, ranked.ranking.score.tolist())
    taken = notes
    while True:
        places = {*range(min(least, len(documents))), *(group[0] for group in groups[:taken])}
        some = ranked._replace(ranking=ranked.ranking.cut(sorted(places)))
        hits = make_hits(vault, snapshot, some, len(places))
        missing = notes - len({hit.record.document for hit in hits})
        if missing <= 0 or taken >= len(groups):
            break
        taken += missing  # So many notes changed meanwhile.
    if least:
        return hits
    further = {documents[best]: rest for best, *rest in groups[:taken] if rest}
    if not further:
        return hits
    return _add_further(vault, snapshot, ranked, hits, further)


def _add_further(
    vault: Vault,
    snapshot: Snapshot,
    ranked: Ranked,
    hits: Sequence[Hit],
    further: Mapping[int, Sequence[int]],
) -> list[Hit]:
    """Return hits with the further sections of each, given by document as places in a ranking."""
    rows, scores = ranked.ranking.rows.tolist(), ranked.ranking.score.tolist()
    wanted = [rows[place] for rest in further.values() for place in rest]
    known = find_places(vault, snapshot, ranked.eligible, wanted)
    also = {
        document: tuple(
            point_at(known[rows[place]][1], scores[place]) for place in rest if rows[place] in known
        )
        for document, rest in further.items()
    }
    return [hit._replace(also=also.get(hit.record.document, ())) for hit in hits]


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
