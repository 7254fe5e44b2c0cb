"""Make hits of what was ranked and of whole notes: their texts, and why each was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, product
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.finding.grouping import point_at
from vaultmem.core.finding.hit import Hit, Match
from vaultmem.core.finding.terms import FIELDS
from vaultmem.core.notes.record import NoteRecord, SectionRecord, find_place, place_number
from vaultmem.services.reading.handles import name_notes
from vaultmem.services.reading.texts import read_section, read_sections
from vaultmem.storage.views import read_places
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.core.finding.ranking import Ranking, Share
    from vaultmem.services.finding.parts import Part, Searched
    from vaultmem.storage.index.snapshot import Snapshot

#: The fields of a match by whether the term stands in each of them.
_FIELD_NAMES = {has: tuple(compress(FIELDS, has)) for has in product((False, True), repeat=3)}

#: Rows whose note and section are kept for the next question.
_KEPT_PLACES = 4_096


class Ranked(NamedTuple):
    """A ranking and its rows' sections, as document and ordinal; several rows may have one section.

    `shares` are what each term gave to which row, for each part of what was `searched`.
    """

    ranking: Ranking
    sections: list[tuple[int, int]]
    shares: Sequence[dict[str, Share]]
    searched: Searched


def make_hits(
    ranked: Ranked, groups: Sequence[Sequence[int]], limit: int, words: Mapping[str, str]
) -> list[Hit]:
    """Return a hit for each of the first groups, with its text; `words` are those of the terms.

    A group has places in the ranking: that of the section which is shown, and of those of its note
    that are only named. Where a note changed meanwhile, the next group takes its place.
    """
    hits: list[Hit] = []
    asked = sum(share.idf for share in ranked.shares[0].values())
    all_rows, all_scores = ranked.ranking.rows.tolist(), ranked.ranking.score.tolist()
    start = 0
    while len(hits) < limit and start < len(groups):
        some = groups[start : start + limit - len(hits)]
        start += len(some)
        best = ranked.ranking.cut([group[0] for group in some])
        found = _find_all(ranked.searched, [all_rows[place] for group in some for place in group])
        matches = _explain_all(ranked, best.rows, words)
        weights = ranked.searched.eligible.state_weight[best.rows].tolist()
        parts = zip(*(part.tolist() for part in best.parts), strict=True)
        for (first, *rest), matched, weight, scored in zip(
            some, matches, weights, parts, strict=True
        ):
            if all_rows[first] not in found:
                continue
            part, record, section = found[all_rows[first]]
            text = read_section(part.vault, record, section)
            if text is None:
                continue
            also = tuple(
                point_at(found[all_rows[place]][2], all_scores[place])
                for place in rest
                if all_rows[place] in found
            )
            refs = name_refs(part.vault, record)
            score, closeness, passage, neighbours, recency, semantic, named = scored
            what = (record, section, text, score, matched, closeness, weight, refs, "")
            why = (passage, neighbours, recency, semantic, named)
            hit = Hit(*what, *why, asked=asked, also=also)
            hits.append(hit if part.is_alone else name_vault(hit, part.vault, part.place))
    return hits


def name_vault(hit: Hit, vault: Vault, place: int) -> Hit:
    """Return a hit as one among those of several vaults, of which its own is the `place`-th."""
    if not (place or vault.beside):
        return hit
    document = place_number(hit.record.document, place)
    record = hit.record._replace(document=document)
    section = hit.section._replace(document=document)
    return hit._replace(record=record, section=section, vault=vault.name)


def in_each(
    vault: Vault, hits: Sequence[Hit], change: Callable[[Vault, list[Hit]], list[Hit]]
) -> list[Hit]:
    """Return hits as `change` makes them of those of each vault.

    What it leaves out or brings changes nothing in the order of the others.
    """
    if not vault.beside:
        return change(vault, [*hits])
    order = {(hit.record.document, hit.section.ordinal): n for n, hit in enumerate(hits)}
    placed: list[tuple[int, Hit]] = []
    for place, (each, own) in enumerate(divide_hits(vault, hits)):
        behind = -1
        of_each: list[tuple[int, Hit]] = []
        for hit in (name_vault(hit, each, place) for hit in change(each, own)):
            behind = order.get((hit.record.document, hit.section.ordinal), behind)
            of_each.append((behind, hit))
        for n in range(len(of_each) - 1, 0, -1):  # What was moved up stands before what is behind.
            at = min(of_each[n - 1][0], of_each[n][0])
            of_each[n - 1] = (at, of_each[n - 1][1])
        placed += of_each
    return [hit for _, hit in sorted(placed, key=lambda each: each[0])]


def name_hits(vault: Vault, hits: Sequence[Hit]) -> dict[int, str]:
    """Return for each hit's document the handle that its own vault knows it by."""
    return {
        place_number(document, place): handle
        for place, (each, own) in enumerate(divide_hits(vault, hits))
        for document, handle in name_notes(each, own).items()
    }


def divide_hits(vault: Vault, hits: Iterable[Hit]) -> list[tuple[Vault, list[Hit]]]:
    """Return each vault that was asked with its own hits, as it knows them by itself."""
    if not vault.beside:
        return [(vault, [*hits])]
    found: list[tuple[Vault, list[Hit]]] = [(each, []) for each in vault.together]
    for hit in hits:
        place = find_place(hit.record.document)
        document = place_number(hit.record.document, -place)
        record = hit.record._replace(document=document)
        section = hit.section._replace(document=document)
        found[place][1].append(hit._replace(record=record, section=section))
    return found


def _find_all(
    searched: Searched, rows: Sequence[int]
) -> dict[int, tuple[Part, NoteRecord, SectionRecord]]:
    """Return part, note and section of each row that has them."""
    found: dict[int, tuple[Part, NoteRecord, SectionRecord]] = {}
    for part in searched.parts:
        own = [row - part.first for row in rows if 0 <= row - part.first < part.snapshot.size]
        places = find_places(part.vault, part.snapshot, part.eligible, own) if own else {}
        found |= {row + part.first: (part, *place) for row, place in places.items()}
    return found


def _explain_all(
    ranked: Ranked, rows: NDArray[np.int64], words: Mapping[str, str]
) -> list[tuple[Match, ...]]:
    """Return for each row the terms that stand in it."""
    parts = ranked.searched.parts
    if len(parts) == 1:
        return _explain(rows, ranked.shares[0], parts[0].snapshot, words)
    found: dict[int, tuple[Match, ...]] = {}
    for part, shares in zip(parts, ranked.shares, strict=True):
        own = rows[(rows >= part.first) & (rows < part.first + part.snapshot.size)]
        if len(own):
            told = _explain(own - part.first, shares, part.snapshot, words)
            found |= dict(zip(own.tolist(), told, strict=True))
    return [found[row] for row in rows.tolist()]


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
